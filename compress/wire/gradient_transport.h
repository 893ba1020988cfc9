// GradientTransport: messages of the encoded gradients of a process's workers, to the ranks that aggregate them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/codec/coder.h"
#include "compress/comm/communicator.h"
#include "compress/plan/codec_plan.h"
#include "compress/wire/message_filter.h"
#include "compress/wire/payload_rows.h"
#include "compress/wire/wire_format.h"

namespace terngrad {

/// Writes the messages of a process's workers from their PayloadRows, and points the incoming slots of these rows to
/// received payloads.
///
/// Between processes with several workers, floats are added before they travel: for a tensor whose codec adds floats
/// (CodecTraits::sums_as_float), a process sends the fp32 sums over the subtrees within its workers
/// (kernels/tensor/worker_tree.h) in place of its workers' slices. The bits of the mean do not change. Sums are used if
/// that takes fewer bits over all processes: for fp32 with 2 workers in some process, for bf16 with about 3 in each.
/// Slices of other codecs are sent unchanged, since codes of 1.6 to 2 bits are smaller than sums of them.
///
/// Storage is reused from step to step. Does not handle lanes, which the communicator adds.
class GradientTransport {
 public:
  using Coders = std::span<const std::unique_ptr<Coder>>;  // one per group of the plan

  /// @param layout, plan  kept by reference
  /// @param ranks         workers of each process, in order; empty ranges for servers
  /// @param rank          index of this process in `ranks`
  GradientTransport(const Layout& layout, const CodecPlan& plan, std::vector<WorkerRange> ranks, int rank);

  /// True if elements of any tensor are added before they travel. The same on all ranks.
  bool adds_any() const;
  /// Prepares `rows` to aggregate parts [first, first + count) in this process, from messages to be received.
  void expect_parts(PayloadRows& rows, std::size_t first, std::size_t count) const;

  /// Number of messages that a process sends for one part.
  struct Counts {
    int of_workers = 0;  // each with the slices that are not added
    int of_sums = 0;     // each with the sums of added slices; they follow the workers' messages
  };
  Counts counts(std::span<const Slice> slices, int rank) const;

  /// With a filter, this process also reads its own messages, instead of the payloads they were written from.
  void set_filter(MessageFilter filter) { filter_ = std::move(filter); }

  /// Appends this process's messages for one part of its rows.
  void append(const PayloadRows& rows, Coders coders, std::size_t part, const MessageContext& context, Parcels& out,
              Stream& stream);

  /// Parses the messages of all processes for the aggregated parts of `rows`, which were appended part by part, and
  /// points the incoming slots to their payloads. This process's own messages are not read.
  /// @param parcels  in order of ranks; must stay valid until the next call
  /// @throws CommunicationError for a message that is damaged, foreign, or not the expected one at its position, and
  /// for scalers that differ from the worker's known scalers: all shared ones, those of local workers, and 0 for
  /// non-finite tensors
  void read(const Parcels& parcels, PayloadRows& rows, Coders coders, const MessageContext& context, Stream& stream);

  /// Size of a worker's message of an aggregated part that was read, counting added slices as if the worker had sent
  /// them itself. @param part  index among the aggregated parts
  std::int64_t bytes_of(const PayloadRows& rows, int worker, std::size_t part) const;

 private:
  /// Contents and sender of one message.
  struct Place {
    std::size_t parcel = 0;
    std::size_t part = 0;
    int worker = 0;  // sender; for a sum, the first worker of the subtree
    bool is_sum = false;
    bool is_read = true;  // false for messages of this process, whose payloads are in the rows
    Message* message = nullptr;
  };
  bool adds(int segment) const { return adds_[static_cast<std::size_t>(plan_.group_of(segment))]; }
  /// Number of slices whose elements are added.
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
  /// Checks the scalers of a slice, as far as they are already known.
  void check_scalers_of(const EncodedSlice& encoded, const Codec& codec, Coder& coder, int worker) const;
  /// Passes the unshared scalers of other processes' workers to the coders.
  void take_scalers(Coders coders) const;
  /// Points the incoming slots of the rows to the received payloads.
  void deliver(PayloadRows& rows) const;

  const Layout& layout_;
  const CodecPlan& plan_;
  std::vector<WorkerRange> ranks_;
  std::size_t rank_;
  std::size_t num_workers_ = 0;
  std::vector<std::vector<int>> subtrees_;  // per rank: number of workers of each subtree
  std::vector<int> all_subtrees_;           // all ranks, concatenated
  std::vector<bool> adds_;                  // per group of the plan
  MessageFilter filter_;
  MessageWriter writer_;
  std::size_t num_parts_ = 0;
  std::vector<Message> messages_;  // [worker][part]: slices that are not added
  std::vector<Message> sums_;      // [subtree][part]
  std::vector<Place> places_;
};

}  // namespace terngrad
