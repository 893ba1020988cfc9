// Payloads of sparse messages: places (indices) and values of the selected elements of a slice.
#pragma once

#include <cstdint>
#include <span>

namespace terngrad {

/// Format numbers in message records (docs/wire-format.md, "Sparse codes"); never reused.
enum class SparseFormat : std::uint8_t {
  kRuns = 19,   // whole slice: gaps between places, packed with one width per group of 128
  kLocal = 20,  // equally many elements per block, with places relative to the block
};

/// Type of the values on the wire; bf16 is rounded to nearest, ties to even.
enum class SparseValues : std::uint8_t { kFloat32, kBfloat16 };

/// Smallest density (fraction of elements kept), somewhat above 2^-32.
inline constexpr double kMinDensity = 1e-9;

/// Parameters of a payload that sender and receiver know beforehand.
struct SparseShape {
  SparseFormat format = SparseFormat::kRuns;
  SparseValues values = SparseValues::kFloat32;
  std::int64_t num_elements = 0;    // elements of the slice
  double density = 0;               // fraction kept, of the slice or of each block: see top_k_count
  std::int64_t block_elements = 0;  // kLocal: a power of two from 256 to 65536
  std::int64_t num_places = -1;     // kRuns: number of elements kept, instead of by density; -1: by density

  friend bool operator==(const SparseShape&, const SparseShape&) = default;
};

/// Number of elements that a slice keeps.
std::int64_t num_kept(const SparseShape& shape);
/// True if format runs can hold the slice: fewer than 2^32 elements, and gap widths of all groups sum to less than 2^26
/// bits.
bool runs_fit(const SparseShape& shape);
/// Length of a payload in bytes, a multiple of 4: exact for kLocal, an upper bound for kRuns.
/// @throws InvalidArgument for a kRuns slice that does not fit
std::int64_t max_sparse_bytes(const SparseShape& shape);

/// Writes a payload.
/// @param places   [num_kept(shape)] ascending; for kLocal with the required number in each block
/// @param values   [num_kept(shape)] elements at these places
/// @param payload  out: max_sparse_bytes(shape) bytes, aligned to 8
/// @returns the length of the payload
std::int64_t write_sparse(const SparseShape& shape, std::span<const std::uint32_t> places,
                          std::span<const float> values, std::uint8_t* payload);

/// Checks that write_sparse can have written the payload, so that the functions below read nothing out of bounds.
/// @throws CommunicationError with the reason otherwise
void check_sparse(const SparseShape& shape, std::span<const std::uint8_t> payload);

/// out[place - first] += value for the payload's elements in [first, first + out.size()).
/// @param payload  must have passed check_sparse
void add_sparse(const SparseShape& shape, std::span<const std::uint8_t> payload, std::int64_t first,
                std::span<float> out);

/// out[place] = value for all elements of a payload of format runs. Other elements of `out` are unchanged.
/// @param payload  must have passed check_sparse
/// @param out  [shape.num_elements]
void put_sparse(const SparseShape& shape, std::span<const std::uint8_t> payload, std::span<float> out);

/// The values in a payload of format runs with float32 values. @param payload  must have passed check_sparse
std::span<const float> sparse_values(const SparseShape& shape, std::span<const std::uint8_t> payload);

}  // namespace terngrad
