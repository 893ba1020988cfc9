// Formats of codes, each specified in enough detail to write a decoder.
#pragma once

#include <cstdint>
#include <string>

namespace terngrad {

/// Formats of a sequence of n codes, with their numbers in records. All are little-endian; unused trailing bits and
/// bytes are zero.
enum class CodeFormat : std::uint8_t {
  /// Ternary, 2 bits per code, 16 per 32-bit word, low bits first: code i is bits 2 * (i % 16) and up of word i / 16.
  /// Bit 0 = nonzero, bit 1 = negative: 00 zero, 01 plus, 11 minus; 10 never occurs and is refused. ceil(n / 16) words.
  kT2 = 1,
  /// Ternary, five codes per byte in base 3: byte j = sum over i = 0..4 of (code[5j + i] + 1) * 3^i, with digit 0 for
  /// absent codes; values 243..255 never occur and are refused. ceil(n / 5) bytes, rounded up to a multiple of 4.
  kT5 = 2,
  /// Ternary, a mask and one sign per nonzero, in chunks of 4096 codes (the last may be shorter). Three parts:
  ///   offsets: C + 1 words of 32 bits for C = ceil(n / 4096) chunks: first byte of each chunk's signs in part 3, then
  ///            the length of part 3;
  ///   masks:   ceil(n / 32) words: bit i % 32 of word i / 32 is set if code i is nonzero;
  ///   signs:   for each chunk one bit per nonzero in order, low bits first, 1 = negative, padded to a whole byte; the
  ///            part is padded to a multiple of 4 bytes.
  /// About 1 + p bits per code, where p is the fraction of nonzeros.
  kTMask = 3,
  /// Lanes of m levels for sums of codes of N workers: b = ceil(log2(m N + 1)) bits hold code + m / 2 of one worker or,
  /// added as plain uint64, sum + N m / 2 of all. floor(64 / b) lanes per uint64, low bits first, none straddling;
  /// absent lanes are zero. m is 2 L for codes from -L to L, so 2 for ternary ones. See kernels/codes/lanes.h.
  kLanes = 4,
  /// Ternary, like tmask but with entropy-coded masks. Two parts for C = ceil(n / 4096) chunks:
  ///   offsets: C + 1 words of 32 bits: begin of each chunk's record in part 2, in units of 2 bytes, then the end of
  ///            the last;
  ///   records: per chunk a byte L, a byte 0, its masks (L = 0: ceil(m / 8) uncoded bytes for m codes; else coded:
  ///            kernels/codes/mask_coding.h), and its signs as in tmask, padded to a multiple of 2 bytes; the part is
  ///            padded to a multiple of 4.
  /// About H(p) + p + 0.03 bits per code, H(p) = -p log2 p - (1 - p) log2(1 - p).
  kTrans = 5,
  /// Codes from -7 to 7: code + 7 in 4 bits, eight per 32-bit word, low bits first; 15 never occurs and is refused.
  /// ceil(n / 8) words.
  kQ4 = 16,
  /// Codes from -127 to 127: code + 127 in a byte; 255 never occurs and is refused. n bytes, rounded up to a multiple
  /// of 4.
  kQ8 = 17,
  /// Signs (kernels/codes/signs.h), one bit each, 1 = negative, 32 per 32-bit word, low bits first. ceil(n / 32) words.
  kBits = 18,
  /// Powers of two (kernels/codes/exponents.h) in a byte: a sign bit above 7 bits e; minus zero, 0x80, never occurs and
  /// is refused. n bytes, rounded up to a multiple of 4.
  kN8 = 21,
  /// Powers of two in 4 bits: a sign bit above 3 bits e, eight codes per 32-bit word, low bits first; minus zero, 8,
  /// never occurs and is refused. ceil(n / 8) words.
  kN4 = 22,
  /// FP8 numbers: E4M3 in a byte each (kernels/codes/fp8.h); NaN, 0x7f and 0xff, and minus zero, 0x80, never occur and
  /// are refused. n bytes, rounded up to a multiple of 4.
  kE4M3 = 23,
  /// Levels of a codebook (kernels/codes/codebook_codes.h) in 2 bits: a sign bit above the number of the magnitude, 16
  /// codes per 32-bit word, low bits first. ceil(n / 16) words.
  kE2 = 26,
  /// The same in 3 bits, a sign above 2 bits, eight codes in three bytes, low bits first. 3 ceil(n / 8) bytes, rounded
  /// up to a multiple of 4.
  kE3 = 27,
  /// The same in 4 bits, a sign above 3 bits, eight codes per 32-bit word, low bits first. ceil(n / 8) words.
  kE4 = 28,
};

/// "t2", "t5", "tmask", "lanes", "trans", "q4", "q8", "bits", "n8", "n4", "e4m3", "e2", "e3", "e4".
std::string to_string(CodeFormat format);

/// Alias for a format of ternary codes, {-1, 0, +1}: one of the first five.
using TernaryFormat = CodeFormat;

/// Integer sums up to this magnitude are exact in float32.
inline constexpr std::int64_t kMaxExactSum = std::int64_t{1} << 24;

/// Bits of a lane for sums over `num_workers` workers of counts from 0 to `levels` each: ceil(log2(m N + 1)). m = 2 L
/// for codes from -L to L (count = code + L), so 2 for ternary codes; m = 1 for votes.
/// @throws InvalidArgument if num_workers or levels is below 1, or m N is above 2^25 (twice kMaxExactSum)
int lane_bits(int num_workers, int levels = 2);

/// Number of lanes in one uint64.
constexpr int lanes_per_word(int bits) { return 64 / bits; }

/// Bias of a lane, its count minus its sum of codes: N floor(m / 2).
constexpr int lane_bias(int num_workers, int levels = 2) { return num_workers * (levels / 2); }

/// Length in bytes of `n` codes: exact except for tmask and trans, where it is the maximum. A multiple of 4 (lanes: of
/// 8).
/// @param num_workers  number of workers whose codes are summed; lanes only
/// @param lane_levels  m; lanes only
std::int64_t payload_bytes(CodeFormat format, std::int64_t n, int num_workers, int lane_levels = 2);

/// True if payload_bytes is exact for this format.
constexpr bool has_fixed_size(CodeFormat format) {
  return format != CodeFormat::kTMask && format != CodeFormat::kTrans;
}

/// Minimum length in bytes of a payload of `n` codes of one worker.
std::int64_t min_payload_bytes(CodeFormat format, std::int64_t n);

/// True for ternary codes of one worker: t2, t5, tmask and trans.
constexpr bool is_ternary(CodeFormat format) {
  return format == CodeFormat::kT2 || format == CodeFormat::kT5 || format == CodeFormat::kTMask ||
         format == CodeFormat::kTrans;
}

/// True if GPUs have kernels for a format: all but trans.
constexpr bool runs_on_gpus(CodeFormat format) { return format != CodeFormat::kTrans; }

/// True for codes of a codebook: e2, e3 and e4.
constexpr bool is_codebook(CodeFormat format) {
  return format == CodeFormat::kE2 || format == CodeFormat::kE3 || format == CodeFormat::kE4;
}

/// True if codes are integers that can be summed; codes of other formats stand for floating-point values.
constexpr bool holds_integers(CodeFormat format) {
  return format != CodeFormat::kN8 && format != CodeFormat::kN4 && format != CodeFormat::kE4M3 &&
         format != CodeFormat::kBits && !is_codebook(format);
}

/// Sizes of the parts of a tmask payload of n codes.
struct TMaskParts {
  std::int64_t num_chunks = 0;
  std::int64_t masks_offset = 0;  // bytes from the payload's start
  std::int64_t signs_offset = 0;
};
TMaskParts tmask_parts(std::int64_t n);

}  // namespace terngrad
