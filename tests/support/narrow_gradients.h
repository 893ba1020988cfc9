// Kernels on 16-bit gradients, on any device: results equal those of the CPU on the same elements as float32.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/codes/encode_blocks.h"
#include "kernels/codes/ternarize.h"
#include "kernels/statistics/statistics.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/element_type.h"
#include "kernels/tensor/float16.h"
#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/gradients.h"
#include "support/guarded_array.h"
#include "support/reference.h"

namespace terngrad::testing {

inline constexpr ElementType kNarrowTypes[] = {ElementType::kBfloat16, ElementType::kFloat16};

/// 16-bit elements with their float32 values.
struct NarrowGradient {
  ElementType type = ElementType::kBfloat16;
  std::vector<std::uint16_t> elements;
  std::vector<float> widened;

  NarrowGradient(ElementType t, std::vector<std::uint16_t> values) : type(t), elements(std::move(values)) {
    for (const std::uint16_t element : elements) {
      widened.push_back(type == ElementType::kBfloat16 ? reference::from_bfloat16(element)
                                                       : reference::from_float16(element));
    }
  }
  NarrowGradient first(std::size_t count) const {
    return {type, {elements.begin(), elements.begin() + static_cast<std::ptrdiff_t>(count)}};
  }
};

inline NarrowGradient rounded(ElementType type, std::span<const float> values) {
  std::vector<std::uint16_t> elements;
  for (const float value : values) {
    elements.push_back(type == ElementType::kBfloat16 ? to_bfloat16(value) : to_float16(value));
  }
  return {type, std::move(elements)};
}

inline NarrowGradient narrow_gaussian(ElementType type, std::size_t count, std::uint64_t seed) {
  return rounded(type, gaussian(count, seed));
}

/// All finite values, including both zeros and the subnormals, in random order.
inline NarrowGradient every_finite_value(ElementType type) {
  const std::uint32_t infinity = type == ElementType::kBfloat16 ? 0x7f80u : 0x7c00u;
  std::vector<std::uint16_t> elements;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    if ((bits & 0x7fffu) < infinity) elements.push_back(static_cast<std::uint16_t>(bits));
  }
  std::mt19937_64 random(1);
  for (std::size_t i = elements.size(); i-- > 1;) std::swap(elements[i], elements[random() % (i + 1)]);
  return {type, std::move(elements)};
}

/// Statistics of slices of one tensor. @param start  misalignment of the first element, in elements
template <class T>
std::vector<Statistics> statistics_of(std::span<const T> elements, ElementType type, std::size_t start,
                                      const std::vector<Slice>& slices, Stream& stream) {
  Layout layout;
  layout.add("g", {static_cast<std::int64_t>(elements.size())});
  GuardedArray<T> gradient(elements, start, stream);
  StatisticsPlan plan(slices, stream.device());
  Buffer<Statistics> out(static_cast<std::int64_t>(slices.size()), stream.device());
  plan.run(TensorTable(layout, type, gradient.data()), out.span(), stream);
  return to_host<Statistics>(out.span(), stream);
}

/// Arguments of the ternarization of one slice.
struct TernarizeCase {
  std::vector<float> scalers = {2.5f};
  std::vector<float> clips;  // empty: no clipping
  std::int64_t first = 0;
  std::int64_t block_elements = 0;
  TernarizeOptions options;
};

/// Payload of one slice.
template <class T>
std::vector<std::uint8_t> ternarized(std::span<const T> elements, ElementType type, std::size_t start,
                                     const TernarizeCase& c, Stream& stream) {
  const auto count = static_cast<std::int64_t>(elements.size());
  const auto words = static_cast<std::size_t>(payload_bytes(c.options.format, count, c.options.num_workers) + 7) / 8;
  GuardedArray<T> gradient(elements, start, stream);
  GuardedArray<float> scalers(c.scalers, 0, stream);
  GuardedArray<float> clips(c.clips, 0, stream);
  GuardedArray<std::uint64_t> payload(std::vector<std::uint64_t>(words, 0xa5a5a5a5a5a5a5a5u), 0, stream);
  const TernarizeTask task{.gradient = gradient.data(),
                           .first = c.first,
                           .count = count,
                           .draw_offset = 128,
                           .block_elements = c.block_elements,
                           .scalers = scalers.data(),
                           .clips = c.clips.empty() ? nullptr : clips.data(),
                           .payload = reinterpret_cast<std::uint8_t*>(payload.data()),
                           .worker = 5,
                           .type = type};
  std::int64_t bytes = -1;
  const DrawKey key{0x0123456789abcdef, 42, 3, DrawPurpose::kTernarize};
  ternarize({&task, 1}, c.options, key, {&bytes, 1}, stream);
  const std::vector<std::uint64_t> written = payload.values();
  const auto* begin = reinterpret_cast<const std::uint8_t*>(written.data());
  return {begin, begin + bytes};
}

/// Scalers, as bits, and t2 codes of one tensor.
struct EncodedBlocks {
  std::vector<std::uint32_t> scalers;
  std::vector<std::uint32_t> words;
  friend bool operator==(const EncodedBlocks&, const EncodedBlocks&) = default;
};

template <class T>
EncodedBlocks encoded_blocks(std::span<const T> elements, ElementType type, std::size_t start,
                             std::int64_t block_elements, double clip_factor, Stream& stream) {
  const auto count = static_cast<std::int64_t>(elements.size());
  GuardedArray<T> gradient(elements, start, stream);
  GuardedArray<float> scalers(std::vector<float>(static_cast<std::size_t>(num_blocks(0, count, block_elements)), -1.0f),
                              0, stream);
  GuardedArray<std::uint32_t> words(std::vector<std::uint32_t>((elements.size() + 15) / 16, 0xa5a5a5a5u), 0, stream);
  const EncodeBlocksTask task{.gradient = gradient.data(),
                              .count = count,
                              .draw_offset = 64,
                              .block_elements = block_elements,
                              .scalers = scalers.data(),
                              .payload = reinterpret_cast<std::uint8_t*>(words.data()),
                              .worker = 2,
                              .type = type};
  encode_blocks({&task, 1}, clip_factor, ScalerRule::kPaper, {7, 3, 1, DrawPurpose::kTernarize}, stream);
  return {bits_of(scalers.values()), words.values()};
}

/// Expects that statistics of the 16-bit elements on `stream` equal those of the widened elements on the CPU.
inline void expect_statistics_of_widened(const NarrowGradient& gradient, std::size_t start,
                                         const std::vector<Slice>& slices, Stream& stream, const std::string& what) {
  Stream cpu(Device::cpu(), 1);
  const std::vector<Statistics> expected =
      statistics_of<float>(gradient.widened, ElementType::kFloat32, 0, slices, cpu);
  const std::vector<Statistics> found =
      statistics_of<std::uint16_t>(gradient.elements, gradient.type, start, slices, stream);
  for (std::size_t i = 0; i < slices.size(); ++i) {
    ASSERT_EQ(found[i].max_bits, expected[i].max_bits) << element_type_name(gradient.type) << ", " << what << ' ' << i;
    ASSERT_EQ(found[i].reserved, 0u);
    if (expected[i].is_nonfinite()) continue;  // sums are unspecified
    ASSERT_EQ(bits_of(found[i].sum), bits_of(expected[i].sum)) << element_type_name(gradient.type) << ", " << what;
    ASSERT_EQ(bits_of(found[i].sum_squares), bits_of(expected[i].sum_squares)) << what;
  }
}

inline void expect_codes_of_widened(const NarrowGradient& gradient, std::size_t start, const TernarizeCase& c,
                                    Stream& stream, const std::string& what) {
  Stream cpu(Device::cpu(), 1);
  ASSERT_EQ(ternarized<std::uint16_t>(gradient.elements, gradient.type, start, c, stream),
            ternarized<float>(gradient.widened, ElementType::kFloat32, 0, c, cpu))
      << element_type_name(gradient.type) << ' ' << to_string(c.options.format) << ", " << what;
}

inline void expect_blocks_of_widened(const NarrowGradient& gradient, std::size_t start, std::int64_t block_elements,
                                     double clip_factor, Stream& stream, const std::string& what) {
  Stream cpu(Device::cpu(), 1);
  ASSERT_EQ(encoded_blocks<std::uint16_t>(gradient.elements, gradient.type, start, block_elements, clip_factor, stream),
            encoded_blocks<float>(gradient.widened, ElementType::kFloat32, 0, block_elements, clip_factor, cpu))
      << element_type_name(gradient.type) << " in blocks of " << block_elements << ", " << what;
}

}  // namespace terngrad::testing
