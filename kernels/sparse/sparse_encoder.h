// SparseEncoder: gradients in, messages of their largest elements out.
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

/// One slice to encode. Device memory on a GPU's stream.
struct SparseEncodeTask {
  const void* values = nullptr;              // [shape.num_elements] aligned to their size; finite, or `flag` is NaN
  ElementType type = ElementType::kFloat32;  // the same in all tasks of a call
  const float* flag = nullptr;  // NaN: the tensor is not finite, and all its elements count as +0; null: it is finite
  SparseShape shape = {};
  std::uint8_t* payload = nullptr;  // [max_sparse_bytes(shape)] out, aligned to 8
};

namespace cuda {
class SparseEncodeRunner;
}

/// Chooses top_k_count elements of each slice (format runs) or of each of its blocks (format local), those of largest
/// magnitude and of equal ones the first (kernels/sparse/top_k.h), and writes them as write_sparse does (Aji and
/// Heafield, "Sparse Communication for Distributed Gradient Descent", EMNLP 2017).
///
/// Bit-equal on every backend, for any number of threads and SIMD width. On a GPU: the threshold of a slice comes from
/// three histograms of its magnitudes, of the upper 12, the next 12 and the last 7 bits; the last is kept for each
/// chunk, so that sums over chunks say where each chunk writes, in order. Four reads of a slice, one of a block. With
/// the tasks of the call before it allocates nothing, copies nothing from the host and does not wait, so that it can be
/// captured into a CUDA graph. Serves one stream.
class SparseEncoder {
 public:
  explicit SparseEncoder(Device device = Device::cpu());

  /// @param tasks  any number, of any sizes, not empty slices; payloads must not overlap
  /// @param bytes  [tasks.size()] out: lengths of the payloads; on a GPU, where the host does not hear of them, the
  /// room that they have. A payload of runs says itself where it ends
  /// @throws InvalidArgument for misaligned values or payloads, tasks of different element types, slices that
  /// max_sparse_bytes refuses, or another device's stream
  void run(std::span<const SparseEncodeTask> tasks, std::span<std::int64_t> bytes, Stream& stream);

 private:
  std::int64_t encode_on_cpu(const SparseEncodeTask& task, Stream& stream);
  /// Writes the places and values of the k elements of one run of a task. @param at  where its first place goes
  void choose(const SparseEncodeTask& task, std::int64_t first, std::int64_t count, std::int64_t k,
              TopKSelector& selector, std::size_t at, Stream& stream);

  Device device_;
  std::shared_ptr<cuda::SparseEncodeRunner> cuda_;
  std::vector<TopKSelector> selectors_;  // of threads
  std::vector<std::uint32_t> places_;
  std::vector<float> values_;
};

}  // namespace terngrad
