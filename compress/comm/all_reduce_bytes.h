// What an all-reduce moves.
#pragma once

#include <cstdint>

namespace terngrad {

/// Bytes that a node sends, and as many that it receives, in an all-reduce of `num_bytes` between `num_nodes` by shards
/// or around a ring, the least there is: 2 (n - 1) / n times num_bytes, rounded down.
std::int64_t all_reduce_bytes(std::int64_t num_bytes, int num_nodes);

}  // namespace terngrad
