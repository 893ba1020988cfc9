// HostCoder: base of coders without kernels, which work slice by slice on the host.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/codec/coder.h"

namespace terngrad {

class HostCopies;

/// Measures and encodes the slices of one worker after the other on the CPU, and aggregates by Codec::decode_range.
/// Unless overridden, the mean over N workers is the float32 tree-sum (kernels/tensor/worker_tree.h) of the decoded
/// slices times fl(1 / N).
///
/// On a GPU the work goes through the host, with the same bits: gradients, scalers and payloads are copied to
/// page-locked memory and the results copied back, in stream order. Every call then waits for the stream, so nothing
/// runs concurrently with the GPU, and refuses a stream that is captured into a graph.
class HostCoder : public Coder {
 public:
  ~HostCoder() override;
  bool can_overflow() const override { return true; }
  bool goes_through_host() const final { return copies_ != nullptr; }
  void measure(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) final;
  void encode(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) final;
  void aggregate(const TensorTable& mean, AggregateUnit unit, Stream& stream) final;

 protected:
  /// @throws NotSupported on a GPU for payloads of data-dependent size that are not self-delimiting
  HostCoder(const Codec& codec, const CoderSetup& setup, std::vector<int> segments, PayloadSlots& slots);

  /// Writes a worker's local scalers: canonical_nan() for a run of elements that holds NaN or infinity. All of a
  /// tensor's scalers become NaN if one is.
  /// @param row  [num_scalers()] out, tensor after tensor
  virtual void measure_worker(const TensorTable& gradient, std::span<float> row, Stream& stream) = 0;

  /// Encoding of one slice of one worker.
  struct EncodeTask {
    const TensorTable& gradient;
    Slice slice;                     // not empty
    std::span<const float> scalers;  // scalers that the slice uses; 0 if the tensor is not finite: encode zeros
    bool is_finite;                  // false if the worker's tensor is not finite; for codecs without scalers
    DrawKey key;                     // seed, step and worker; the codec sets the purpose
    std::uint8_t* payload;           // [max_payload_bytes(slice, slots().form)] out, 8-byte aligned
  };
  /// @returns bytes written
  virtual std::int64_t encode_slice(const EncodeTask& task, Stream& stream) = 0;

  /// Computes the mean of a slice. @param sent  one per worker, in worker order
  /// @param out  [count of the slice], host memory
  virtual void decode_mean(std::span<const EncodedSlice> sent, float* out, Stream& stream) const;

 private:
  void require_no_capture(const Stream& stream) const;
  /// @param gradients, scalers, flags  in host memory; one row per worker of scalers to encode with, and as measured
  void encode_on_host(std::span<const TensorTable> gradients, const float* scalers, const float* flags,
                      std::uint64_t step, Stream& stream);
  /// Copies the payloads of sent_ to the host.
  void copy_payloads(Stream& stream);

  std::unique_ptr<HostCopies> copies_;  // null unless gradients are in GPU memory
  std::vector<EncodedSlice> sent_;      // all workers' messages of the current slice
};

}  // namespace terngrad
