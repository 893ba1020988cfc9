// Bytes moved by an all-reduce.
#pragma once

#include <cstdint>

namespace terngrad {

/// Bytes that each node sends, and also receives, in an all-reduce of `num_bytes` between n nodes by shards or around a
/// ring, which is optimal: 2 (n - 1) / n times num_bytes, rounded down.
std::int64_t all_reduce_bytes(std::int64_t num_bytes, int num_nodes);

}  // namespace terngrad
