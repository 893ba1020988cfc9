// Payloads of the nonzero elements of an array.
#pragma once

#include <cstdint>
#include <span>

namespace terngrad {

/// Format runs (SparseFormat::kRuns) with float32 values, for all elements whose bits are not those of +0. Decoding
/// restores the array bit for bit. The number of nonzeros is the payload's first word.

/// True if the format can hold the array: fewer than 2^32 elements, and gap widths of all groups sum to less than 2^26
/// bits.
bool nonzeros_fit(std::int64_t count, std::int64_t max_places);
/// Largest possible length of a payload in bytes.
/// @param count  elements of the array, fewer than 2^32
/// @param max_places  largest number of nonzero elements
/// @throws InvalidArgument as max_sparse_bytes
std::int64_t max_nonzero_bytes(std::int64_t count, std::int64_t max_places);

/// Encodes an array.
/// @param max_places  largest allowed number of nonzero elements
/// @param payload  out: max_nonzero_bytes(values.size(), max_places) bytes, aligned to 8
/// @returns the length of the payload. @throws InvalidArgument for more than max_places nonzeros
std::int64_t write_nonzeros(std::span<const float> values, std::int64_t max_places, std::uint8_t* payload);

/// Checks that write_nonzeros can have written a payload of `count` elements. @throws CommunicationError otherwise
void check_nonzeros(std::int64_t count, std::int64_t max_places, std::span<const std::uint8_t> payload);

/// Decodes an array.
/// @param payload  must have passed check_nonzeros for out.size() elements
/// @param out  all elements
void read_nonzeros(std::span<const std::uint8_t> payload, std::span<float> out);

}  // namespace terngrad
