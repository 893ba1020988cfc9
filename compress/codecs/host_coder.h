// HostCoder: the work of a codec that has no kernels of its own, as plain functions of one slice.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/codecs/coder.h"

namespace terngrad {

/// Measures and encodes one worker's slices after the other on the CPU, and aggregates by Codec::decode_range: the mean
/// over N workers is the tree-sum (kernels/tensor/worker_tree.h) of what each has sent, in float32, times fl(1 / N).
class HostCoder : public Coder {
 public:
  bool can_overflow() const override { return true; }
  void measure(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) final;
  void encode(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) final;
  void aggregate(const TensorTable& mean, AggregateUnit unit, Stream& stream) final;

 protected:
  /// @throws NotSupported on a GPU
  HostCoder(const Codec& codec, const CoderSetup& setup, std::vector<int> segments, PayloadSlots& slots);

  /// Writes a worker's local scalers: canonical_nan() for a tensor that holds NaN or infinity, in all of its scalers.
  /// @param row  [num_scalers()] out, tensor after tensor
  virtual void measure_worker(const TensorTable& gradient, std::span<float> row, Stream& stream) = 0;

  /// One slice of one worker to encode.
  struct EncodeTask {
    const TensorTable& gradient;
    Slice slice;                     // not empty
    std::span<const float> scalers;  // those that the slice touches; 0 where the tensor is not finite: encode zeros
    DrawKey key;                     // of seed, step and worker; its purpose is the codec's to set
    std::uint8_t* payload;           // [max_payload_bytes(slice, slots().form)] out, 8-byte aligned
  };
  /// @returns bytes written
  virtual std::int64_t encode_slice(const EncodeTask& task, Stream& stream) = 0;
};

}  // namespace terngrad
