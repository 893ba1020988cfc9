// Test slices for sign codes, and a scalar reference of the packed bits.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "kernels/codes/signs.h"
#include "kernels/codes/ternarize.h"
#include "support/codes/quantize_cases.h"

namespace terngrad::testing {

/// All zero rules and output formats.
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

template <>
struct QuantizerTraits<SignOptions> {
  using Quantizer = SignPacker;
  static constexpr float kScaler = 0.01f;
  static CodeFormat format(const SignOptions& options) {
    return options.lanes ? CodeFormat::kLanes : CodeFormat::kBits;
  }
  static LaneForm lanes(const SignOptions& options) { return {.num_workers = options.num_workers}; }
  static std::string text(const SignOptions& options) {
    const char* zeros = options.zeros == ZeroSign::kPlus  ? "plus"
                        : options.zeros == ZeroSign::kOwn ? "own"
                                                          : "alternate";
    return std::string(zeros) + (options.votes ? ", votes" : "") +
           (options.lanes ? ", lanes of " + std::to_string(options.num_workers) : "");
  }
};

using SignCase = QuantizeCase<SignOptions>;

/// Gaussian elements, with zeros of both signs and denormals.
inline std::vector<float> with_zeros(std::size_t n, std::uint64_t seed) {
  std::vector<float> values = gaussian(n, seed);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t kind = (i * 7 + seed) % 11;
    if (kind < 4) values[i] = kind % 2 == 0 ? 0.0f : -0.0f;
    if (kind == 4) values[i] = std::copysign(0x1p-149f, values[i]);
  }
  return values;
}

/// Slices with a pair of scalers per block or column; some scalers are 0.
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

}  // namespace terngrad::testing
