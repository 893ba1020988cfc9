// GradientTransport: how the encoded gradients of a process's workers travel to those who aggregate them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "compress/codec/coder.h"
#include "compress/comm/communicator.h"
#include "compress/plan/codec_plan.h"
#include "compress/wire/payload_rows.h"
#include "compress/wire/wire_format.h"

namespace terngrad {

/// Writes the messages of a process's workers from their PayloadRows, and points the incoming slots of these rows to
/// what came.
///
/// Between processes of several workers, floats are added before they travel: in place of its workers' slices of a
/// tensor whose codec adds floats (CodecTraits::sums_as_float), a process sends the sums over the subtrees that lie
/// within its workers (kernels/tensor/worker_tree.h), in fp32. The mean keeps its bits, whichever process adds what. It
/// does so where that takes fewer bits, over all processes: fp32 with 2 workers in some process, bf16 with about 3 in
/// each. Slices of other codecs travel as they are: codes of 1.6 to 2 bits are smaller than sums of them.
///
/// Keeps storage from step to step. Not for lanes, which the transport adds.
class GradientTransport {
 public:
  using Coders = std::span<const std::unique_ptr<Coder>>;  // one per group of the plan

  /// @param layout, plan  kept by reference
  /// @param ranks         the workers of each process, in order; none of one that only serves
  /// @param rank          which of them this is
  GradientTransport(const Layout& layout, const CodecPlan& plan, std::vector<WorkerRange> ranks, int rank);

  /// Whether any tensor's elements are added before they travel. The same on all ranks.
  bool adds_any() const;
  /// Makes parts [first, first + count) of `rows` those that this process aggregates, from what will come.
  void expect_parts(PayloadRows& rows, std::size_t first, std::size_t count) const;

  /// Of a part, how many messages a process sends.
  struct Counts {
    int of_workers = 0;  // each with the slices that are not added
    int of_sums = 0;     // each with those that are, behind the others
  };
  Counts counts(std::span<const Slice> slices, int rank) const;

  /// Called with each worker's message once it is written, for several workers at once. With a filter, this process
  /// also reads its own messages, in place of the payloads that they were written from.
  using MessageFilter = std::function<void(int worker, std::span<std::uint8_t> message)>;
  void set_filter(MessageFilter filter) { filter_ = std::move(filter); }

  /// Appends what this process sends of one part of its rows.
  void append(const PayloadRows& rows, Coders coders, std::size_t part, const MessageContext& context, Parcels& out,
              Stream& stream);

  /// Takes apart what all processes have sent of the aggregated parts of `rows`, each part appended in order, and
  /// points the incoming slots there. What this process sent for itself it does not read.
  /// @param parcels  in order of ranks; viewed until the next call
  /// @throws CommunicationError for any message that is damaged, foreign, or not what was expected at its place, and
  /// for scalers that are not those with which its worker encodes, as far as that is known: of a codec that shares
  /// none, of this process's workers, and that tensors which are not finite have 0
  void read(const Parcels& parcels, PayloadRows& rows, Coders coders, const MessageContext& context, Stream& stream);

  /// The size of a worker's message of an aggregated part that was read: as it would be with all slices, added ones
  /// too. @param part  counted from the first aggregated one
  std::int64_t bytes_of(const PayloadRows& rows, int worker, std::size_t part) const;

 private:
  /// What one message holds and whose it is.
  struct Place {
    std::size_t parcel = 0;
    std::size_t part = 0;
    int worker = 0;  // of a sum, the first one
    bool is_sum = false;
    bool is_read = true;  // else it is of this process, and its payloads are in the rows
    Message* message = nullptr;
  };
  bool adds(int segment) const { return adds_[static_cast<std::size_t>(plan_.group_of(segment))]; }
  /// Of the slices, how many are of tensors whose elements are added.
  std::size_t num_added(std::span<const Slice> slices) const;
  std::int64_t worker_message_bytes(const PayloadRows& rows, std::size_t part, std::size_t local_worker) const;
  std::int64_t sum_message_bytes(std::span<const Slice> slices) const;
  void write_worker(const PayloadRows& rows, Coders coders, std::size_t part, std::size_t local_worker,
                    const MessageContext& context, std::span<std::uint8_t> storage) const;
  void append_sums(const PayloadRows& rows, Coders coders, std::size_t part, const MessageContext& context,
                   Parcels& out, Stream& stream);
  void list_places(std::span<const std::vector<Slice>> parts);
  bool is_local(int worker) const;
  void check(const Place& place, std::span<const Slice> slices, Coders coders) const;
  /// Checks the scalers of a slice, of which workers have agreed on all or on whether there are any.
  void check_scalers_of(const EncodedSlice& encoded, const Codec& codec, Coder& coder, int worker) const;
  /// Hands the coders what workers of other processes have scaled by themselves.
  void take_scalers(Coders coders) const;
  /// Points the incoming slots of the rows to the payloads that were read.
  void deliver(PayloadRows& rows) const;

  const Layout& layout_;
  const CodecPlan& plan_;
  std::vector<WorkerRange> ranks_;
  std::size_t rank_;
  std::size_t num_workers_ = 0;
  std::vector<std::vector<int>> subtrees_;  // of each rank: how many workers each has
  std::vector<int> all_subtrees_;           // of all ranks
  std::vector<bool> adds_;                  // of each group of the plan
  MessageFilter filter_;
  MessageWriter writer_;
  std::size_t num_parts_ = 0;
  std::vector<Message> messages_;  // [worker][part]: what was not added
  std::vector<Message> sums_;      // [subtree][part]
  std::vector<Place> places_;
};

}  // namespace terngrad
