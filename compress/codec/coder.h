// Coder: a codec's work in an exchange, for gradients, payloads and a mean in the memory of one device.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/codec/codec.h"
#include "compress/codec/payload_slots.h"
#include "compress/comm/communicator.h"
#include "compress/comm/device_communicator.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device_step.h"
#include "kernels/statistics/scaler_sharing.h"
#include "kernels/tensor/layout.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// What the coders of one exchange share.
struct CoderSetup {
  Layout layout = {};
  WorkerRange workers = {};
  std::uint64_t seed = 1;
  bool drops_nonfinite_steps = true;  // else a worker's tensor that is not finite counts as zero
  Device device = Device::cpu();
  std::vector<int> numbers = {};  // by which reports name the tensors; empty: their places in the layout

  std::uint32_t number_of(int segment) const {
    return static_cast<std::uint32_t>(numbers.empty() ? segment : numbers.at(static_cast<std::size_t>(segment)));
  }
};

class SentDecoder;
class TensorRotation;
enum class MemoryUpdate;

/// A group of tensors with one codec, for the workers of this process: their scalers, worker after worker, and their
/// payloads in PayloadSlots, all in memory of one device. Calls come in the order measure, combine_scalers, encode,
/// aggregate, with the local scalers of all ranks brought together before combine_scalers, and payloads brought to
/// their incoming slots before aggregate. On the CPU the work is done when a call returns. On a GPU calls only submit
/// work to the stream; with the tables of the step before, they allocate nothing and wait for nothing (except for
/// payloads whose size depends on the data, and for codecs that go through the host).
///
/// Gradients may be of any element type and count as widened to float32; a coder that takes float32 only refuses others
/// with InvalidArgument, as TensorTable::tensor() and slice() do. Results are bit-equal on every device, for any number
/// of threads and any split of tensors into slices.
class Coder {
 public:
  virtual ~Coder();
  Coder(const Coder&) = delete;
  Coder& operator=(const Coder&) = delete;

  const Codec& codec() const { return codec_; }
  const std::vector<int>& segments() const { return segments_; }
  const PayloadSlots& slots() const { return slots_; }
  /// Scalers of one worker: a row, tensor after tensor.
  std::int64_t num_scalers() const { return static_cast<std::int64_t>(places_.size()); }
  /// Place in a row of the first scaler that a slice of one of the tensors touches.
  std::int64_t first_scaler(const Slice& slice) const;
  /// [num_scalers()] after combine_scalers: what sums of codes are multiplied by, fl(s / fl(L N)); votes by s.
  std::span<const float> scales() const { return scales_.span(); }
  /// [num_scalers()] after combine_scalers: the combination over all workers.
  std::span<const float> shared_scalers() const { return shared_.span(); }
  /// [num_scalers()] after combine_scalers: what a worker's codes are multiples of, 0 for numbers. The shared scalers,
  /// or the worker's own if none are shared; of any worker of the run.
  std::span<const float> sent_scalers(int worker) const;
  /// The same to write to, of a codec that shares none: where its transport puts what workers of other processes have
  /// sent with their codes, between combine_scalers and aggregate.
  std::span<float> received_scalers(int worker);
  /// [num_scalers()] a worker's row of local scalers: written by measure for those of this process, by the transport
  /// for all others. NaN marks a tensor that is not finite. Where none are shared, messages bring no more than that of
  /// other processes' workers (compress/wire/scaler_messages.h), and 0 of the others.
  std::span<float> local_row(int worker);
  /// Whether the host does the work of a GPU's tensors, and waits for the stream in every call: a codec without
  /// kernels.
  virtual bool goes_through_host() const { return false; }
  /// Whether a mean of these tensors can leave the range of float32 though all gradients are finite.
  virtual bool can_overflow() const = 0;

  /// Measures the local scalers of this process's workers.
  virtual void measure(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) = 0;
  /// The local scalers of all workers as one buffer, each rank's part filled by its measure.
  /// @param ranks  the workers of each rank
  DeviceGather gather_scalers(std::span<const WorkerRange> ranks);
  /// Combines the scalers of all workers.
  /// @param skip    null, or set to 1 where a tensor is not finite
  /// @param stop_latched  see ScalerSharingTask
  void combine_scalers(NonfiniteReport* report, std::uint32_t* skip, const std::uint32_t* stop_latched, Stream& stream);
  /// Encodes the slices of this process's workers' gradients into their outgoing slots.
  virtual void encode(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) = 0;
  /// Writes what the aggregated slices come to over all workers. @throws InvalidArgument for a unit that the codec does
  /// not have
  virtual void aggregate(const TensorTable& mean, AggregateUnit unit, Stream& stream) = 0;
  /// Turns back what a mean is made of, in place, if the codec rotates: the last thing that a mean goes through, after
  /// the downlink, or before an owner of shards updates them.
  /// @param slices  that are to be turned back; those of other coders are left as they are
  /// @param step    as encode was given
  void finish(const TensorTable& mean, std::span<const Slice> slices, const DeviceStep& step, Stream& stream);
  /// Adds up one slice of consecutive local workers in float32, in the order of kernels/tensor/worker_tree.h: what
  /// travels in place of them (CodecTraits::sums_as_float). After encode.
  /// @param encoded  index into slots().encoded; @param out  [its count]
  /// @throws InvalidArgument for other codecs, and for workers that are no subtree
  virtual void add_local(std::size_t encoded, int first_local_worker, int num_local_workers, float* out,
                         Stream& stream);
  /// What keys the draws of the last step that was encoded, if the codec rotates: then waits for the stream.
  std::optional<StepKey> key_of_step(Stream& stream) const;
  /// An encoded slice of a local worker as its message has it. On the CPU, after encode.
  EncodedSlice sent_slice(std::size_t encoded, std::size_t local_worker) const;
  /// Keeps what the local workers' messages of the step come to, tensor by tensor, except for tensors that were not
  /// finite, whose state is left as it is, and, unless it is kMasked, for a codec that loses nothing. After encode.
  /// @param encoded  the gradients that encode was given, or what is to be masked, of float32
  /// @param kept     out: of float32, one table per local worker
  /// @param skip     null, or where it is not 0 nothing is kept
  void update_memory(MemoryUpdate what, std::span<const TensorTable> encoded, std::span<const TensorTable> kept,
                     const std::uint32_t* skip, Stream& stream);

 protected:
  /// @param codec, slots  must outlive the coder
  Coder(const Codec& codec, const CoderSetup& setup, std::vector<int> segments, PayloadSlots& slots);

  const CoderSetup& setup() const { return setup_; }
  /// What is to be measured and encoded: the gradients, or what the codec's rotation makes of them, once in a step, by
  /// measure.
  std::span<const TensorTable> rotate(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream);
  std::span<const TensorTable> rotated(std::span<const TensorTable> gradients) const;
  /// A slice, and the place in a row of the first scaler that it touches.
  struct CodedSlice {
    Slice slice;
    std::int64_t first_scaler = 0;
  };
  std::span<const CodedSlice> encoded() const { return encoded_; }
  std::span<const CodedSlice> aggregated() const { return aggregated_; }
  /// Where an encoded slice's payload goes, and where its length is written.
  std::uint8_t* outgoing(std::size_t encoded, std::size_t local_worker) const {
    return slots_.outgoing[outgoing_index(encoded, local_worker)];
  }
  std::int64_t& outgoing_bytes(std::size_t encoded, std::size_t local_worker) {
    return slots_.outgoing_bytes[outgoing_index(encoded, local_worker)];
  }
  /// Where an aggregated slice's payloads are, and their lengths.
  std::span<const std::uint8_t* const> incoming(std::size_t aggregated) const {
    const auto n = static_cast<std::size_t>(slots_.num_payloads);
    return std::span(slots_.incoming).subspan(aggregated * n, n);
  }
  std::span<const std::int64_t> incoming_bytes(std::size_t aggregated) const {
    const auto n = static_cast<std::size_t>(slots_.num_payloads);
    return std::span(slots_.incoming_bytes).subspan(aggregated * n, n);
  }

  /// Global number of a local worker.
  int global(std::size_t local_worker) const {
    return setup_.workers.first_local_worker + static_cast<int>(local_worker);
  }
  /// Rows of local scalers of this process's workers.
  std::span<float> local_rows();
  /// What a local worker's codes are drawn with: sent_scalers, but 0 where the worker's tensor counts as zero.
  const float* drawn_with(std::size_t local_worker) const {
    return row(drawn_with_, static_cast<int>(local_worker)).data();
  }
  /// Rows of scalers by a worker's global number: as it measured them, and with 0 for NaN.
  const float* local(int worker) const { return row(local_, worker).data(); }
  const float* own(int worker) const { return row(own_, worker).data(); }
  /// Place in a row of each of segments()'s first scaler, then num_scalers().
  std::span<const std::int64_t> first_scalers() const { return first_scaler_; }

 private:
  std::span<const float> row(const Buffer<float>& rows, int number) const {
    return rows.span().subspan(static_cast<std::size_t>(number) * places_.size(), places_.size());
  }
  /// What is kept by what was sent: kUnsent and kMasked.
  void keep_by_sent_on_cpu(bool masks, std::span<const TensorTable> encoded, std::span<const TensorTable> kept,
                           Stream& stream);
  void keep_by_sent_on_gpu(bool masks, std::span<const TensorTable> encoded, std::span<const TensorTable> kept,
                           const std::uint32_t* skip, Stream& stream);
  /// The scaler that is NaN where a local worker's tensor is not finite.
  const float* flag_of(std::size_t local_worker, int segment) const {
    return local(global(local_worker)) + first_scaler({segment, 0, 0});
  }
  std::vector<CodedSlice> with_scalers(std::span<const Slice> slices) const;
  std::size_t outgoing_index(std::size_t encoded, std::size_t local_worker) const {
    return encoded * static_cast<std::size_t>(setup_.workers.num_local_workers) + local_worker;
  }

  const Codec& codec_;
  CoderSetup setup_;
  std::vector<int> segments_;  // in order
  PayloadSlots& slots_;
  std::vector<std::int64_t> first_scaler_;
  std::vector<CodedSlice> encoded_, aggregated_;
  std::vector<ScalerPlace> places_;
  Buffer<ScalerPlace> places_on_device_;
  Buffer<float> local_, own_;  // [N][num_scalers]
  Buffer<float> shared_, scales_;
  std::unique_ptr<TensorRotation> rotation_;   // null: the codec does not rotate
  Buffer<float> drawn_with_;                   // [local workers][num_scalers]
  std::unique_ptr<SentDecoder> sent_decoder_;  // on a GPU, once it is asked for
  std::vector<std::int64_t> encoded_first_scalers_;
};

}  // namespace terngrad
