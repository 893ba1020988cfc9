// Payloads of the elements of an array that are not zero, of any number.
#pragma once

#include <cstdint>
#include <span>

namespace terngrad {

/// Format runs (SparseFormat::kRuns) with values in float32, of all elements whose bits are not those of +0: reading
/// gives the array back bit for bit. How many there are is the payload's first word, and known to no one beforehand.

/// Whether the format can hold an array: fewer than 2^32 elements, and gaps of fewer than 2^26 bits over all groups.
bool nonzeros_fit(std::int64_t count, std::int64_t max_places);
/// The most bytes of a payload. @param count  elements of the array, fewer than 2^32
/// @param max_places  the most of them that are not zero
/// @throws InvalidArgument as max_sparse_bytes
std::int64_t max_nonzero_bytes(std::int64_t count, std::int64_t max_places);

/// @param max_places  as above; more of them are refused
/// @param payload  out: max_nonzero_bytes(values.size(), max_places) bytes, aligned to 8
/// @returns its length. @throws InvalidArgument for more places
std::int64_t write_nonzeros(std::span<const float> values, std::int64_t max_places, std::uint8_t* payload);

/// Checks that write_nonzeros can have written a payload of `count` elements. @throws CommunicationError
void check_nonzeros(std::int64_t count, std::int64_t max_places, std::span<const std::uint8_t> payload);

/// @param payload  of as many elements, has passed check_nonzeros. @param out  all elements
void read_nonzeros(std::span<const std::uint8_t> payload, std::span<float> out);

}  // namespace terngrad
