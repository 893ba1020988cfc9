// GroupMeans: the first and the last part of an exchange in two levels, within groups of workers.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "compress/transport/exchange_peers.h"
#include "kernels/codes/float_payload.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device_step.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

class NonfiniteFlags;
class PartClock;
class Round;
struct PartContext;

/// Takes the mean of the gradients of each group's workers, which the group's first rank exchanges with other groups,
/// and sends the result of that to the group's other ranks. NaN and infinity travel in the mean, so an error names the
/// group. Takes 4 bytes per element and worker for what is added, as much per group for the means, and on ranks that
/// share a group as much again.
class GroupMeans {
 public:
  /// @param layout   of the tensors of a part
  /// @param context  its peers have members
  GroupMeans(const Layout& layout, const PartContext& context);
  ~GroupMeans();

  /// @param gradients  one table per local worker, in order of worker numbers
  /// @returns float32 means of the groups for which this rank exchanges, valid until the next call
  /// @throws InvalidArgument for another number of gradients
  std::span<const TensorTable> reduce(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream,
                                      PartClock& clock);
  /// The last result of reduce.
  std::span<const TensorTable> means() const { return is_first() ? means_ : std::span<const TensorTable>(); }
  /// Brings the mean of all groups and the non-finite tensors from the group's first rank to its others.
  void spread(const TensorTable& mean, NonfiniteFlags& flags, Stream& stream, PartClock& clock);

 private:
  void broadcast(std::span<std::uint8_t> bytes, Stream& stream);
  bool is_first() const { return rank_ == 0; }

  Layout layout_;
  GroupMembers members_;
  int rank_ = 0;  // within the group
  bool is_shared_ = false;
  std::unique_ptr<NonfiniteFlags> unused_flags_;
  std::vector<std::unique_ptr<Round>> rounds_;  // one per group
  std::vector<Buffer<float>> values_;           // [flat elements] means
  std::vector<TensorTable> means_;
  Buffer<float> travelling_;  // the mean of all groups, without gaps
  FloatPacker packer_;
};

}  // namespace terngrad
