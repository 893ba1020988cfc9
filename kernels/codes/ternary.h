// Formats of codes: how a run of codes is stored. Every format is specified here well enough to write a decoder from.
#pragma once

#include <cstdint>
#include <string>

namespace terngrad {

/// Formats of a run of n codes, by their numbers in records. All are little-endian; unused trailing bits and bytes are
/// zero.
enum class CodeFormat : std::uint8_t {
  /// Ternary, 2 bits per code, 16 per 32-bit word, low bits first: code i is bits 2 * (i % 16) and up of word i / 16.
  /// Bit 0 = non-zero, bit 1 = negative: 00 zero, 01 plus, 11 minus; 10 never occurs and is refused. ceil(n / 16)
  /// words.
  kT2 = 1,
  /// Ternary, five codes per byte in base 3: byte j = sum over i = 0..4 of (code[5j + i] + 1) * 3^i, absent codes
  /// counting
  /// as digit 0; values 243..255 never occur and are refused. ceil(n / 5) bytes, rounded up to a multiple of 4.
  kT5 = 2,
  /// Ternary, a mask with one sign per non-zero, in chunks of 4096 codes (the last may be shorter). Three parts:
  ///   offsets: C + 1 words of 32 bits for C = ceil(n / 4096) chunks: the byte in part 3 where each chunk's signs
  ///   begin,
  ///            then the length of part 3;
  ///   masks:   ceil(n / 32) words: bit i % 32 of word i / 32 says whether code i is non-zero;
  ///   signs:   for each chunk one bit per non-zero in order, low bits first, 1 = negative, filled up to a whole byte;
  ///            the part is filled up to a multiple of 4 bytes.
  /// About 1 + p bits per code, p being the fraction of non-zeros.
  kTMask = 3,
  /// Lanes of m levels for sums of codes of N workers: b = ceil(log2(m N + 1)) bits hold code + m / 2 of one worker or,
  /// added up as plain uint64, sum + N m / 2 of all. floor(64 / b) lanes per uint64, low bits first, none straddling;
  /// absent lanes are zero. Of codes from -L to L, m is 2 L; of ternary ones it is 2. See kernels/codes/lanes.h.
  kLanes = 4,
  /// Ternary, as tmask but with entropy-coded masks. Two parts for C = ceil(n / 4096) chunks:
  ///   offsets: C + 1 words of 32 bits: where each chunk's record begins in part 2, in units of 2 bytes, then where the
  ///            last ends;
  ///   records: of each chunk a byte L, a byte 0, its masks (L = 0: ceil(m / 8) bytes of m codes as they are; else
  ///            coded: kernels/codes/mask_coding.h), and its signs as in tmask, filled up to a multiple of 2 bytes; the
  ///            part is filled up to a multiple of 4.
  /// About H(p) + p + 0.03 bits per code, H(p) = -p log2 p - (1 - p) log2(1 - p).
  kTrans = 5,
  /// Codes from -7 to 7: code + 7 in 4 bits, eight per 32-bit word, low bits first; 15 never occurs and is refused.
  /// ceil(n / 8) words.
  kQ4 = 16,
  /// Codes from -127 to 127: code + 127 in a byte; 255 never occurs and is refused. n bytes, rounded up to a multiple
  /// of
  /// 4.
  kQ8 = 17,
  /// Signs (kernels/codes/signs.h), a bit each, 1 = negative, 32 per 32-bit word, low bits first. ceil(n / 32) words.
  kBits = 18,
  /// Powers of two (kernels/codes/exponents.h) in a byte: a sign above 7 bits e; minus zero, 0x80, never occurs and is
  /// refused. n bytes, rounded up to a multiple of 4.
  kN8 = 21,
  /// Powers of two in 4 bits: a sign above 3 bits e, eight codes per 32-bit word, low bits first; minus zero, 8, never
  /// occurs and is refused. ceil(n / 8) words.
  kN4 = 22,
  /// FP8 numbers: E4M3 in a byte each (kernels/codes/fp8.h); NaN, 0x7f and 0xff, and minus zero, 0x80, never occur and
  /// are
  /// refused. n bytes, rounded up to a multiple of 4.
  kE4M3 = 23,
};

/// "t2", "t5", "tmask", "lanes", "trans", "q4", "q8", "bits", "n8", "n4", "e4m3".
std::string to_string(CodeFormat format);

/// The formats of ternary codes, {-1, 0, +1}, are the first five.
using TernaryFormat = CodeFormat;

/// Sums of codes are exact in float32 below this.
inline constexpr std::int64_t kMaxExactSum = std::int64_t{1} << 24;

/// Bits of a lane for sums over `num_workers` workers of counts from 0 to `levels` each: ceil(log2(m N + 1)).
/// Codes from -L to L are counts code + L, so m = 2 L; those of ternary codes have m = 2, votes m = 1.
/// @throws InvalidArgument if num_workers or levels is below 1, or m N is above 2^25 (twice kMaxExactSum)
int lane_bits(int num_workers, int levels = 2);

/// Lanes in one uint64.
constexpr int lanes_per_word(int bits) { return 64 / bits; }

/// What a lane's count exceeds its sum of codes by: N floor(m / 2).
constexpr int lane_bias(int num_workers, int levels = 2) { return num_workers * (levels / 2); }

/// Bytes of `n` codes: exact for all formats but tmask and trans, for which it is the largest possible. A multiple of 4
/// (lanes: of 8).
/// @param num_workers  workers whose codes are summed; used by lanes only
/// @param lane_levels  m of lanes
std::int64_t payload_bytes(CodeFormat format, std::int64_t n, int num_workers, int lane_levels = 2);

/// Whether payload_bytes is exact for this format.
constexpr bool has_fixed_size(CodeFormat format) {
  return format != CodeFormat::kTMask && format != CodeFormat::kTrans;
}

/// Bytes that a payload of `n` codes of one worker has at least.
std::int64_t min_payload_bytes(CodeFormat format, std::int64_t n);

/// Whether codes are ternary and of one worker: t2, t5, tmask and trans.
constexpr bool is_ternary(CodeFormat format) {
  return format == CodeFormat::kT2 || format == CodeFormat::kT5 || format == CodeFormat::kTMask ||
         format == CodeFormat::kTrans;
}

/// Whether GPUs have kernels for a format. Those of trans are the CPU's.
constexpr bool runs_on_gpus(CodeFormat format) { return format != CodeFormat::kTrans; }

/// Whether codes are integers, which can be added up; those of other formats stand for numbers.
constexpr bool holds_integers(CodeFormat format) {
  return format != CodeFormat::kN8 && format != CodeFormat::kN4 && format != CodeFormat::kE4M3 &&
         format != CodeFormat::kBits;
}

/// Sizes of the parts of a tmask payload of n codes.
struct TMaskParts {
  std::int64_t num_chunks = 0;
  std::int64_t masks_offset = 0;  // bytes from the payload's start
  std::int64_t signs_offset = 0;
};
TMaskParts tmask_parts(std::int64_t n);

}  // namespace terngrad
