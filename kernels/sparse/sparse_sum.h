// SparseSummer: sums the messages of sparse codecs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/runtime/device.h"
#include "kernels/sparse/sparse_payload.h"

namespace terngrad {

/// One worker's message for a slice.
struct SparseMessage {
  SparseShape shape = {};
  /// On the CPU it must have passed check_sparse. On a GPU it is aligned to 8 and has at least max_sparse_bytes(shape)
  /// bytes; whatever it contains, no read is out of bounds and only `out` is written. The sum of a corrupt message is
  /// arbitrary: two threads may add to the same element at once if it occurs twice.
  std::span<const std::uint8_t> payload = {};
};

/// One slice to sum. Pointers are device memory on a GPU's stream.
struct SparseSumTask {
  std::span<const SparseMessage> workers = {};  // at least one, equal num_elements; on a GPU equal shapes
  float scale = 1;
  float* out = nullptr;  // [elements of the slice] out; must not be a payload
};

namespace cuda {
class SparseSumRunner;
}

/// out[i] = scale * (0 + v1[i] + v2[i] + ...) in float32, over the workers that sent element i, in worker order;
/// elements not sent are not added. The result thus does not depend on how tensors are split into slices, and the cost
/// is proportional to the number of sent elements: a tree over workers (kernels/tensor/worker_tree.h) would add all
/// elements of all workers.
///
/// Bit-equal on every backend, for any number of threads. On a GPU one block owns a chunk and adds the workers'
/// elements one worker after another, without atomics. Can be captured like SparseEncoder. Use each object, and all its
/// copies, with one stream only.
class SparseSummer {
 public:
  explicit SparseSummer(Device device = Device::cpu());

  /// @throws InvalidArgument for tasks without workers, workers of different sizes, messages with different formats or
  /// value types, another device's stream; on a GPU also for workers with different shapes and payloads that are too
  /// short or misaligned
  void run(std::span<const SparseSumTask> tasks, Stream& stream);

 private:
  Device device_;
  std::shared_ptr<cuda::SparseSumRunner> cuda_;
};

}  // namespace terngrad
