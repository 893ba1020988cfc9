// Parcels as one byte string, for transports that move one message of each rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/comm/communicator.h"

namespace terngrad {

/// Their number, their sizes, and their storage. Words, so that the bytes are aligned.
std::vector<std::uint64_t> pack_parcels(const Parcels& parcels);

/// Appends what `pack_parcels` made on another rank.
/// @param bytes             of any alignment
/// @param operation, rank   named by the refusal: what brought the bytes, and who sent them
/// @throws CommunicationError for bytes that are no packed parcels. Nothing is appended then
void unpack_parcels(std::span<const std::uint8_t> bytes, const char* operation, int rank, Parcels& all);

}  // namespace terngrad
