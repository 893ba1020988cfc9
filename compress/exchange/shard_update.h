// ShardUpdate: what owners of shards make of them before they travel back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/tensor/slice.h"

namespace terngrad {

/// What an owner makes of its shard of the mean before it travels to the workers: the update of a parameter server that
/// is asked for parameters instead of gradients.
class ShardUpdate {
 public:
  virtual ~ShardUpdate() = default;
  /// Called once for each shard of this rank, in each step that is not dropped.
  /// @param shard   its number, and `slices` what it is made of, in order
  /// @param values  in: the mean of these slices, finite, and so is it times the exchange's mean_factor; out: what
  /// travels in its place. Other slices hold anything
  virtual void update(std::size_t shard, std::span<const Slice> slices, const TensorTable& values,
                      std::uint64_t step) = 0;
};

}  // namespace terngrad
