// SparseSummer: messages of sparse codecs in, their sum out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/runtime/device.h"
#include "kernels/sparse/sparse_payload.h"

namespace terngrad {

/// What one worker has sent of a slice.
struct SparseMessage {
  SparseShape shape = {};
  /// On the CPU what has passed check_sparse. On a GPU, aligned to 8, at least the room of its shape, max_sparse_bytes:
  /// whatever is in there, nothing beyond is read, and nothing but `out` is written. What a damaged message adds up to
  /// is arbitrary: of a place that it says twice, two threads may add at once.
  std::span<const std::uint8_t> payload = {};
};

/// One slice to add up. Device memory on a GPU's stream.
struct SparseSumTask {
  std::span<const SparseMessage> workers = {};  // at least one, all of equally many elements; on a GPU of one shape
  float scale = 1;
  float* out = nullptr;  // [elements of the slice] out; no payload
};

namespace cuda {
class SparseSumRunner;
}

/// out[i] = scale * (0 + v1[i] + v2[i] + ...) in float32, over the workers that have sent element i, in their order;
/// zeros that did not travel are not added. So the result does not depend on how tensors are split into slices, and the
/// cost grows with what was sent: a tree over workers (kernels/tensor/worker_tree.h) would add up all elements of all.
///
/// Bit-equal on every backend, for any number of threads. On a GPU one block owns a chunk and adds one worker's
/// elements after the other's: no atomics. Can be captured, as SparseEncoder. Serves one stream, as do its copies
/// together.
class SparseSummer {
 public:
  explicit SparseSummer(Device device = Device::cpu());

  /// @throws InvalidArgument for tasks of no workers, workers of different sizes, messages of different formats or
  /// widths of values, on a GPU workers of different shapes, with less room or misaligned payloads, or another device's
  /// stream
  void run(std::span<const SparseSumTask> tasks, Stream& stream);

 private:
  Device device_;
  std::shared_ptr<cuda::SparseSumRunner> cuda_;
};

}  // namespace terngrad
