// PayloadRows: the payloads of a process's workers in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/codec/coder.h"
#include "compress/codec/payload_slots.h"
#include "compress/comm/communicator.h"
#include "compress/plan/codec_plan.h"
#include "kernels/runtime/buffer.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Buffers for the payloads of local workers: one row per worker, which consists of consecutive parts (shards, or the
/// whole gradient); a part is a list of slices. Coders encode into it, and messages to other processes are copied from
/// it. Offsets are the same in every step.
class PayloadRows {
 public:
  /// @param plan   must outlive the rows
  /// @param parts  slices of the tensors that the rows serve; empty slices are allowed
  PayloadRows(const CodecPlan& plan, const WorkerRange& workers, std::vector<std::vector<Slice>> parts,
              PayloadForm form);

  const std::vector<std::vector<Slice>>& parts() const { return parts_; }
  PayloadForm form() const { return form_; }
  const WorkerRange& workers() const { return workers_; }

  /// Slots of a group of the plan; without slices if these rows do not serve the group.
  PayloadSlots& slots(std::size_t group) { return slots_.at(group); }

  /// Encoded payload of a local worker's slice: slice `index` of `part`.
  std::span<const std::uint8_t> payload(std::size_t part, std::size_t index, std::size_t local_worker) const;
  /// Index of a slice in its group's PayloadSlots::encoded; kNone for a slice whose payload is empty.
  static constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t encoded_index(std::size_t part, std::size_t index) const { return encoded_.at(part).at(index); }
  /// Bytes of the message with a local worker's part, as encoded.
  std::int64_t message_bytes(std::size_t part, std::size_t local_worker) const;

  /// All payloads of a local worker, at their offsets.
  std::span<std::uint64_t> row(std::size_t local_worker);
  /// Byte offset of a slice's payload in a row.
  std::int64_t offset(std::size_t part, std::size_t index) const { return offsets_.at(part).at(index); }

  /// Sets the parts to aggregate to [first, first + count), with num_payloads[group] payloads per slice.
  void aggregate_parts(std::size_t first, std::size_t count, std::span<const int> num_payloads);
  /// The parts to aggregate.
  std::span<const std::vector<Slice>> aggregated_parts() const {
    return std::span(parts_).subspan(first_aggregated_, num_aggregated_);
  }
  std::size_t first_aggregated_part() const { return first_aggregated_; }
  /// Points the incoming slots to this process's own payloads, if it has all workers of the run.
  void loop_back();

 private:
  const CodecPlan& plan_;
  WorkerRange workers_;
  std::vector<std::vector<Slice>> parts_;
  PayloadForm form_;
  std::vector<PayloadSlots> slots_;                // per group
  std::vector<std::vector<std::size_t>> encoded_;  // [part][slice] index in its group's slots
  std::vector<std::vector<std::int64_t>> offsets_;
  std::size_t first_aggregated_ = 0;  // first part to aggregate
  std::size_t num_aggregated_ = 0;
  std::int64_t row_words_ = 0;
  Buffer<std::uint64_t> words_;  // [local workers][row_words_]
};

/// The coders of a plan, one per group, which encode into rows. @param rows_of  function of a group: its rows
template <class RowsOf>
std::vector<std::unique_ptr<Coder>> make_coders(const CodecPlan& plan, const CoderSetup& setup, const RowsOf& rows_of) {
  std::vector<std::unique_ptr<Coder>> coders;
  for (std::size_t group = 0; group < plan.groups().size(); ++group) {
    const CodecPlan::Group& tensors = plan.groups()[group];
    coders.push_back(tensors.codec->make_coder(setup, tensors.segments, rows_of(group).slots(group)));
  }
  return coders;
}

}  // namespace terngrad
