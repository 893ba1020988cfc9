// The layout of sparse payloads (docs/wire-format.md, "Sparse codes"): numbers that both backends compute with.
#pragma once

#include <cstdint>

namespace terngrad {

inline constexpr std::int64_t kSparseGroup = 128;    // places of runs that share a width
inline constexpr std::int64_t kRunsHeaderWords = 2;  // the number of places, and 0
inline constexpr int kRunsWidthBits = 6;             // of a group's second word; widths of the groups before are above
inline constexpr std::uint32_t kMaxRunsWidth = 32;   // bits of a gap

constexpr std::int64_t num_sparse_groups(std::int64_t num_places) {
  return (num_places + kSparseGroup - 1) / kSparseGroup;
}
constexpr std::int64_t words_of_bits(std::int64_t bits) { return (bits + 31) / 32; }

/// The word at which a group's gaps begin. All groups before are full, so the sum of their widths says where.
/// @param num_places    of the payload
/// @param widths_before  of all groups before
constexpr std::int64_t first_gap_word(std::int64_t num_places, std::uint32_t widths_before) {
  return kRunsHeaderWords + 2 * num_sparse_groups(num_places) + std::int64_t{widths_before} * (kSparseGroup / 32);
}

/// How many places a group has. Without std::min: kernels cannot refer to a constant of the host.
constexpr std::int64_t places_of_group(std::int64_t num_places, std::int64_t group) {
  const std::int64_t left = num_places - group * kSparseGroup;
  return left < kSparseGroup ? left : kSparseGroup;
}

}  // namespace terngrad
