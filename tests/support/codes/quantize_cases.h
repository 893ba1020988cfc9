// Test slices for quantizers, with any codes, and functions that run the kernels on them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/codes/quantize_task.h"
#include "kernels/codes/rounding.h"
#include "kernels/codes/ternary.h"
#include "kernels/random/philox.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"
#include "support/gradients.h"
#include "support/guarded_array.h"
#include "support/reference.h"

namespace terngrad::testing {

/// Traits of a quantizer, specialized for its options type, with the members
///   Quantizer, kScaler (default scaler of a case), format(options), lanes(options) (used if the format is lanes) and
///   text(options).
template <class Options>
struct QuantizerTraits;

/// Parameters of the lane width.
struct LaneForm {
  int num_workers = 1;
  int levels = 1;
};

/// One slice with its gradient and scalers in host memory.
template <class Options>
struct QuantizeCase {
  using Traits = QuantizerTraits<Options>;

  std::vector<float> gradient = {};
  std::vector<float> scalers = {Traits::kScaler};
  std::int64_t first = 0;
  std::int64_t draw_offset = 128;
  std::int64_t block_elements = 0;
  std::uint32_t worker = 5;
  Options options = {};
  DrawKey key = {0x0123456789abcdef, 42, 3, DrawPurpose::kQuantize};
  std::size_t misalignment = 0;  // gradient: offset in elements
  ElementType type = ElementType::kFloat32;
  std::vector<std::uint16_t> narrow = {};  // gradient in `type`, empty for float32

  std::int64_t count() const { return static_cast<std::int64_t>(gradient.size()); }
  CodeFormat format() const { return Traits::format(options); }
  bool is_lanes() const { return format() == CodeFormat::kLanes; }
  std::int64_t bytes() const {
    const LaneForm lanes = Traits::lanes(options);
    return payload_bytes(format(), count(), lanes.num_workers, lanes.levels);
  }
  std::string text() const { return Traits::text(options) + ", " + std::to_string(count()); }
  /// Rounds the gradient to a 16-bit type.
  void round_gradient_to(ElementType narrow_type) {
    type = narrow_type;
    for (float& g : gradient) {
      const bool is_bfloat16 = type == ElementType::kBfloat16;
      narrow.push_back(is_bfloat16 ? to_bfloat16(g) : to_float16(g));
      g = is_bfloat16 ? reference::from_bfloat16(narrow.back()) : reference::from_float16(narrow.back());
    }
  }
};

/// Reference codes of a case. @param code  (element, scaler, r16, r24) -> code; r24 is drawn only if its extremes give
/// different codes
template <class Options, class Code>
auto reference_codes(const QuantizeCase<Options>& c, const Code& code) {
  bool is_stratified = false;
  std::uint32_t num_workers = 1;
  if constexpr (requires { c.options.rounding == Rounding::kStratified&& c.options.num_workers > 1; }) {
    num_workers = static_cast<std::uint32_t>(c.options.num_workers);
    is_stratified = c.options.rounding == Rounding::kStratified && num_workers > 1;
  }
  const std::uint32_t worker = c.key.worker + c.worker;
  const reference::Stratified of_worker(worker, num_workers);
  const reference::Stream stream{c.key.seed, c.key.step, is_stratified ? 0 : worker,
                                 static_cast<std::uint32_t>(c.key.purpose)};
  reference::Stream refine = stream;
  refine.purpose = static_cast<std::uint32_t>(c.options.refine_purpose);
  const auto first_draw = static_cast<std::uint64_t>(c.draw_offset + c.first);
  const std::vector<std::uint32_t> r16 = reference::draws16(stream, first_draw, c.gradient.size());
  std::vector<decltype(code(0.0f, 0.0f, 0u, 0u))> codes;
  for (std::size_t i = 0; i < c.gradient.size(); ++i) {
    const auto at = c.first + static_cast<std::int64_t>(i);
    const std::int64_t block = c.block_elements == 0 ? 0 : at / c.block_elements - c.first / c.block_elements;
    const float s = c.scalers[static_cast<std::size_t>(block)];
    const auto drawn = [&](std::uint64_t shared) {
      return is_stratified ? of_worker.draw(shared, std::signbit(c.gradient[i])) : shared;
    };
    const auto first_bits = static_cast<std::uint32_t>(drawn(std::uint64_t{r16[i]} << 24) >> 24);
    const auto low = code(c.gradient[i], s, first_bits, 0xffffffu);
    const auto high = code(c.gradient[i], s, first_bits, 0u);
    if (low == high) {
      codes.push_back(low);
    } else {
      const std::uint32_t last_bits = drawn(reference::draw24(refine, first_draw + i)) & 0xffffffu;
      codes.push_back(code(c.gradient[i], s, first_bits, last_bits));
    }
  }
  return codes;
}

/// Payloads of cases with equal options and element type, quantized in one call on the stream's device.
template <class Options>
std::vector<reference::Bytes> quantized(std::span<const QuantizeCase<Options>> cases,
                                        typename QuantizerTraits<Options>::Quantizer& quantizer, Stream& stream,
                                        const std::uint64_t* device_step = nullptr) {
  std::vector<GuardedArray<float>> wide;
  std::vector<GuardedArray<std::uint16_t>> narrow;
  std::vector<GuardedArray<float>> scalers;
  std::vector<GuardedArray<std::uint32_t>> payloads;
  std::vector<QuantizeTask> tasks;
  for (const QuantizeCase<Options>& c : cases) {
    wide.emplace_back(c.narrow.empty() ? std::span<const float>(c.gradient) : std::span<const float>(), c.misalignment,
                      stream);
    narrow.emplace_back(c.narrow, c.misalignment, stream);
    scalers.emplace_back(c.scalers, 0, stream);
    // Payloads start at an odd 32-bit word if the case is misaligned, except lanes, which are 64-bit words.
    payloads.emplace_back(std::vector<std::uint32_t>(static_cast<std::size_t>(c.bytes() / 4), 0xa5a5a5a5u),
                          c.is_lanes() ? 0 : c.misalignment % 2, stream);
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

template <class Options>
std::vector<reference::Bytes> quantized(const std::vector<QuantizeCase<Options>>& cases, int num_threads = 1) {
  Stream stream(Device::cpu(), num_threads);
  typename QuantizerTraits<Options>::Quantizer quantizer;
  return quantized(std::span(cases), quantizer, stream);
}

template <class Options>
reference::Bytes quantized(const QuantizeCase<Options>& c, int num_threads = 1) {
  return quantized(std::vector{c}, num_threads).front();
}

}  // namespace terngrad::testing
