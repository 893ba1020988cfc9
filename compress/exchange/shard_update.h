// ShardUpdate: an update that owners apply to their shards before sending them back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/tensor/slice.h"

namespace terngrad {

/// Applied by an owner to its shard of the mean before the shard is sent to the workers: the update of a parameter
/// server that returns parameters instead of gradients.
class ShardUpdate {
 public:
  virtual ~ShardUpdate() = default;
  /// Called once for each shard of this rank, in each step that is not dropped.
  /// @param shard   index of the shard, which consists of `slices` in this order
  /// @param values  in: mean of these slices, finite also after multiplication by the exchange's mean_factor; out: the
  ///                values to send in its place. Other slices are unspecified
  virtual void update(std::size_t shard, std::span<const Slice> slices, const TensorTable& values,
                      std::uint64_t step) = 0;
};

}  // namespace terngrad
