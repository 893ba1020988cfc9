// Slices to take the signs of, a plain reference of the bits, and the kernels run on them.
#pragma once

#include <string>
#include <vector>

#include "kernels/codes/signs.h"
#include "kernels/codes/ternarize.h"
#include "kernels/codes/ternary.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"
#include "support/gradients.h"
#include "support/guarded_array.h"
#include "support/reference.h"

namespace terngrad::testing {

/// Every kind of output.
inline const SignOptions kSignForms[] = {
    {},
    {.zeros = ZeroSign::kPlus},
    {.votes = true},
    {.zeros = ZeroSign::kPlus, .votes = true},
    {.votes = true, .lanes = true, .num_workers = 1},
    {.votes = true, .lanes = true, .num_workers = 5},
    {.zeros = ZeroSign::kPlus, .lanes = true, .num_workers = 1000},
    {.zeros = ZeroSign::kOwn},
};

/// One slice with everything that it points to, in host memory.
struct SignCase {
  std::vector<float> gradient = {};
  std::vector<float> scalers = {0.01f};
  std::int64_t first = 0;
  std::int64_t draw_offset = 128;
  std::int64_t block_elements = 0;
  std::uint32_t worker = 5;
  SignOptions options = {};
  DrawKey key = {0x0123456789abcdef, 42, 3, DrawPurpose::kQuantize};
  std::size_t misalignment = 0;  // of the gradient, in elements
  ElementType type = ElementType::kFloat32;
  std::vector<std::uint16_t> narrow = {};  // the elements if they have 16 bits

  std::int64_t count() const { return static_cast<std::int64_t>(gradient.size()); }
  CodeFormat format() const { return options.lanes ? CodeFormat::kLanes : CodeFormat::kBits; }
  std::int64_t bytes() const { return payload_bytes(format(), count(), options.num_workers, 1); }
  std::string text() const {
    return std::string(options.zeros == ZeroSign::kPlus  ? "plus"
                       : options.zeros == ZeroSign::kOwn ? "own"
                                                         : "alternate") +
           (options.votes ? ", votes" : "") +
           (options.lanes ? ", lanes of " + std::to_string(options.num_workers) : "") + ", " + std::to_string(count());
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

/// Gaussian elements with zeros of both signs and denormals among them.
inline std::vector<float> with_zeros(std::size_t n, std::uint64_t seed) {
  std::vector<float> values = gaussian(n, seed);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t kind = (i * 7 + seed) % 11;
    if (kind < 4) values[i] = kind % 2 == 0 ? 0.0f : -0.0f;
    if (kind == 4) values[i] = std::copysign(0x1p-149f, values[i]);
  }
  return values;
}

/// Slices whose scalers are pairs, of which some are zeros.
inline std::vector<SignCase> pair_cases() {
  const float kinds[] = {0.1f, 0.2f, 0, 0, 0.3f, 0, 0, 0.4f};
  std::vector<SignCase> cases;
  const auto add = [&](std::int64_t block, std::int64_t columns) {
    SignCase c{.gradient = with_zeros(9707, 4), .first = 12288, .block_elements = block};
    c.options = {.zeros = ZeroSign::kOwn, .two_scalers = true, .columns = columns};
    c.scalers.clear();
    const std::int64_t num_pairs = columns > 0 ? columns : num_blocks(c.first, c.count(), block);
    for (std::int64_t i = 0; i < 2 * num_pairs; ++i) c.scalers.push_back(kinds[i % 8]);
    cases.push_back(c);
  };
  for (const std::int64_t block : {0, 64, 4160}) add(block, 0);
  for (const std::int64_t columns : {1, 3, 10, 64, 4095, 20000}) add(0, columns);
  return cases;
}

inline bool reference_bit(const SignCase& c, std::size_t i) {
  const std::int64_t at = c.first + static_cast<std::int64_t>(i);
  const std::int64_t block = c.block_elements == 0 ? 0 : at / c.block_elements - c.first / c.block_elements;
  const auto group = static_cast<std::size_t>(c.options.columns > 0 ? at % c.options.columns : block);
  const bool counts =
      c.options.two_scalers ? c.scalers[2 * group] > 0 || c.scalers[2 * group + 1] > 0 : c.scalers[group] > 0;
  if (!counts && !c.options.votes) return false;
  const float g = counts ? c.gradient[i] : 0.0f;
  if (g != 0 || c.options.zeros == ZeroSign::kOwn) return std::signbit(g);
  const std::uint64_t parity = (c.key.step + c.key.worker + c.worker + static_cast<std::uint64_t>(at)) % 2;
  return c.options.zeros == ZeroSign::kAlternate && parity == 1;
}

inline reference::Bytes reference_payload(const SignCase& c) {
  const int width = c.options.lanes ? lane_bits(c.options.num_workers, 1) : 1;
  const int per_word = c.options.lanes ? lanes_per_word(width) : 64;
  std::vector<std::uint64_t> words;
  for (std::size_t i = 0; i < c.gradient.size(); ++i) {
    const auto place = static_cast<int>(i % static_cast<std::size_t>(per_word));
    if (place == 0) words.push_back(0);
    words.back() |= std::uint64_t{reference_bit(c, i)} << (place * width);
  }
  const auto* begin = reinterpret_cast<const std::uint8_t*>(words.data());
  return {begin, begin + c.bytes()};
}

/// Cases of equal options and element types, as one call on a stream's device packs them.
inline std::vector<reference::Bytes> packed_signs(std::span<const SignCase> cases, SignPacker& packer, Stream& stream,
                                                  const std::uint64_t* device_step = nullptr) {
  std::vector<GuardedArray<float>> wide;
  std::vector<GuardedArray<std::uint16_t>> narrow;
  std::vector<GuardedArray<float>> scalers;
  std::vector<GuardedArray<std::uint32_t>> payloads;
  std::vector<QuantizeTask> tasks;
  for (const SignCase& c : cases) {
    wide.emplace_back(c.narrow.empty() ? std::span<const float>(c.gradient) : std::span<const float>(), c.misalignment,
                      stream);
    narrow.emplace_back(c.narrow, c.misalignment, stream);
    scalers.emplace_back(c.scalers, 0, stream);
    // At an odd word, unless they are lanes: payloads of bits are multiples of 4 bytes.
    payloads.emplace_back(std::vector<std::uint32_t>(static_cast<std::size_t>(c.bytes() / 4), 0xa5a5a5a5u),
                          c.options.lanes ? 0 : c.misalignment % 2, stream);
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
  packer.run(tasks, cases.front().options, cases.front().key, stream, device_step);
  std::vector<reference::Bytes> result;
  for (GuardedArray<std::uint32_t>& payload : payloads) {
    const std::vector<std::uint32_t> words = payload.values();
    const auto* begin = reinterpret_cast<const std::uint8_t*>(words.data());
    result.emplace_back(begin, begin + 4 * words.size());
  }
  return result;
}

inline reference::Bytes packed_signs(const SignCase& c, int num_threads = 1) {
  Stream stream(Device::cpu(), num_threads);
  SignPacker packer;
  return packed_signs({&c, 1}, packer, stream).front();
}

}  // namespace terngrad::testing
