// Coder: a codec's work in an exchange, on gradients, payloads and a mean in the memory of one device.
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

/// Settings shared by the coders of one exchange.
struct CoderSetup {
  Layout layout = {};
  WorkerRange workers = {};
  std::uint64_t seed = 1;
  bool drops_nonfinite_steps = true;  // else a worker's non-finite tensor counts as zeros
  bool finds_nonfinite = true;        // else no tensor counts as non-finite, for codec fp32
  Device device = Device::cpu();
  std::vector<int> numbers = {};  // tensor indices for reports; empty: indices in the layout

  std::uint32_t number_of(int segment) const {
    return static_cast<std::uint32_t>(numbers.empty() ? segment : numbers.at(static_cast<std::size_t>(segment)));
  }
};

class SentDecoder;
class TensorRotation;
struct MemoryUpdate;

/// Encodes and aggregates a group of tensors with one codec, for the workers of this process. Scalers are stored in one
/// row per worker, payloads in PayloadSlots, all in memory of one device. Call order: measure, combine_scalers, encode,
/// aggregate; the caller gathers the local scalers of all ranks before combine_scalers, and brings payloads to their
/// incoming slots before aggregate. On the CPU the work is done when a call returns. On a GPU calls submit work to the
/// stream; with the previous step's tables they allocate nothing and do not wait (except for payloads of data-dependent
/// size, and for codecs that go through the host).
///
/// Gradients may have any element type and are widened to float32; a coder that supports float32 only throws
/// InvalidArgument for others, as TensorTable::tensor() and slice() do. Results are bit-equal on every device, for any
/// number of threads and any split of tensors into slices (contract B1).
class Coder {
 public:
  virtual ~Coder();
  Coder(const Coder&) = delete;
  Coder& operator=(const Coder&) = delete;

  const Codec& codec() const { return codec_; }
  const std::vector<int>& segments() const { return segments_; }
  const PayloadSlots& slots() const { return slots_; }
  /// Length of a row: scalers of one worker, tensor after tensor.
  std::int64_t num_scalers() const { return static_cast<std::int64_t>(places_.size()); }
  /// Index in a row of the first scaler that a slice uses.
  std::int64_t first_scaler(const Slice& slice) const;
  /// [num_scalers()] after combine_scalers: factors of sums of codes, fl(s / fl(L N)); of votes, s.
  std::span<const float> scales() const { return scales_.span(); }
  /// [num_scalers()] after combine_scalers: scalers combined over all workers.
  std::span<const float> shared_scalers() const { return shared_.span(); }
  /// [num_scalers()] after combine_scalers: scalers of a worker's messages, for any worker of the run. The shared
  /// scalers, or the worker's own if none are shared; 0 for floats.
  std::span<const float> sent_scalers(int worker) const;
  /// The same row, writable, for a codec without shared scalers. The transport stores the scalers from other processes'
  /// messages in it, between combine_scalers and aggregate.
  std::span<float> received_scalers(int worker);
  /// [num_scalers()] a worker's row of local scalers: written by measure for local workers, by the transport for
  /// others. NaN marks a non-finite tensor. For a codec without shared scalers, messages say only this about other
  /// processes' workers (compress/wire/scaler_messages.h); finite tensors then have 0.
  std::span<float> local_row(int worker);
  /// True on a GPU for a codec without kernels: the host does the work, and every call waits for the stream.
  virtual bool goes_through_host() const { return false; }
  /// True if a mean of these tensors can overflow float32 though all gradients are finite.
  virtual bool can_overflow() const = 0;

  /// Measures the local scalers of this process's workers.
  virtual void measure(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) = 0;
  /// The local scalers of all workers as one buffer, in which each rank's measure fills its part.
  /// @param ranks  worker range of each rank
  DeviceGather gather_scalers(std::span<const WorkerRange> ranks);
  /// Combines the scalers of all workers.
  /// @param skip          null, or set to 1 if a tensor is not finite
  /// @param stop_latched  see ScalerSharingTask
  void combine_scalers(NonfiniteReport* report, std::uint32_t* skip, const std::uint32_t* stop_latched, Stream& stream);
  /// Encodes the slices of local workers' gradients into their outgoing slots.
  virtual void encode(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) = 0;
  /// Writes the mean or the sums of the aggregated slices over all workers. @throws InvalidArgument for a unit that the
  /// codec does not support
  virtual void aggregate(const TensorTable& mean, AggregateUnit unit, Stream& stream) = 0;
  /// Inverts the rotation of a mean in place, if the codec rotates: the last operation on a mean, after the downlink,
  /// or before an owner of shards updates them.
  /// @param slices  slices to process; those of other coders are left unchanged
  /// @param step    as passed to encode
  void finish(const TensorTable& mean, std::span<const Slice> slices, const DeviceStep& step, Stream& stream);
  /// After encode: adds up one slice of consecutive local workers in float32, in the order of
  /// kernels/tensor/worker_tree.h. The sum travels in place of their slices (CodecTraits::sums_as_float).
  /// @param encoded  index into slots().encoded
  /// @param out      [count of the slice]
  /// @throws InvalidArgument for codecs without sums_as_float, and for workers that form no subtree
  virtual void add_local(std::size_t encoded, int first_local_worker, int num_local_workers, float* out,
                         Stream& stream);
  /// Key of the draws of the last encoded step, if the codec rotates; then waits for the stream.
  std::optional<StepKey> key_of_step(Stream& stream) const;
  /// A local worker's encoded slice, as in its message. On the CPU, after encode.
  EncodedSlice sent_slice(std::size_t encoded, std::size_t local_worker) const;
  /// After encode: decodes a tensor of a local worker's message, on the host, which waits for the stream.
  /// @param out  [elements of the tensor] host memory
  /// @returns the largest scaler that its codes are multiples of; 0 for floats
  float decode_sent(int local_worker, int segment, std::span<float> out, Stream& stream) const;
  /// After encode: updates the memory of each local worker, tensor by tensor. Skips non-finite tensors, whose memory is
  /// left unchanged, and lossless codecs unless `what` is kMasked.
  /// @param encoded  gradients passed to encode, the values to mask, or with kAdded `kept`; float32
  /// @param kept     out: the memory, one float32 table per local worker; for kAveraged in and out, with the words of
  ///                 kernels/tensor/averaged_residual.h in place of elements
  /// @param skip     null, or [1]: nothing is updated if it is nonzero
  void update_memory(const MemoryUpdate& what, std::span<const TensorTable> encoded, std::span<const TensorTable> kept,
                     const std::uint32_t* skip, Stream& stream);

 protected:
  /// @param codec, slots  must outlive the coder
  Coder(const Codec& codec, const CoderSetup& setup, std::vector<int> segments, PayloadSlots& slots);

  const CoderSetup& setup() const { return setup_; }
  /// The gradients to measure and encode: rotated if the codec rotates, which measure does once per step.
  std::span<const TensorTable> rotate(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream);
  std::span<const TensorTable> rotated(std::span<const TensorTable> gradients) const;
  /// A slice and the index in a row of the first scaler that it uses.
  struct CodedSlice {
    Slice slice;
    std::int64_t first_scaler = 0;
  };
  std::span<const CodedSlice> encoded() const { return encoded_; }
  std::span<const CodedSlice> aggregated() const { return aggregated_; }
  /// Outgoing slot of an encoded slice, and its length.
  std::uint8_t* outgoing(std::size_t encoded, std::size_t local_worker) const {
    return slots_.outgoing[outgoing_index(encoded, local_worker)];
  }
  std::int64_t& outgoing_bytes(std::size_t encoded, std::size_t local_worker) {
    return slots_.outgoing_bytes[outgoing_index(encoded, local_worker)];
  }
  /// Payloads of an aggregated slice, and their lengths.
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
  /// Rows of local scalers of local workers.
  std::span<float> local_rows();
  /// Scalers with which a local worker's codes are drawn: sent_scalers, but 0 if the worker's tensor counts as zeros.
  const float* drawn_with(std::size_t local_worker) const {
    return row(drawn_with_, static_cast<int>(local_worker)).data();
  }
  /// Rows of scalers by global worker number: as measured, and with 0 in place of NaN.
  const float* local(int worker) const { return row(local_, worker).data(); }
  const float* own(int worker) const { return row(own_, worker).data(); }
  /// [segments().size() + 1] index in a row of each tensor's first scaler, then num_scalers().
  std::span<const std::int64_t> first_scalers() const { return first_scaler_; }

 private:
  std::span<const float> row(const Buffer<float>& rows, int number) const {
    return rows.span().subspan(static_cast<std::size_t>(number) * places_.size(), places_.size());
  }
  /// Updates memories from decoded messages, for all kinds but kEncoded.
  void keep_by_sent_on_cpu(const MemoryUpdate& what, std::span<const TensorTable> encoded,
                           std::span<const TensorTable> kept, Stream& stream);
  void keep_by_sent_on_gpu(const MemoryUpdate& what, std::span<const TensorTable> encoded,
                           std::span<const TensorTable> kept, const std::uint32_t* skip, Stream& stream);
  /// The scaler that is NaN if a local worker's tensor is not finite.
  const float* flag_of(std::size_t local_worker, int segment) const {
    return local(global(local_worker)) + first_scaler({segment, 0, 0});
  }
  std::vector<CodedSlice> with_scalers(std::span<const Slice> slices) const;
  EncodedSlice sent_slice_on_gpu(std::size_t encoded, std::size_t local_worker, std::span<const float> row,
                                 std::vector<std::uint64_t>& payload, Stream& stream) const;
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
  std::unique_ptr<SentDecoder> sent_decoder_;  // on a GPU; created at first use
  std::vector<std::int64_t> encoded_first_scalers_;
};

}  // namespace terngrad
