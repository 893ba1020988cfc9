// Test slices for the encoder of randomly selected elements (randomk), used on both backends.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/sparse/drawn_payload.h"
#include "support/gradients.h"

namespace terngrad::testing {

struct DrawnCase {
  std::vector<float> values;
  DrawnShape shape = {};
  std::int64_t draw_offset = 0;
  bool is_finite = true;

  float flag() const { return is_finite ? 0.0f : std::numeric_limits<float>::quiet_NaN(); }
  std::string text() const {
    return std::to_string(shape.count) + " from " + std::to_string(shape.first) + " in groups of " +
           std::to_string(shape.group_elements);
  }
};

inline constexpr std::uint64_t kDrawnSeed = 0x0123456789abcdef;
inline constexpr std::uint64_t kDrawnStep = 42;

/// Slices at the start and inside of a tensor, with complete and incomplete groups.
inline std::vector<DrawnCase> drawn_cases(SparseValues values) {
  std::vector<DrawnCase> cases;
  for (const std::int64_t q : {1, 2, 3, 10, 100, 5000, 100000}) {
    for (const std::int64_t first : {0, 4096, 12288}) {
      for (const std::int64_t count : {1, 7, 4096, 9001}) {
        cases.push_back({gaussian(static_cast<std::size_t>(count), static_cast<std::uint64_t>(q + count)),
                         {first, count, q, values},
                         128 * (q % 5)});
      }
    }
  }
  // 1024 groups (the number of threads of a GPU block) that start inside a block of draws.
  cases.push_back({gaussian(3070, 4), {4096, 3070, 3, values}});
  cases.push_back({gaussian(5000, 3), {0, 5000, 10, values}, 256, false});
  cases.back().values[10] = std::numeric_limits<float>::quiet_NaN();
  return cases;
}

/// Payload that the CPU backend encodes.
inline std::vector<std::uint8_t> drawn_on_cpu(const DrawnCase& c, float factor = 1, int num_threads = 1,
                                              std::uint64_t step = kDrawnStep) {
  const std::int64_t bytes = drawn_bytes(c.shape);
  std::vector<std::uint64_t> words(static_cast<std::size_t>((bytes + 7) / 8), ~std::uint64_t{0});
  auto* const payload = reinterpret_cast<std::uint8_t*>(words.data());
  const float flag = c.flag();
  const DrawnEncodeTask task{
      .values = c.values.data(), .flag = &flag, .shape = c.shape, .draw_offset = c.draw_offset, .payload = payload};
  Stream stream(Device::cpu(), num_threads);
  DrawnEncoder().run({&task, 1}, factor, kDrawnSeed, step, stream);
  return {payload, payload + bytes};
}

}  // namespace terngrad::testing
