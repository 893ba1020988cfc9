// GradientTransport: how the gradient messages of a process's workers travel, and what others make of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/codecs/codec_plan.h"
#include "compress/comm/communicator.h"
#include "compress/wire/wire_format.h"

namespace terngrad {

/// Between processes of several workers, floats are added before they travel: in place of its workers' slices of a
/// tensor whose codec adds floats (CodecTraits::sums_as_float), a process sends the sums over the subtrees that lie
/// within its workers (kernels/tensor/worker_tree.h), in fp32. The mean keeps its bits, whichever process adds what. It
/// does so where that takes fewer bits, over all processes: fp32 with 2 workers in some process, bf16 with about 3 in
/// each. Slices of other codecs travel as they are: codes of 1.6 to 2 bits are smaller than sums of them.
///
/// Keeps storage from step to step. Not for lanes, which the transport adds.
class GradientTransport {
 public:
  /// @param layout, plan  kept by reference
  /// @param ranks         the workers of each process, in order; none of one that only serves
  /// @param rank          which of them this is
  GradientTransport(const Layout& layout, const CodecPlan& plan, std::vector<WorkerRange> ranks, int rank);

  /// Whether any tensor's elements are added before they travel. The same on all ranks.
  bool adds_any() const;

  /// Of a part, how many messages a process sends.
  struct Counts {
    int of_workers = 0;  // each with the slices that are not added
    int of_sums = 0;     // each with those that are, behind the others
  };
  Counts counts(std::span<const Slice> slices, int rank) const;

  /// Appends what this process sends of one part of the gradient.
  /// @param messages  of this process's workers, in order, each with `slices` in their codecs' natural form
  /// @throws CommunicationError if one is damaged, where its elements are added
  void append(std::span<const std::span<const std::uint8_t>> messages, std::span<const Slice> slices,
              const MessageContext& context, Parcels& out, Stream& stream);

  /// Takes apart what all processes have sent of the same parts, each part appended in order.
  /// @param parcels  in order of ranks; viewed until the next call
  /// @param parts    slices of each
  /// @throws CommunicationError for any message that is damaged, foreign, or not what was expected at its place
  void read(const Parcels& parcels, std::span<const std::vector<Slice>> parts, const MessageContext& context,
            Stream& stream);

  /// The size of a worker's message of a part that was read: as it would be with all slices, added ones too.
  std::int64_t bytes_of(int worker, std::size_t part) const;

  /// One slice of a part as it came, for Codec::aggregate.
  struct Source {
    std::size_t num_messages = 0;
    std::span<const int> workers;  // AggregateJob::workers
  };
  /// Appends slice number `index` of a part, from all messages that hold it.
  Source append_slice(std::size_t part, std::size_t index, std::vector<EncodedSlice>& out) const;

 private:
  /// What one message holds and whose it is.
  struct Place {
    std::size_t parcel = 0;
    std::size_t part = 0;
    int worker = 0;  // of a sum, the first one
    bool is_sum = false;
    Message* message = nullptr;
  };
  bool adds(int segment) const { return adds_[static_cast<std::size_t>(plan_.group_of(segment))]; }
  /// Of the slices, how many are of tensors whose elements are added.
  std::size_t num_added(std::span<const Slice> slices) const;
  void append_rest(const Message& message, std::span<const Slice> slices, const MessageContext& context, Parcels& out);
  void append_sums(std::span<const Slice> slices, const MessageContext& context, Parcels& out, Stream& stream);
  void list_places(std::span<const std::vector<Slice>> parts);
  void check(const Place& place, std::span<const Slice> slices) const;

  const Layout& layout_;
  const CodecPlan& plan_;
  std::vector<WorkerRange> ranks_;
  std::size_t rank_;
  std::size_t num_workers_ = 0;
  std::vector<std::vector<int>> subtrees_;  // of each rank: how many workers each has
  std::vector<int> all_subtrees_;           // of all ranks
  std::vector<bool> adds_;                  // of each group of the plan
  MessageWriter writer_;
  std::vector<Message> own_;
  std::vector<EncodedSlice> slices_;
  std::span<const std::vector<Slice>> parts_;
  std::vector<Message> messages_;  // [worker][part]: what was not added
  std::vector<Message> sums_;      // [subtree][part]
  std::vector<Place> places_;
};

}  // namespace terngrad
