// DeviceCoder: a codec's work in an exchange whose gradients, payloads and mean stay in a GPU's memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/communicator.h"
#include "compress/device_communicator.h"
#include "kernels/buffer.h"
#include "kernels/device_step.h"
#include "kernels/layout.h"
#include "kernels/scaler_sharing.h"
#include "kernels/slice.h"

namespace terngrad {

/// What the coders of one exchange share.
struct DeviceExchangeSetup {
  Layout layout;
  WorkerRange workers;
  std::uint64_t seed = 1;
  bool drops_nonfinite_steps = true;  // else a worker's tensor that is not finite counts as zero
  Device device = Device::cpu();
};

/// A group of tensors with one codec, for all workers: their scalers and payloads in device memory, worker after
/// worker. Calls come in the order measure, share, encode, aggregate, with what gather_scalers and gather_payloads name
/// gathered from all ranks before share and before aggregate; they only submit work to the stream. With the tables of
/// the step before, they allocate nothing and wait for nothing (but for payloads whose size depends on the data).
class DeviceCoder {
 public:
  virtual ~DeviceCoder() = default;
  DeviceCoder(const DeviceCoder&) = delete;
  DeviceCoder& operator=(const DeviceCoder&) = delete;

  const std::vector<int>& segments() const { return segments_; }
  /// Scalers and bytes of codes of one worker.
  std::int64_t num_scalers() const { return static_cast<std::int64_t>(places_.size()); }
  std::int64_t payload_bytes() const { return payload_bytes_; }
  /// Whether a mean of these tensors can leave the range of float32 though all gradients are finite.
  virtual bool can_overflow() const = 0;

  /// Measures the local scalers of this process's workers.
  virtual void measure(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) = 0;
  /// The local scalers of all workers, each rank's part filled by its measure.
  /// @param ranks  the workers of each rank
  DeviceGather gather_scalers(std::span<const WorkerRange> ranks);
  /// The payloads of all workers, each rank's part filled by its encode: whole places, used to the end or not.
  DeviceGather gather_payloads(std::span<const WorkerRange> ranks);
  /// Shares the scalers of all workers.
  /// @param skip    null, or set to 1 where a tensor is not finite
  /// @param frozen  see ScalerSharingTask
  void share(NonfiniteReport* report, std::uint32_t* skip, const std::uint32_t* frozen, Stream& stream);
  /// Encodes this process's workers' gradients into their payloads.
  virtual void encode(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) = 0;
  /// Writes the mean of all workers' payloads to the tensors of this group; `sums` asks for integer sums of codes as
  /// float32, in place of the mean.
  virtual void aggregate(const TensorTable& mean, bool sums, Stream& stream) = 0;
  /// Replaces integer sums by what they become when they are ternarized again for the return leg. Summable codecs only.
  virtual void return_ternary(const TensorTable& mean, const DeviceStep& step, Stream& stream);
  /// Decodes one local worker's payload of a tensor. @param out  [elements of the tensor] device memory
  virtual void decode(int local_worker, int segment, std::span<float> out, Stream& stream) = 0;
  /// The greatest scaler that a local worker's tensor was encoded with; waits for the device.
  float greatest_scaler(int local_worker, int segment, Stream& stream) const;

 protected:
  /// @param scalers_of  number of scalers of each of `segments`
  DeviceCoder(const DeviceExchangeSetup& setup, std::vector<int> segments, std::span<const std::int64_t> scalers_of,
              std::span<const std::int64_t> bytes_of, ScalerCombination combination);

  const DeviceExchangeSetup& setup() const { return setup_; }
  const Segment& segment(std::size_t index) const { return setup_.layout.segment(segments_[index]); }
  std::size_t index_of(int segment) const;
  std::int64_t scalers_of(std::size_t index) const { return first_scaler_[index + 1] - first_scaler_[index]; }
  /// Rows of local scalers of this process's workers.
  std::span<float> local_rows();
  const float* local(int worker, std::size_t index) const { return at(local_, worker, index); }
  const float* own(int worker, std::size_t index) const { return at(own_, worker, index); }
  /// @param local_worker  counted from this process's first
  const float* drawn_with(int local_worker, std::size_t index) const { return at(drawn_with_, local_worker, index); }
  const float* scales(std::size_t index) const { return scales_.data() + first_scaler_[index]; }
  std::span<const float> scales() const { return scales_.span(); }
  std::int64_t first_scaler(std::size_t index) const { return first_scaler_[index]; }
  /// @param worker  global number
  std::uint8_t* payload(int worker, std::size_t index) {
    return reinterpret_cast<std::uint8_t*>(payloads_.data()) + worker * payload_bytes_ + payload_offset_[index];
  }

 private:
  const float* at(const Buffer<float>& rows, int row, std::size_t index) const {
    return rows.data() + row * num_scalers() + first_scaler_[index];
  }
  DeviceExchangeSetup setup_;
  std::vector<int> segments_;
  std::vector<std::int64_t> first_scaler_;    // of each segment, and one past the last
  std::vector<std::int64_t> payload_offset_;  // bytes, multiples of 8
  std::vector<ScalerPlace> places_;
  std::int64_t payload_bytes_ = 0;
  Buffer<ScalerPlace> places_on_device_;
  Buffer<float> local_, own_;  // [N][num_scalers]
  Buffer<float> shared_, scales_;
  Buffer<float> drawn_with_;        // [local workers][num_scalers]
  Buffer<std::uint64_t> payloads_;  // [N][payload_bytes / 8]
};

}  // namespace terngrad
