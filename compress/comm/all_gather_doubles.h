// Numbers that each rank has, on every rank.
#pragma once

#include <span>
#include <vector>

#include "compress/comm/communicator.h"

namespace terngrad {

/// Every rank's numbers, in order of ranks; a collective call. Ranks have one byte order and float64 format.
/// @throws CommunicationError if a rank has another count of them
std::vector<std::vector<double>> all_gather_doubles(Communicator& communicator, std::span<const double> own);

/// The largest over ranks of each of these numbers; a collective call, with the same result on all of them.
/// @throws CommunicationError if a rank has another count of them
std::vector<double> max_over_ranks(Communicator& communicator, std::span<const double> own);

}  // namespace terngrad
