#include "kernels/codes/ternary.h"

#include <bit>

#include "kernels/codes/trans_payload.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/slice.h"

namespace terngrad {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::string to_string(CodeFormat format) {
  switch (format) {
    case CodeFormat::kT2:
      return "t2";
    case CodeFormat::kT5:
      return "t5";
    case CodeFormat::kTMask:
      return "tmask";
    case CodeFormat::kLanes:
      return "lanes";
    case CodeFormat::kTrans:
      return "trans";
    case CodeFormat::kQ4:
      return "q4";
    case CodeFormat::kQ8:
      return "q8";
    case CodeFormat::kBits:
      return "bits";
    case CodeFormat::kN8:
      return "n8";
    case CodeFormat::kN4:
      return "n4";
    case CodeFormat::kE4M3:
      return "e4m3";
    case CodeFormat::kE2:
      return "e2";
    case CodeFormat::kE3:
      return "e3";
    case CodeFormat::kE4:
      return "e4";
  }
  TERNGRAD_THROW(InvalidArgument, "[codes] unknown format ", static_cast<int>(format));
}

int lane_bits(int num_workers, int levels) {
  TERNGRAD_REQUIRE(num_workers >= 1, "[lanes] num_workers must be at least 1, got ", num_workers);
  TERNGRAD_REQUIRE(levels >= 1, "[lanes] a lane must have at least 1 level, got ", levels);
  const std::int64_t most = std::int64_t{levels} * num_workers;
  TERNGRAD_REQUIRE(levels <= 2 || most <= 2 * kMaxExactSum, "[lanes] sums of ", levels, " levels over ", num_workers,
                   " workers pass 2^25");
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(most)));  // m N + 1 values
}

std::int64_t payload_bytes(CodeFormat format, std::int64_t n, int num_workers, int lane_levels) {
  TERNGRAD_REQUIRE(n >= 0, "[codes] number of codes must not be negative, got ", n);
  switch (format) {
    case CodeFormat::kT2:
    case CodeFormat::kE2:
      return divide_up(n, 16) * 4;
    case CodeFormat::kT5:
      return divide_up(divide_up(n, 5), 4) * 4;
    case CodeFormat::kTMask:
      // A chunk's signs are padded to whole bytes; all chunks but the last have at most 4096 / 8 of them.
      return tmask_parts(n).signs_offset + divide_up(divide_up(n, 8), 4) * 4;
    case CodeFormat::kLanes:
      return divide_up(n, lanes_per_word(lane_bits(num_workers, lane_levels))) * 8;
    case CodeFormat::kTrans:
      return trans_parts(n).max_bytes;
    case CodeFormat::kBits:
      return divide_up(n, 32) * 4;
    case CodeFormat::kQ4:
    case CodeFormat::kN4:
    case CodeFormat::kE4:
      return divide_up(n, 8) * 4;
    case CodeFormat::kE3:
      return divide_up(3 * divide_up(n, 8), 4) * 4;
    case CodeFormat::kQ8:
    case CodeFormat::kN8:
    case CodeFormat::kE4M3:
      return divide_up(n, 4) * 4;
  }
  TERNGRAD_THROW(InvalidArgument, "[codes] unknown format ", static_cast<int>(format));
}

std::int64_t min_payload_bytes(CodeFormat format, std::int64_t n) {
  if (format == CodeFormat::kTMask) return tmask_parts(n).signs_offset;
  if (format == CodeFormat::kTrans) return trans_parts(n).records_offset;
  return payload_bytes(format, n, 1);
}

TMaskParts tmask_parts(std::int64_t n) {
  TMaskParts parts;
  parts.num_chunks = divide_up(n, kChunkElements);
  parts.masks_offset = 4 * (parts.num_chunks + 1);
  parts.signs_offset = parts.masks_offset + 4 * divide_up(n, 32);
  return parts;
}

}  // namespace terngrad
