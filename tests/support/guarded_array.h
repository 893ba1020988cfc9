// Device arrays with a chosen alignment, surrounded by guard elements.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "support/cuda_device.h"

namespace terngrad::testing {

/// Copy of `values` on the stream's device; the first element is `start` elements after an aligned address.
template <class T>
class GuardedArray {
 public:
  GuardedArray(std::type_identity_t<std::span<const T>> values, std::size_t start, Stream& stream)
      : start_(start), num_values_(values.size()), stream_(stream) {
    std::vector<T> all(kAlignment + start + values.size() + kAlignment, guard());
    std::copy(values.begin(), values.end(), all.begin() + static_cast<std::ptrdiff_t>(first()));
    memory_ = to_device<T>(all, stream);
  }

  std::span<T> span() { return memory_.span().subspan(first(), num_values_); }
  T* data() { return span().data(); }

  /// Waits for the stream and returns the values; fails the test if a guard was overwritten.
  std::vector<T> values() {
    std::vector<T> all = to_host<T>(memory_.span(), stream_);
    const T expected = guard();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i >= first() && i < first() + num_values_) continue;
      EXPECT_EQ(std::memcmp(&all[i], &expected, sizeof(T)), 0)
          << "written outside, at " << static_cast<std::int64_t>(i - first()) << " of " << num_values_;
    }
    return {all.begin() + static_cast<std::ptrdiff_t>(first()),
            all.begin() + static_cast<std::ptrdiff_t>(first() + num_values_)};
  }

 private:
  /// Number of guard elements on each side; a multiple of the vector size, so that `start` decides the alignment.
  static constexpr std::size_t kAlignment = 64;
  static T guard() {
    T value;
    std::memset(&value, 0x5a, sizeof(T));
    return value;
  }
  std::size_t first() const { return kAlignment + start_; }

  std::size_t start_;
  std::size_t num_values_;
  Stream& stream_;
  Buffer<T> memory_;
};

/// Equal bits, or both NaN: NaN payloads differ between processors.
inline bool same_value(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

inline void expect_same_values(std::span<const float> cuda, std::span<const float> cpu, const std::string& what) {
  ASSERT_EQ(cuda.size(), cpu.size()) << what;
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    ASSERT_TRUE(same_value(cuda[i], cpu[i]))
        << what << ": element " << i << " of " << cpu.size() << " is " << cuda[i] << ", on the CPU " << cpu[i];
  }
}

}  // namespace terngrad::testing
