// Buckets: tensors of a gradient that are exchanged together while others are still being computed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/tensor/layout.h"

namespace terngrad {

/// Indices of a layout's tensors, in order of the layout, for each bucket in the order in which they are exchanged.
using Buckets = std::vector<std::vector<int>>;

/// One bucket with everything: a gradient that is exchanged whole.
Buckets whole_bucket(const Layout& layout);

/// Fills buckets with tensors in `order`, each until it holds `bucket_bytes` of float32 or more: so all but the last
/// have at least that much, and a tensor is never cut. An empty tensor makes no bucket of its own. Depends on the
/// arguments alone, so that all ranks have the same.
/// @param order         every tensor of the layout once: as a backward pass ends them
/// @param bucket_bytes  at least 1
/// @throws InvalidArgument for others
Buckets plan_buckets(const Layout& layout, std::span<const int> order, std::int64_t bucket_bytes);

/// @throws InvalidArgument, naming the tensor, unless the buckets hold every tensor of the layout once, and each at
/// least one
void check_buckets(const Layout& layout, const Buckets& buckets);

}  // namespace terngrad
