// All-gather and maximum of float64 numbers over ranks.
#pragma once

#include <span>
#include <vector>

#include "compress/comm/communicator.h"

namespace terngrad {

/// Every rank's numbers, in order of ranks; a collective call. Ranks must have the same byte order and float64 format.
/// @throws CommunicationError if a rank passes a different count
std::vector<std::vector<double>> all_gather_doubles(Communicator& communicator, std::span<const double> own);

/// Element-wise maximum over ranks; a collective call, with the same result on all ranks.
/// @throws CommunicationError if a rank passes a different count
std::vector<double> max_over_ranks(Communicator& communicator, std::span<const double> own);

}  // namespace terngrad
