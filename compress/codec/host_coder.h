// HostCoder: the work of a codec that has no kernels of its own, as plain functions of one slice.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/codec/coder.h"

namespace terngrad {

class HostCopies;

/// Measures and encodes one worker's slices after the other on the CPU, and aggregates by Codec::decode_range: unless
/// the codec has another, the mean over N workers is the tree-sum (kernels/tensor/worker_tree.h) of what each has sent,
/// in float32, times fl(1 / N).
///
/// On a GPU the same goes through the host, with the same bits: gradients, scalers and payloads are copied to
/// page-locked memory, worked on, and the results copied back, in the order of the stream. Every call waits for the
/// stream then, so that nothing of the codec runs beside the GPU, and refuses a stream that is captured into a graph.
class HostCoder : public Coder {
 public:
  ~HostCoder() override;
  bool can_overflow() const override { return true; }
  bool goes_through_host() const final { return copies_ != nullptr; }
  void measure(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) final;
  void encode(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) final;
  void aggregate(const TensorTable& mean, AggregateUnit unit, Stream& stream) final;

 protected:
  /// @throws NotSupported on a GPU for payloads whose size depends on the data and that do not say where they end
  HostCoder(const Codec& codec, const CoderSetup& setup, std::vector<int> segments, PayloadSlots& slots);

  /// Writes a worker's local scalers: canonical_nan() for a run of elements that holds NaN or infinity. One of a
  /// tensor's scalers flags all of them.
  /// @param row  [num_scalers()] out, tensor after tensor
  virtual void measure_worker(const TensorTable& gradient, std::span<float> row, Stream& stream) = 0;

  /// One slice of one worker to encode.
  struct EncodeTask {
    const TensorTable& gradient;
    Slice slice;                     // not empty
    std::span<const float> scalers;  // those that the slice touches; 0 where the tensor is not finite: encode zeros
    bool is_finite;                  // the worker's tensor, as a whole: what codecs without scalers look at
    DrawKey key;                     // of seed, step and worker; its purpose is the codec's to set
    std::uint8_t* payload;           // [max_payload_bytes(slice, slots().form)] out, 8-byte aligned
  };
  /// @returns bytes written
  virtual std::int64_t encode_slice(const EncodeTask& task, Stream& stream) = 0;

  /// The mean of a slice. @param sent  of every worker, in their order
  /// @param out  [count of the slice], host memory
  virtual void decode_mean(std::span<const EncodedSlice> sent, float* out, Stream& stream) const;

 private:
  void require_no_capture(const Stream& stream) const;
  /// @param gradients, scalers, flags  in host memory; a row of scalers for each, and of them as they were measured
  void encode_on_host(std::span<const TensorTable> gradients, const float* scalers, const float* flags,
                      std::uint64_t step, Stream& stream);
  /// Brings the payloads of sent_ to the host.
  void copy_payloads(Stream& stream);

  std::unique_ptr<HostCopies> copies_;  // of a GPU's memory
  std::vector<EncodedSlice> sent_;      // all workers', of the slice in work
};

}  // namespace terngrad
