// Scalar references of the kernels, written from the format specifications. They share no code with the kernels.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "support/reference_trans.h"

namespace terngrad::reference {

using Words = std::array<std::uint32_t, 4>;

/// Philox4x32-10: Salmon et al., SC 2011.
inline Words philox(Words x, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = 0xD2511F53ull * x[0];
    const std::uint64_t b = 0xCD9E8D57ull * x[2];
    const Words y = {static_cast<std::uint32_t>(b >> 32) ^ x[1] ^ key[0], static_cast<std::uint32_t>(b & 0xffffffffu),
                     static_cast<std::uint32_t>(a >> 32) ^ x[3] ^ key[1], static_cast<std::uint32_t>(a & 0xffffffffu)};
    x = y;
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return x;
}

/// Key of a sequence of draws; `purpose` is the number of a DrawPurpose.
struct Stream {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint32_t worker = 0;
  std::uint32_t purpose = 1;
};

inline Words block(const Stream& s, std::uint64_t index) {
  const auto word = [](std::uint64_t value) { return static_cast<std::uint32_t>(value & 0xffffffffu); };
  const std::uint32_t c3 = word(index >> 32 & 0xffff) + (word(s.step >> 32 & 0xff) << 16) + (s.purpose << 24);
  return philox({word(index), s.worker, word(s.step), c3}, {word(s.seed), word(s.seed >> 32)});
}

/// 16-bit draws first .. first + count - 1; eight per block, low half of word 0 first.
inline std::vector<std::uint32_t> draws16(const Stream& s, std::uint64_t first, std::size_t count) {
  std::vector<std::uint32_t> result(count);
  Words words{};
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t index = first + i;
    if (i == 0 || index % 8 == 0) words = block(s, index / 8);
    const std::uint32_t word = words[index % 8 / 2];
    result[i] = index % 2 == 0 ? word & 0xffffu : word >> 16;
  }
  return result;
}

/// The draws of a worker among n who share draws, by the definition of kernels/random/strata.h.
class Stratified {
 public:
  Stratified(std::uint32_t worker, std::uint32_t n) : mirrored_(n % 2 == 0 && worker % 2 == 1) {
    const std::uint32_t strata = n % 2 == 0 ? n / 2 : n;
    const std::uint32_t number = n % 2 == 0 ? worker / 2 : worker;
    std::uint64_t place = 0;
    for (std::uint32_t other = 0; other < strata; ++other) place += reversed(other) < reversed(number) ? 1u : 0u;
    offset_ = place * 65536 / strata << 24;
  }
  /// @param shared  40 bits: 16 above 24 of refinement
  std::uint64_t draw(std::uint64_t shared, bool is_negative) const {
    constexpr std::uint64_t kMask = (std::uint64_t{1} << 40) - 1;
    const std::uint64_t moved = (shared + offset_) & kMask;
    return mirrored_ != is_negative ? kMask - moved : moved;
  }

 private:
  static std::uint32_t reversed(std::uint32_t number) {
    std::uint32_t result = 0;
    for (int bit = 0; bit < 32; ++bit) result = result << 1 | (number >> bit & 1u);
    return result;
  }
  bool mirrored_;
  std::uint64_t offset_ = 0;
};

/// Refinement draw: the upper 24 bits of a 32-bit draw, four of which share a block.
inline std::uint32_t draw24(const Stream& s, std::uint64_t index) { return block(s, index / 4)[index % 4] / 256; }

struct Statistics {
  double sum = 0;
  double sum_squares = 0;
  std::uint32_t max_bits = 0;
};

/// Summation tree of kernels/statistics/statistics.h, with the same order of additions.
/// @param magnitudes  true: `sum` is of |g|, else of g
inline Statistics statistics(std::span<const float> values, bool magnitudes = false) {
  constexpr std::size_t kChunk = 4096;
  Statistics result;
  const std::size_t num_chunks = (values.size() + kChunk - 1) / kChunk;
  std::vector<std::array<double, 2>> chunks(num_chunks);
  for (std::size_t c = 0; c < num_chunks; ++c) {
    const auto chunk = values.subspan(c * kChunk, std::min(kChunk, values.size() - c * kChunk));
    double acc[2][8][16] = {};
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      const double g = static_cast<double>(chunk[i]);
      acc[0][i / 512][i % 16] += magnitudes ? std::fabs(g) : g;
      acc[1][i / 512][i % 16] += g * g;
      result.max_bits = std::max(result.max_bits, std::bit_cast<std::uint32_t>(chunk[i]) & 0x7fffffffu);
    }
    for (std::size_t which = 0; which < 2; ++which) {
      double lanes[16];
      for (std::size_t lane = 0; lane < 16; ++lane) {
        const auto row = [&](std::size_t r) { return acc[which][r][lane]; };
        lanes[lane] = ((row(0) + row(1)) + (row(2) + row(3))) + ((row(4) + row(5)) + (row(6) + row(7)));
      }
      for (const std::size_t half : {8u, 4u, 2u, 1u}) {
        for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] = lanes[lane] + lanes[lane + half];
      }
      chunks[c][which] = lanes[0];
    }
  }
  for (std::size_t which = 0; which < 2; ++which) {
    double slots[256] = {};
    for (std::size_t c = 0; c < num_chunks; ++c) slots[c % 256] += chunks[c][which];
    for (const std::size_t half : {128u, 64u, 32u, 16u, 8u, 4u, 2u, 1u}) {
      for (std::size_t j = 0; j < half; ++j) slots[j] = slots[j] + slots[j + half];
    }
    (which == 0 ? result.sum : result.sum_squares) = slots[0];
  }
  return result;
}

inline bool is_nonfinite(const Statistics& s) { return s.max_bits >= 0x7f800000u; }

/// Population standard deviation; 0 if the variance is below 2^-40 of the mean square.
inline double sigma(const Statistics& s, std::int64_t n) {
  if (n == 0) return 0;
  const double square = s.sum_squares / static_cast<double>(n);
  const double mean = s.sum / static_cast<double>(n);
  double variance = square - mean * mean;
  if (variance < 0 || variance < std::ldexp(square, -40)) variance = 0;
  return std::sqrt(variance);
}

/// Local scaler; NaN for non-finite input or results above 2^126, 0 below 2^-86.
inline float scaler(const Statistics& s, std::int64_t n, double c, bool original) {
  if (is_nonfinite(s)) return std::numeric_limits<float>::quiet_NaN();
  const double deviation = sigma(s, n);
  const float max = std::bit_cast<float>(s.max_bits);
  const auto cut = static_cast<float>(c * deviation);
  float result = max;
  if (c > 0 && original) result = cut;
  if (c > 0 && !original && deviation > 0 && cut < max) result = cut;
  if (result > 0x1p126f) return std::numeric_limits<float>::quiet_NaN();
  return result < 0x1p-86f ? 0.0f : result;
}

/// Ternary code of one element. @param clip  null, or the limit of |g|
inline int code(float g, float s, const float* clip, std::uint32_t r16, std::uint32_t r24) {
  if (std::isnan(s) || s < 0x1p-86f) return 0;
  float magnitude = std::fabs(g);
  if (clip != nullptr && *clip < magnitude) magnitude = *clip;
  bool nonzero = true;
  if (magnitude < s) {
    const float inverse = 1.0f / s;
    const float p = magnitude * inverse;
    const float t = p * 65536.0f;
    const float h = std::floor(t);
    const auto r = static_cast<float>(r16);
    nonzero = r < h || (r == h && static_cast<float>(r24) < (t - h) * 16777216.0f);
  }
  return !nonzero ? 0 : g < 0 ? -1 : 1;
}

struct Run {
  std::int64_t first = 0;           // position of g[0] in its segment
  std::uint64_t draw_offset = 0;    // the segment's draw offset
  std::int64_t block_elements = 0;  // elements per scaler, from the segment's start; 0: one scaler
  std::uint32_t refine_purpose = 2;
};

/// Codes of a run. scalers and clips (or none) have one value per block that the run touches.
inline std::vector<std::int8_t> ternarize(std::span<const float> g, const Run& run, std::span<const float> scalers,
                                          std::span<const float> clips, const Stream& stream) {
  const std::uint64_t first_draw = run.draw_offset + static_cast<std::uint64_t>(run.first);
  const auto r16 = draws16(stream, first_draw, g.size());
  Stream refine = stream;
  refine.purpose = run.refine_purpose;
  std::vector<std::int8_t> codes(g.size());
  for (std::size_t i = 0; i < g.size(); ++i) {
    std::size_t b = 0;
    if (run.block_elements > 0) {
      b = static_cast<std::size_t>((run.first + static_cast<std::int64_t>(i)) / run.block_elements -
                                   run.first / run.block_elements);
    }
    const float* clip = clips.empty() ? nullptr : &clips[b];
    // The refinement decides ties only. Skipping it elsewhere saves most of the time.
    const bool may_tie =
        std::fabs(std::floor(std::fabs(g[i]) / scalers[b] * 65536.0f) - static_cast<float>(r16[i])) <= 2 ||
        clip != nullptr;
    const std::uint32_t r24 = may_tie ? draw24(refine, first_draw + i) : 0;
    codes[i] = static_cast<std::int8_t>(code(g[i], scalers[b], clip, r16[i], r24));
  }
  return codes;
}

using Bytes = std::vector<std::uint8_t>;

inline void append32(Bytes& bytes, std::uint64_t value) {
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::uint8_t>(value >> (8 * i) & 0xff));
}

inline Bytes pack_t2(std::span<const std::int8_t> codes) {
  Bytes bytes((codes.size() + 15) / 16 * 4, 0);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const unsigned bits = codes[i] == 0 ? 0 : codes[i] > 0 ? 1 : 3;
    bytes[i / 4] = static_cast<std::uint8_t>(bytes[i / 4] | bits << (2 * (i % 4)));
  }
  return bytes;
}

inline Bytes pack_t5(std::span<const std::int8_t> codes) {
  Bytes bytes;
  for (std::size_t i = 0; i < codes.size(); i += 5) {
    int value = 0;
    int weight = 1;
    for (std::size_t j = i; j < std::min(i + 5, codes.size()); ++j, weight *= 3) value += (codes[j] + 1) * weight;
    bytes.push_back(static_cast<std::uint8_t>(value));
  }
  while (bytes.size() % 4 != 0) bytes.push_back(0);
  return bytes;
}

inline Bytes pack_tmask(std::span<const std::int8_t> codes) {
  Bytes offsets;
  Bytes masks((codes.size() + 31) / 32 * 4, 0);
  Bytes signs;
  for (std::size_t chunk = 0; chunk < codes.size(); chunk += 4096) {
    append32(offsets, signs.size());
    int used = 0;
    for (std::size_t i = chunk; i < std::min(chunk + 4096, codes.size()); ++i) {
      if (codes[i] == 0) continue;
      masks[i / 8] = static_cast<std::uint8_t>(masks[i / 8] | 1u << (i % 8));
      if (used % 8 == 0) signs.push_back(0);
      if (codes[i] < 0) signs.back() = static_cast<std::uint8_t>(signs.back() | 1u << (used % 8));
      ++used;
    }
  }
  append32(offsets, signs.size());
  while (signs.size() % 4 != 0) signs.push_back(0);
  offsets.insert(offsets.end(), masks.begin(), masks.end());
  offsets.insert(offsets.end(), signs.begin(), signs.end());
  return offsets;
}

/// Width of a lane: the smallest b with 2^b >= levels * num_workers + 1.
inline int lane_bits(int num_workers, int levels = 2) {
  int bits = 0;
  while ((std::int64_t{1} << bits) < std::int64_t{levels} * num_workers + 1) ++bits;
  return bits;
}

/// Lanes of value + bias.
inline Bytes pack_lanes(std::span<const int> values, int bias, int num_workers, int levels = 2) {
  const int bits = lane_bits(num_workers, levels);
  const auto per_word = static_cast<std::size_t>(64 / bits);
  Bytes bytes;
  for (std::size_t i = 0; i < values.size(); i += per_word) {
    std::uint64_t word = 0;
    for (std::size_t j = i; j < std::min(i + per_word, values.size()); ++j) {
      word += static_cast<std::uint64_t>(values[j] + bias) << (static_cast<std::size_t>(bits) * (j - i));
    }
    append32(bytes, word & 0xffffffffu);
    append32(bytes, word >> 32);
  }
  return bytes;
}

/// Uniform level codes: code + 7 in 4 bits, code + 127 in 8.
inline Bytes pack_levels(std::span<const std::int8_t> codes, int bits) {
  const auto width = static_cast<std::size_t>(bits);
  Bytes bytes((codes.size() * width + 31) / 32 * 4, 0);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const auto code = static_cast<unsigned>(codes[i] + (bits == 4 ? 7 : 127));
    bytes[i * width / 8] = static_cast<std::uint8_t>(bytes[i * width / 8] | code << (i * width % 8));
  }
  return bytes;
}

/// Format numbers as in records: 1 t2, 2 t5, 3 tmask, 4 lanes of one worker's ternary codes, 5 trans, 16 q4, 17 q8.
inline Bytes pack(std::span<const std::int8_t> codes, int format, int num_workers) {
  if (format == 1) return pack_t2(codes);
  if (format == 2) return pack_t5(codes);
  if (format == 3) return pack_tmask(codes);
  if (format == 5) return pack_trans(codes);
  if (format == 16) return pack_levels(codes, 4);
  if (format == 17) return pack_levels(codes, 8);
  const std::vector<int> values(codes.begin(), codes.end());
  return pack_lanes(values, 1, num_workers);
}

/// Fixed summation tree over workers: a range of m splits at the largest power of two below m.
inline float tree_sum(std::span<const float> leaves) {
  if (leaves.size() == 1) return leaves[0];
  std::size_t split = 1;
  while (2 * split < leaves.size()) split *= 2;
  return tree_sum(leaves.first(split)) + tree_sum(leaves.subspan(split));
}

/// Nearest bfloat16, ties to even, computed on values instead of bits. NaN becomes quiet.
inline std::uint16_t bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto upper = static_cast<std::uint16_t>(bits >> 16);
  if (std::isnan(value)) return static_cast<std::uint16_t>(upper | 0x40);
  if (std::isinf(value)) return upper;
  // Magnitudes of the two neighbours, in double; infinity counts as 2^128.
  const auto magnitude = [](std::uint16_t half) {
    const unsigned exponent = half >> 7 & 0xff;
    const double fraction = half & 0x7f;
    if (exponent == 0) return std::ldexp(fraction, -126 - 7);
    return std::ldexp(128 + fraction, static_cast<int>(exponent) - 127 - 7);
  };
  const double x = std::fabs(static_cast<double>(value));
  const auto low = static_cast<std::uint16_t>(upper & 0x7fff);
  const auto high = static_cast<std::uint16_t>(low + 1);
  const double below = x - magnitude(low);
  const double above = magnitude(high) - x;
  const bool up = above < below || (above == below && low % 2 == 1);
  return static_cast<std::uint16_t>((up ? high : low) | (upper & 0x8000));
}

inline float from_bfloat16(std::uint16_t half) { return std::bit_cast<float>(std::uint32_t{half} << 16); }

/// Magnitude of a finite float16; 0x7c00 counts as 2^16.
inline double float16_magnitude(std::uint16_t half) {
  const int exponent = half >> 10 & 0x1f;
  const double fraction = half & 0x3ff;
  return exponent == 0 ? std::ldexp(fraction, -14 - 10) : std::ldexp(1024 + fraction, exponent - 15 - 10);
}

/// Nearest float16, ties to even, by binary search. NaN becomes quiet.
inline std::uint16_t float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00u | (bits >> 13 & 0x1ffu));
  const double x = std::fabs(static_cast<double>(value));
  if (x >= 65536) return static_cast<std::uint16_t>(sign | 0x7c00u);
  std::uint16_t low = 0;
  for (unsigned step = 0x4000; step > 0; step /= 2) {  // the largest that is not above x
    const unsigned next = low + step;
    if (next < 0x7c00u && float16_magnitude(static_cast<std::uint16_t>(next)) <= x)
      low = static_cast<std::uint16_t>(next);
  }
  const auto high = static_cast<std::uint16_t>(low + 1);
  const double below = x - float16_magnitude(low);
  const double above = float16_magnitude(high) - x;
  const bool up = above < below || (above == below && low % 2 == 1);
  return static_cast<std::uint16_t>(sign | (up ? high : low));
}

/// NaN becomes quiet.
inline float from_float16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const auto magnitude = static_cast<std::uint16_t>(half & 0x7fffu);
  if (magnitude > 0x7c00u) return std::bit_cast<float>(sign | 0x7fc00000u | (half & 0x1ffu) << 13);
  if (magnitude == 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u);
  return static_cast<float>(std::copysign(float16_magnitude(magnitude), sign != 0 ? -1.0 : 1.0));
}

/// Magnitude of an E4M3 code without sign, 0 to 127; 127 is NaN on the wire.
inline double e4m3_magnitude(unsigned code) {
  const int exponent = static_cast<int>(code / 8);
  const double fraction = code % 8;
  return exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(1 + fraction / 8, exponent - 7);
}

/// Largest E4M3 code that is not above x >= 0, by search, and the position of x between it and the next, in [0, 1).
inline std::pair<unsigned, double> e4m3_below(double x) {
  if (x >= 448) return {126, 0.0};
  unsigned code = 0;
  while (e4m3_magnitude(code + 1) <= x) ++code;
  return {code, (x - e4m3_magnitude(code)) / (e4m3_magnitude(code + 1) - e4m3_magnitude(code))};
}

/// E4M3 code of one element. @param is_nearest  round to nearest, else stochastically
inline std::uint8_t e4m3_code(float g, float s, bool is_nearest, std::uint32_t r16, std::uint32_t r24) {
  if (std::isnan(s) || s < 0x1p-86f) return 0;
  const float inverse = 1.0f / s;
  const float x = std::fabs(g) * inverse;
  const auto [code, fraction] = e4m3_below(x);
  const double h = std::floor(fraction * 65536);
  const bool up = is_nearest ? fraction > 0.5 || (fraction == 0.5 && code % 2 == 1)
                             : r16 < h || (r16 == h && r24 < (fraction * 65536 - h) * 0x1p24);
  const unsigned rounded = code + (up ? 1 : 0);
  return static_cast<std::uint8_t>(rounded == 0 ? 0 : rounded + (std::signbit(g) ? 128 : 0));
}

/// Power of two of a code, 0 for code 0. @param magnitude  code without its sign
inline double exponent_magnitude(unsigned magnitude, int bits) {
  return magnitude == 0 ? 0 : std::ldexp(1.0, static_cast<int>(magnitude) - (bits == 8 ? 127 : 7));
}

/// Code of one element: the power of two below it or the next one above, by stochastic rounding.
inline std::uint8_t exponent_code(float g, float s, int bits, std::uint32_t r16, std::uint32_t r24) {
  if (std::isnan(s) || s < 0x1p-86f) return 0;
  const float inverse = 1.0f / s;
  const float scaled = std::fabs(g) * inverse;
  const double y = scaled < 1 ? scaled : 1;
  unsigned code = 0;
  while (code < (bits == 8 ? 127 : 7) && exponent_magnitude(code + 1, bits) <= y) ++code;
  const double below = exponent_magnitude(code, bits);
  const double f = (y - below) / (exponent_magnitude(code + 1, bits) - below);
  const double h = std::floor(f * 65536);
  if (r16 < h || (r16 == h && r24 < (f * 65536 - h) * 0x1p24)) ++code;
  return static_cast<std::uint8_t>(code == 0 ? 0 : code + (std::signbit(g) ? 1u << (bits - 1) : 0));
}

/// CRC-32C bit by bit, RFC 3720.
inline std::uint32_t crc32c(std::span<const std::uint8_t> bytes) {
  std::uint32_t crc = 0xffffffffu;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc % 2 == 1 ? crc / 2 ^ 0x82f63b78u : crc / 2;
  }
  return ~crc;
}

// Optimizer updates of one element; each operation is rounded to float32.
inline float gd(float w, float g, float lr) {
  const float change = lr * g;
  return w - change;
}
inline float momentum_accumulator(float a, float g, float m) {
  const float kept = m * a;
  return kept + g;
}
inline float first_moment(float m, float g, float b1) {
  const float kept = b1 * m;
  const float rest = 1.0f - b1;
  const float added = rest * g;
  return kept + added;
}
struct AdamElement {
  float weight = 0, first_moment = 0, second_moment = 0;
};
inline AdamElement adam(AdamElement e, float g, float step_size, float b1, float b2, float epsilon) {
  e.first_moment = first_moment(e.first_moment, g, b1);
  const float kept2 = b2 * e.second_moment;
  const float rest2 = 1.0f - b2;
  const float square = g * g;
  const float new2 = rest2 * square;
  e.second_moment = kept2 + new2;
  const float numerator = step_size * e.first_moment;
  const float root = std::sqrt(e.second_moment);
  const float denominator = root + epsilon;
  const float change = numerator / denominator;
  e.weight = e.weight - change;
  return e;
}
inline float adam_direction(AdamElement e, float g, float bound, float b1, float epsilon) {
  const float first = first_moment(e.first_moment, g, b1);
  const float root = std::sqrt(e.second_moment);
  const float denominator = root + epsilon;
  const float direction = first / denominator;
  if (!std::isfinite(direction)) return direction;
  if (e.second_moment == 0) return 0;
  return std::abs(direction) > bound ? std::copysign(bound, direction) : direction;
}
inline AdamElement resting_adam(AdamElement e, float mean_direction, float step_size, float epsilon) {
  const bool rests = e.second_moment == 0 || std::isinf(e.second_moment);
  const float direction = rests ? 0 : mean_direction;
  const float root = std::sqrt(e.second_moment);
  const float denominator = root + epsilon;
  e.first_moment = rests ? 0 : direction * denominator;
  const float change = step_size * direction;
  e.weight = e.weight - change;
  return e;
}
inline AdamElement nadam(AdamElement e, float g, std::array<float, 3> rates, float b1, float b2) {
  const float weight = e.weight;
  e = adam(e, g, 0, b1, b2, 1);  // the moments
  const float of_moment = rates[0] * e.first_moment;
  const float of_gradient = rates[1] * g;
  const float numerator = of_moment + of_gradient;
  const float root = std::sqrt(e.second_moment);
  const float denominator = root + rates[2];
  const float change = numerator / denominator;
  e.weight = weight - change;
  return e;
}
struct RmspropElement {
  float weight = 0, mean_square = 1, update = 0;
};
inline RmspropElement rmsprop(RmspropElement e, float g, float lr, float decay, float momentum, float epsilon) {
  const float kept = decay * e.mean_square;
  const float rest = 1.0f - decay;
  const float square = g * g;
  const float added = rest * square;
  e.mean_square = kept + added;
  const float shifted = e.mean_square + epsilon;
  const float root = std::sqrt(shifted);
  const float numerator = lr * g;
  const float step = numerator / root;
  const float carried = momentum * e.update;
  e.update = carried + step;
  e.weight = e.weight - e.update;
  return e;
}
inline float ema(float shadow, float w, float decay) {
  const float difference = shadow - w;
  const float rate = 1.0f - decay;
  const float change = rate * difference;
  return shadow - change;
}
inline float weight_decay(float g, float w, float decay) {
  const float pull = decay * w;
  return g + pull;
}

}  // namespace terngrad::reference
