// SparseEncoder: encodes the largest elements of gradients (top-k).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/runtime/device.h"
#include "kernels/sparse/sparse_payload.h"
#include "kernels/sparse/top_k.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// One slice to encode. Pointers are device memory on a GPU's stream.
struct SparseEncodeTask {
  const void* values = nullptr;              // [shape.num_elements] aligned to their size; finite, or `flag` is NaN
  ElementType type = ElementType::kFloat32;  // the same in all tasks of a call
  const float* flag = nullptr;  // null: finite; NaN: the tensor is not finite, and its elements count as +0
  SparseShape shape = {};
  std::uint8_t* payload = nullptr;  // [max_sparse_bytes(shape)] out, aligned to 8
};

namespace cuda {
class SparseEncodeRunner;
}

/// Selects top_k_count elements of each slice (format runs) or of each of its blocks (format local), those of largest
/// magnitude, the first of equal ones (kernels/sparse/top_k.h), and writes them as write_sparse does (Aji and Heafield,
/// "Sparse Communication for Distributed Gradient Descent", EMNLP 2017).
///
/// Bit-equal on every backend, for any number of threads and SIMD width. On a GPU the threshold of a slice comes from
/// three histograms of its magnitudes, over the upper 12, next 12 and last 7 bits. The last one is kept per chunk;
/// prefix sums over chunks give the output position of each chunk. That is four reads of a slice, or one of a block. A
/// call with the same tasks as the previous one neither allocates, copies from the host nor waits, so it can be
/// captured into a CUDA graph. Use each object with one stream only.
class SparseEncoder {
 public:
  explicit SparseEncoder(Device device = Device::cpu());

  /// @param tasks  any number of non-empty slices of any size; payloads must not overlap
  /// @param bytes  [tasks.size()] out: lengths of the payloads. On a GPU, where the host does not learn them,
  ///               max_sparse_bytes instead: a payload in format runs contains its own length
  /// @throws InvalidArgument for misaligned values or payloads, tasks with different element types, slices that
  /// max_sparse_bytes refuses, or another device's stream
  void run(std::span<const SparseEncodeTask> tasks, std::span<std::int64_t> bytes, Stream& stream);

 private:
  std::int64_t encode_on_cpu(const SparseEncodeTask& task, Stream& stream);
  /// Writes the places and values of the k largest elements of one run (slice or block). @param at  first output
  /// position
  void choose(const SparseEncodeTask& task, std::int64_t first, std::int64_t count, std::int64_t k,
              TopKSelector& selector, std::size_t at, Stream& stream);

  Device device_;
  std::shared_ptr<cuda::SparseEncodeRunner> cuda_;
  std::vector<TopKSelector> selectors_;  // per thread
  std::vector<std::uint32_t> places_;
  std::vector<float> values_;
};

}  // namespace terngrad
