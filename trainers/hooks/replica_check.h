// Comparing the replicas of several processes, which must have the same bits.
#pragma once

#include <cstdint>
#include <memory>

#include "trainers/loop/hook.h"

namespace terngrad {

/// Every `steps` steps compares checksums of every tensor of the parameters, their average and the optimizer's slots
/// between all ranks, and between the GPUs of each; costs a pass over them and a message of 8 bytes per tensor.
/// Exchanges of equal bits never let them differ (contract B2): a difference is damage in memory, another program on
/// one host, or --exchange vendor on a library that rounds differently on its ranks. The hook then throws on every rank
/// an Error that names the first such tensor and the first rank, and GPU, that differs from the first of rank 0.
/// @throws InvalidArgument if steps is 0
std::unique_ptr<Hook> make_replica_check_hook(std::uint64_t steps);

}  // namespace terngrad
