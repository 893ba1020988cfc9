// Slices to quantize to FP8, a plain reference of the codes, and the kernels run on them.
#pragma once

#include <string>
#include <vector>

#include "kernels/codes/fp8.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"
#include "support/gradients.h"
#include "support/guarded_array.h"
#include "support/reference.h"

namespace terngrad::testing {

/// One slice with everything that it points to, in host memory.
struct Fp8Case {
  std::vector<float> gradient = {};
  std::vector<float> scalers = {0.01f};
  std::int64_t first = 0;
  std::int64_t draw_offset = 128;
  std::int64_t block_elements = 0;
  std::uint32_t worker = 5;
  Fp8Options options = {};
  DrawKey key = {0x0123456789abcdef, 42, 3, DrawPurpose::kQuantize};
  std::size_t misalignment = 0;  // of the gradient, in elements
  ElementType type = ElementType::kFloat32;
  std::vector<std::uint16_t> narrow = {};  // the elements if they have 16 bits

  std::int64_t count() const { return static_cast<std::int64_t>(gradient.size()); }
  std::string text() const {
    return (options.rounding == Rounding::kNearest ? "nearest, " : "drawn, ") + std::to_string(count());
  }
  /// Makes the elements those of a narrow type.
  void round_gradient_to(ElementType narrow_type) {
    type = narrow_type;
    for (float& g : gradient) {
      const bool is_bfloat16 = type == ElementType::kBfloat16;
      narrow.push_back(is_bfloat16 ? to_bfloat16(g) : to_float16(g));
      g = is_bfloat16 ? reference::from_bfloat16(narrow.back()) : reference::from_float16(narrow.back());
    }
  }
};

inline reference::Bytes reference_payload(const Fp8Case& c) {
  const reference::Stream stream{c.key.seed, c.key.step, c.key.worker + c.worker,
                                 static_cast<std::uint32_t>(c.key.purpose)};
  reference::Stream refine = stream;
  refine.purpose = static_cast<std::uint32_t>(c.options.refine_purpose);
  const auto first_draw = static_cast<std::uint64_t>(c.draw_offset + c.first);
  const std::vector<std::uint32_t> r16 = reference::draws16(stream, first_draw, c.gradient.size());
  const bool is_nearest = c.options.rounding == Rounding::kNearest;
  reference::Bytes bytes;
  for (std::size_t i = 0; i < c.gradient.size(); ++i) {
    const auto at = c.first + static_cast<std::int64_t>(i);
    const std::int64_t block = c.block_elements == 0 ? 0 : at / c.block_elements - c.first / c.block_elements;
    const float s = c.scalers[static_cast<std::size_t>(block)];
    // The refinement decides only where the code differs for its two extremes.
    const std::uint8_t low = reference::e4m3_code(c.gradient[i], s, is_nearest, r16[i], 0xffffff);
    const std::uint8_t high = reference::e4m3_code(c.gradient[i], s, is_nearest, r16[i], 0);
    bytes.push_back(low == high ? low
                                : reference::e4m3_code(c.gradient[i], s, is_nearest, r16[i],
                                                       reference::draw24(refine, first_draw + i)));
  }
  while (bytes.size() % 4 != 0) bytes.push_back(0);
  return bytes;
}

/// Cases of equal options and element types, as one call on a stream's device quantizes them.
inline std::vector<reference::Bytes> quantized(std::span<const Fp8Case> cases, Fp8Quantizer& quantizer, Stream& stream,
                                               const std::uint64_t* device_step = nullptr) {
  std::vector<GuardedArray<float>> wide;
  std::vector<GuardedArray<std::uint16_t>> narrow;
  std::vector<GuardedArray<float>> scalers;
  std::vector<GuardedArray<std::uint32_t>> payloads;
  std::vector<QuantizeTask> tasks;
  for (const Fp8Case& c : cases) {
    wide.emplace_back(c.narrow.empty() ? std::span<const float>(c.gradient) : std::span<const float>(), c.misalignment,
                      stream);
    narrow.emplace_back(c.narrow, c.misalignment, stream);
    scalers.emplace_back(c.scalers, 0, stream);
    // At an odd word: payloads are multiples of 4 bytes.
    payloads.emplace_back(std::vector<std::uint32_t>((c.gradient.size() + 3) / 4, 0xa5a5a5a5u), c.misalignment % 2,
                          stream);
    tasks.push_back({.gradient = c.narrow.empty() ? static_cast<const void*>(wide.back().data())
                                                  : static_cast<const void*>(narrow.back().data()),
                     .first = c.first,
                     .count = c.count(),
                     .draw_offset = c.draw_offset,
                     .block_elements = c.block_elements,
                     .scalers = scalers.back().data(),
                     .payload = reinterpret_cast<std::uint8_t*>(payloads.back().data()),
                     .worker = c.worker,
                     .type = c.type});
  }
  quantizer.run(tasks, cases.front().options, cases.front().key, stream, device_step);
  std::vector<reference::Bytes> result;
  for (GuardedArray<std::uint32_t>& payload : payloads) {
    const std::vector<std::uint32_t> words = payload.values();
    const auto* begin = reinterpret_cast<const std::uint8_t*>(words.data());
    result.emplace_back(begin, begin + 4 * words.size());
  }
  return result;
}

inline reference::Bytes quantized(const Fp8Case& c, int num_threads = 1) {
  Stream stream(Device::cpu(), num_threads);
  Fp8Quantizer quantizer;
  return quantized({&c, 1}, quantizer, stream).front();
}

}  // namespace terngrad::testing
