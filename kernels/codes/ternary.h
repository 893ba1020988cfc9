// Ternary codes: how {-1, 0, +1} are stored. Every format is specified here well enough to write a decoder from.
#pragma once

#include <cstdint>
#include <string>

namespace terngrad {

/// Formats of a run of n ternary codes. All are little-endian; unused trailing bits and bytes are zero.
enum class TernaryFormat : std::uint8_t {
  /// 2 bits per code, 16 per 32-bit word, low bits first: code i is bits 2 * (i % 16) and up of word i / 16. Bit 0 =
  /// non-zero,
  /// bit 1 = negative: 00 zero, 01 plus, 11 minus; 10 never occurs and is refused. ceil(n / 16) words.
  kT2 = 1,
  /// Five codes per byte in base 3: byte j = sum over i = 0..4 of (code[5j + i] + 1) * 3^i, absent codes counting as
  /// digit 0;
  /// values 243..255 never occur and are refused. ceil(n / 5) bytes, rounded up to a multiple of 4.
  kT5 = 2,
  /// A mask with one sign per non-zero, in chunks of 4096 codes (the last may be shorter). Three parts:
  ///   offsets: C + 1 words of 32 bits for C = ceil(n / 4096) chunks: the byte in part 3 where each chunk's signs
  ///   begin, then
  ///            the length of part 3;
  ///   masks:   ceil(n / 32) words: bit i % 32 of word i / 32 says whether code i is non-zero;
  ///   signs:   for each chunk one bit per non-zero in order, low bits first, 1 = negative, filled up to a whole byte;
  ///   the
  ///            part is filled up to a multiple of 4 bytes.
  /// About 1 + p bits per code, p being the fraction of non-zeros.
  kTMask = 3,
  /// Lanes for sums of codes of N workers: b = ceil(log2(2N + 1)) bits hold code + 1 of one worker or, added up as
  /// plain
  /// uint64, sum + N of all. floor(64 / b) lanes per uint64, low bits first, none straddling; absent lanes are zero.
  kLanes = 4,
};

/// "t2", "t5", "tmask", "lanes".
std::string to_string(TernaryFormat format);
/// @throws InvalidArgument naming the accepted names
TernaryFormat ternary_format_from(const std::string& name);

/// Bits of a lane that holds a sum of `num_workers` codes: ceil(log2(2N + 1)). @throws InvalidArgument if num_workers <
/// 1
int lane_bits(int num_workers);
/// Lanes in one uint64.
constexpr int lanes_per_word(int bits) { return 64 / bits; }

/// Bytes of `n` codes: exact for t2, t5 and lanes, the largest possible for tmask. A multiple of 4 (lanes: of 8).
/// @param num_workers  workers whose codes are summed; used by lanes only
std::int64_t payload_bytes(TernaryFormat format, std::int64_t n, int num_workers);

/// Whether payload_bytes is exact for this format.
constexpr bool has_fixed_size(TernaryFormat format) { return format != TernaryFormat::kTMask; }

/// Sizes of the parts of a tmask payload of n codes.
struct TMaskParts {
  std::int64_t num_chunks = 0;
  std::int64_t masks_offset = 0;  // bytes from the payload's start
  std::int64_t signs_offset = 0;
};
TMaskParts tmask_parts(std::int64_t n);

}  // namespace terngrad
