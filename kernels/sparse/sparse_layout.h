// Layout constants of sparse payloads (docs/wire-format.md, "Sparse codes"), shared by both backends.
#pragma once

#include <cstdint>

namespace terngrad {

inline constexpr std::int64_t kSparseGroup = 128;    // places per group in format runs; a group has one gap width
inline constexpr std::int64_t kRunsHeaderWords = 2;  // number of places, and 0
inline constexpr int kRunsWidthBits = 6;             // in a group's second word, below the earlier widths' sum
inline constexpr std::uint32_t kMaxRunsWidth = 32;   // bits per gap

constexpr std::int64_t num_sparse_groups(std::int64_t num_places) {
  return (num_places + kSparseGroup - 1) / kSparseGroup;
}
constexpr std::int64_t words_of_bits(std::int64_t bits) { return (bits + 31) / 32; }

/// First word of a group's gaps. All earlier groups are full, so the sum of their widths determines it.
/// @param num_places    total of the payload
/// @param widths_before  sum over all earlier groups
constexpr std::int64_t first_gap_word(std::int64_t num_places, std::uint32_t widths_before) {
  return kRunsHeaderWords + 2 * num_sparse_groups(num_places) + std::int64_t{widths_before} * (kSparseGroup / 32);
}

/// Number of places in a group. Without std::min, because kernels cannot take the address of a host constant.
constexpr std::int64_t places_of_group(std::int64_t num_places, std::int64_t group) {
  const std::int64_t left = num_places - group * kSparseGroup;
  return left < kSparseGroup ? left : kSparseGroup;
}

}  // namespace terngrad
