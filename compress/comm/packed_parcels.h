// Parcels as one byte string, for transports with a single message per rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/comm/communicator.h"

namespace terngrad {

/// Number, sizes and storage of the parcels, as words, so that the bytes are aligned.
std::vector<std::uint64_t> pack_parcels(const Parcels& parcels);

/// Appends the parcels that `pack_parcels` packed on another rank.
/// @param bytes            any alignment
/// @param operation, rank  for the error message: the operation and the sender
/// @throws CommunicationError if the bytes are no packed parcels. Nothing is appended then
void unpack_parcels(std::span<const std::uint8_t> bytes, const char* operation, int rank, Parcels& all);

}  // namespace terngrad
