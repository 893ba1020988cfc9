// Payloads of sparse messages: places and values of the elements that a slice keeps.
#pragma once

#include <cstdint>
#include <span>

namespace terngrad {

/// Numbers in message records (docs/wire-format.md, "Sparse codes"); never reused.
enum class SparseFormat : std::uint8_t {
  kRuns = 19,   // of a whole slice: gaps between places, in as many bits as a group of 128 needs
  kLocal = 20,  // of every block as many, and places within the block
};

/// How values travel; those of bf16 are rounded to nearest, ties to even.
enum class SparseValues : std::uint8_t { kFloat32, kBfloat16 };

/// The smallest fraction of elements that may be kept: some more than one of 2^32.
inline constexpr double kMinDensity = 1e-9;

/// What both sides know of a payload beforehand.
struct SparseShape {
  SparseFormat format = SparseFormat::kRuns;
  SparseValues values = SparseValues::kFloat32;
  std::int64_t num_elements = 0;    // of the slice
  double density = 0;               // of a block, or of the slice, top_k_count are kept
  std::int64_t block_elements = 0;  // of kLocal: a power of two from 256 to 65536
  std::int64_t num_places = -1;     // of kRuns: how many are kept, in place of what density says; -1: that

  friend bool operator==(const SparseShape&, const SparseShape&) = default;
};

/// How many elements a slice keeps.
std::int64_t num_kept(const SparseShape& shape);
/// Whether format runs can hold a slice: fewer than 2^32 elements, and gaps of fewer than 2^26 bits over all groups.
bool runs_fit(const SparseShape& shape);
/// Length of a payload: of kLocal exactly, of kRuns at most. A multiple of 4.
/// @throws InvalidArgument for a slice of kRuns that does not fit
std::int64_t max_sparse_bytes(const SparseShape& shape);

/// Writes a payload.
/// @param places   [num_kept(shape)] ascending; of kLocal of every block as many as it keeps
/// @param values   [num_kept(shape)] the elements at these places
/// @param payload  out: max_sparse_bytes(shape) bytes, aligned to 8
/// @returns its length
std::int64_t write_sparse(const SparseShape& shape, std::span<const std::uint32_t> places,
                          std::span<const float> values, std::uint8_t* payload);

/// Checks that write_sparse can have written a payload, so that the functions below read nothing out of bounds.
/// @throws CommunicationError saying what is wrong
void check_sparse(const SparseShape& shape, std::span<const std::uint8_t> payload);

/// out[place - first] += value, for the elements of a payload that are in [first, first + out.size()).
/// @param payload  has passed check_sparse
void add_sparse(const SparseShape& shape, std::span<const std::uint8_t> payload, std::int64_t first,
                std::span<float> out);

/// out[place] = value, for all elements of a payload of runs. Others stay as they are.
/// @param payload  has passed check_sparse. @param out  [shape.num_elements]
void put_sparse(const SparseShape& shape, std::span<const std::uint8_t> payload, std::span<float> out);

/// The values of a payload of runs in float32. @param payload  has passed check_sparse
std::span<const float> sparse_values(const SparseShape& shape, std::span<const std::uint8_t> payload);

}  // namespace terngrad
