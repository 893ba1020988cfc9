// Payloads of elements at places that are drawn, the same for all workers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/codes/tree_sum.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"
#include "kernels/sparse/sparse_payload.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// Of every q elements of a tensor, counted from its start, one travels: of group j element j q + floor(r q / 2^32), r
/// = draw32({K, step 0, worker 0, DrawPurpose::kSelect}, j), and none of the last group if that is beyond the tensor's
/// end. K, the payload's first 8 bytes, is words 0 and 1 of draw_block({seed, step, worker 0, kSelect}, draw offset /
/// 4); then come the values of all groups that the slice touches, those of elements outside being +0, filled up to 4
/// bytes (docs/wire-format.md, "drawn").
struct DrawnShape {
  std::int64_t first = 0;  // of the slice, in its tensor
  std::int64_t count = 0;
  std::int64_t group_elements = 1;  // q, below 2^31
  SparseValues values = SparseValues::kFloat32;

  constexpr std::int64_t first_group() const { return first / group_elements; }
  constexpr std::int64_t num_groups() const {
    return count == 0 ? 0 : (first + count - 1) / group_elements - first / group_elements + 1;
  }
  friend bool operator==(const DrawnShape&, const DrawnShape&) = default;
};

inline constexpr std::int64_t kDrawnKeyBytes = 8;

/// Length of a payload; 0 of a slice without elements.
std::int64_t drawn_bytes(const DrawnShape& shape);

/// K of a tensor and step.
constexpr std::uint64_t selection_key(std::uint64_t seed, std::uint64_t step, std::int64_t draw_offset) {
  const auto block = draw_block({seed, step, 0, DrawPurpose::kSelect}, static_cast<std::uint64_t>(draw_offset) / 4);
  return block[0] | std::uint64_t{block[1]} << 32;
}

/// The draws of groups 4 b to 4 b + 3.
constexpr std::array<std::uint32_t, 4> group_draws(std::uint64_t selection, std::uint64_t b) {
  return draw_block({selection, 0, 0, DrawPurpose::kSelect}, b);
}
/// The element of a group that travels, counted from the tensor's start. @param draw  of the group
constexpr std::int64_t drawn_place(std::int64_t group, std::uint32_t draw, std::int64_t group_elements) {
  const auto q = static_cast<std::uint64_t>(group_elements);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(group) * q + (draw * q >> 32));
}

/// Checks that a DrawnEncoder can have written a payload. @throws CommunicationError saying what is wrong
void check_drawn(const DrawnShape& shape, std::span<const std::uint8_t> payload);
/// out[i] = element first + i of the slice, 0 where none was sent. @param payload  has passed check_drawn
void decode_drawn(const DrawnShape& shape, std::span<const std::uint8_t> payload, std::int64_t first,
                  std::span<float> out);

/// One slice to encode. Device memory on a GPU's stream.
struct DrawnEncodeTask {
  const void* values = nullptr;              // [shape.count] aligned to their size
  ElementType type = ElementType::kFloat32;  // the same in all tasks of a call
  const float* flag = nullptr;               // NaN: the tensor is not finite, and zeros are sent; null: it is finite
  DrawnShape shape = {};
  std::int64_t draw_offset = 0;     // of the segment
  std::uint8_t* payload = nullptr;  // [drawn_bytes(shape)] out, aligned to 8
};

/// One slice to add up. Device memory on a GPU's stream.
struct DrawnSumTask {
  DrawnShape shape = {};
  std::span<const std::uint8_t* const> payloads = {};  // of each worker [drawn_bytes(shape)], aligned to 8
  float scale = 1;
  float* out = nullptr;  // [shape.count] out
};

namespace cuda {
class DrawnRunner;
}

/// Takes the drawn elements of slices. Bit-equal on every backend and for any number of threads. With the tasks of the
/// call before it allocates nothing, copies nothing from the host and does not wait, so that it can be captured into a
/// CUDA graph. Serves one stream.
class DrawnEncoder {
 public:
  explicit DrawnEncoder(Device device = Device::cpu());

  /// Writes fl(factor v) of every element v that is drawn, as `shape.values` says.
  /// @param device_step  null, or on a GPU where the step is, in place of `step`
  /// @throws InvalidArgument for misaligned values or payloads, slices without elements, tasks of different element
  /// types or widths of values, another device's stream, or device_step on the CPU
  void run(std::span<const DrawnEncodeTask> tasks, float factor, std::uint64_t seed, std::uint64_t step, Stream& stream,
           const std::uint64_t* device_step = nullptr);

 private:
  Device device_;
  std::shared_ptr<cuda::DrawnRunner> cuda_;
};

/// out[i] = scale * tree-sum over workers (kernels/tensor/worker_tree.h) of what they sent of element i, 0 where it was
/// not drawn. All payloads of a task have one key, as those of a step do; on the CPU others are added up all the same.
/// Bit-equal on every backend; may be captured as DrawnEncoder. Serves one stream.
class DrawnSummer {
 public:
  explicit DrawnSummer(Device device = Device::cpu());

  /// @throws InvalidArgument for tasks of no workers or of slices without elements, or another device's stream
  void run(std::span<const DrawnSumTask> tasks, Stream& stream);

 private:
  void sum_on_gpu(std::span<const DrawnSumTask> tasks, Stream& stream);

  Device device_;
  std::shared_ptr<cuda::DrawnRunner> cuda_;
  TreeSummer summer_;
  Buffer<float> means_;  // of groups, on a GPU
  std::vector<MeanLeaf> leaves_;
  std::vector<MeanTask> sums_;
};

}  // namespace terngrad
