// The hook that compares replicas, which must be bit-identical.
#pragma once

#include <cstdint>
#include <memory>

#include "trainers/loop/hook.h"

namespace terngrad {

/// Every `steps` steps compares checksums of every tensor of parameters, average and slots between all ranks and GPUs;
/// costs a pass over them and a message of 8 bytes per tensor. By contract B2 they are equal: a difference means
/// damaged memory, another program version on a host, or --exchange vendor with a library that rounds differently on
/// its ranks. The hook then throws on every rank an Error naming the first such tensor and the first rank and GPU that
/// differs from the first one of rank 0.
/// @throws InvalidArgument if steps is 0
std::unique_ptr<Hook> make_replica_check_hook(std::uint64_t steps);

}  // namespace terngrad
