// Slices to round to powers of two, a plain reference of the codes, and the kernels run on them.
#pragma once

#include <string>
#include <vector>

#include "kernels/codes/exponents.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"
#include "support/gradients.h"
#include "support/guarded_array.h"
#include "support/reference.h"

namespace terngrad::testing {

/// One slice with everything that it points to, in host memory.
struct ExponentCase {
  std::vector<float> gradient = {};
  std::vector<float> scalers = {4.0f};
  std::int64_t first = 0;
  std::int64_t draw_offset = 128;
  std::int64_t block_elements = 0;
  std::uint32_t worker = 5;
  ExponentOptions options = {};
  DrawKey key = {0x0123456789abcdef, 42, 3, DrawPurpose::kQuantize};
  std::size_t misalignment = 0;  // of the gradient, in elements
  ElementType type = ElementType::kFloat32;
  std::vector<std::uint16_t> narrow = {};  // the elements if they have 16 bits

  std::int64_t count() const { return static_cast<std::int64_t>(gradient.size()); }
  std::string text() const { return std::to_string(options.bits) + " bits, " + std::to_string(count()); }
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

inline reference::Bytes reference_payload(const ExponentCase& c) {
  const reference::Stream stream{c.key.seed, c.key.step, c.key.worker + c.worker,
                                 static_cast<std::uint32_t>(c.key.purpose)};
  reference::Stream refine = stream;
  refine.purpose = static_cast<std::uint32_t>(c.options.refine_purpose);
  const auto first_draw = static_cast<std::uint64_t>(c.draw_offset + c.first);
  const std::vector<std::uint32_t> r16 = reference::draws16(stream, first_draw, c.gradient.size());
  reference::Bytes codes;
  for (std::size_t i = 0; i < c.gradient.size(); ++i) {
    const auto at = c.first + static_cast<std::int64_t>(i);
    const std::int64_t block = c.block_elements == 0 ? 0 : at / c.block_elements - c.first / c.block_elements;
    const float s = c.scalers[static_cast<std::size_t>(block)];
    // The refinement decides only where the code differs for its two extremes.
    const std::uint8_t low = reference::exponent_code(c.gradient[i], s, c.options.bits, r16[i], 0xffffff);
    const std::uint8_t high = reference::exponent_code(c.gradient[i], s, c.options.bits, r16[i], 0);
    codes.push_back(low == high ? low
                                : reference::exponent_code(c.gradient[i], s, c.options.bits, r16[i],
                                                           reference::draw24(refine, first_draw + i)));
  }
  const auto bits = static_cast<std::size_t>(c.options.bits);
  reference::Bytes bytes((codes.size() * bits + 31) / 32 * 4, 0);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    std::uint8_t& byte = bytes[i * bits / 8];
    byte = static_cast<std::uint8_t>(byte | codes[i] << (i * bits % 8));
  }
  return bytes;
}

/// Cases of equal options and element types, as one call on a stream's device quantizes them.
inline std::vector<reference::Bytes> quantized(std::span<const ExponentCase> cases, ExponentQuantizer& quantizer,
                                               Stream& stream, const std::uint64_t* device_step = nullptr) {
  std::vector<GuardedArray<float>> wide;
  std::vector<GuardedArray<std::uint16_t>> narrow;
  std::vector<GuardedArray<float>> scalers;
  std::vector<GuardedArray<std::uint32_t>> payloads;
  std::vector<QuantizeTask> tasks;
  for (const ExponentCase& c : cases) {
    wide.emplace_back(c.narrow.empty() ? std::span<const float>(c.gradient) : std::span<const float>(), c.misalignment,
                      stream);
    narrow.emplace_back(c.narrow, c.misalignment, stream);
    scalers.emplace_back(c.scalers, 0, stream);
    // At an odd word: payloads are multiples of 4 bytes.
    payloads.emplace_back(
        std::vector<std::uint32_t>(
            static_cast<std::size_t>(payload_bytes(exponent_format(c.options.bits), c.count(), 1)) / 4, 0xa5a5a5a5u),
        c.misalignment % 2, stream);
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

inline reference::Bytes quantized(const ExponentCase& c, int num_threads = 1) {
  Stream stream(Device::cpu(), num_threads);
  ExponentQuantizer quantizer;
  return quantized({&c, 1}, quantizer, stream).front();
}

}  // namespace terngrad::testing
