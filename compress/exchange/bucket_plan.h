// Buckets: tensors of a gradient that are exchanged together while others are still being computed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/tensor/layout.h"

namespace terngrad {

/// For each bucket, in order of exchange, the indices of its tensors in layout order.
using Buckets = std::vector<std::vector<int>>;

/// A single bucket with all tensors: the gradient is exchanged whole.
Buckets whole_bucket(const Layout& layout);

/// Fills buckets with tensors in the given order. A bucket is closed once it holds at least `bucket_bytes` of float32,
/// so all but the last have at least that size; tensors are never cut, and an empty tensor makes no bucket of its own.
/// A function of the arguments alone, so all ranks compute the same buckets.
/// @param order         permutation of the layout's tensors: the order in which a backward pass finishes them
/// @param bucket_bytes  at least 1
/// @throws InvalidArgument if either is not as required
Buckets plan_buckets(const Layout& layout, std::span<const int> order, std::int64_t bucket_bytes);

/// @throws InvalidArgument, naming the tensor, unless every tensor of the layout is in exactly one bucket and no bucket
/// is empty
void check_buckets(const Layout& layout, const Buckets& buckets);

}  // namespace terngrad
