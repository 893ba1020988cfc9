// Payloads of randomly selected elements (random-k), at the same places for all workers.
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

/// One of every q elements of a tensor, counted from its start, is sent: of group j, element j q + floor(r q / 2^32)
/// with r = draw32({K, step 0, worker 0, DrawPurpose::kSelect}, j); none of the last group if that is beyond the
/// tensor's end. K, the payload's first 8 bytes, is words 0 and 1 of draw_block({seed, step, worker 0, kSelect}, draw
/// offset / 4). Then follow the values of all groups that the slice touches, +0 for elements outside the slice, padded
/// to 4 bytes (docs/wire-format.md, "drawn").
struct DrawnShape {
  std::int64_t first = 0;  // offset of the slice in its tensor
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

/// Length of a payload; 0 for an empty slice.
std::int64_t drawn_bytes(const DrawnShape& shape);

/// K for a tensor and step.
constexpr std::uint64_t selection_key(std::uint64_t seed, std::uint64_t step, std::int64_t draw_offset) {
  const auto block = draw_block({seed, step, 0, DrawPurpose::kSelect}, static_cast<std::uint64_t>(draw_offset) / 4);
  return block[0] | std::uint64_t{block[1]} << 32;
}

/// Draws of groups 4 b to 4 b + 3.
constexpr std::array<std::uint32_t, 4> group_draws(std::uint64_t selection, std::uint64_t b) {
  return draw_block({selection, 0, 0, DrawPurpose::kSelect}, b);
}
/// Index of a group's sent element, counted from the tensor's start. @param draw  the group's draw
constexpr std::int64_t drawn_place(std::int64_t group, std::uint32_t draw, std::int64_t group_elements) {
  const auto q = static_cast<std::uint64_t>(group_elements);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(group) * q + (draw * q >> 32));
}

/// Checks that a DrawnEncoder can have written the payload. @throws CommunicationError with the reason otherwise
void check_drawn(const DrawnShape& shape, std::span<const std::uint8_t> payload);
/// out[i] = element first + i of the slice, 0 if it was not sent. @param payload  must have passed check_drawn
void decode_drawn(const DrawnShape& shape, std::span<const std::uint8_t> payload, std::int64_t first,
                  std::span<float> out);

/// One slice to encode. Pointers are device memory on a GPU's stream.
struct DrawnEncodeTask {
  const void* values = nullptr;              // [shape.count] aligned to their size
  ElementType type = ElementType::kFloat32;  // the same in all tasks of a call
  const float* flag = nullptr;               // null: finite; NaN: the tensor is not finite, and zeros are sent
  DrawnShape shape = {};
  std::int64_t draw_offset = 0;     // the segment's first draw index
  std::uint8_t* payload = nullptr;  // [drawn_bytes(shape)] out, aligned to 8
};

/// One slice to aggregate. Pointers are device memory on a GPU's stream.
struct DrawnSumTask {
  DrawnShape shape = {};
  std::span<const std::uint8_t* const> payloads = {};  // per worker [drawn_bytes(shape)], aligned to 8
  float scale = 1;
  float* out = nullptr;  // [shape.count] out
};

namespace cuda {
class DrawnRunner;
}

/// Encodes the drawn elements of slices. Bit-equal on every backend and for any number of threads. A call with the same
/// tasks as the previous one neither allocates, copies from the host nor waits, so it can be captured into a CUDA
/// graph. Use each object with one stream only.
class DrawnEncoder {
 public:
  explicit DrawnEncoder(Device device = Device::cpu());

  /// Writes fl(factor v) for every drawn element v, in the type `shape.values`.
  /// @param device_step  null, or on a GPU [1] in device memory, which replaces `step`
  /// @throws InvalidArgument for misaligned values or payloads, empty slices, tasks with different element types or
  /// value types, another device's stream, or device_step on the CPU
  void run(std::span<const DrawnEncodeTask> tasks, float factor, std::uint64_t seed, std::uint64_t step, Stream& stream,
           const std::uint64_t* device_step = nullptr);

 private:
  Device device_;
  std::shared_ptr<cuda::DrawnRunner> cuda_;
};

/// out[i] = scale * sum over workers, by the worker tree (kernels/tensor/worker_tree.h), of the sent values of element
/// i; 0 if it was not drawn. All payloads of a task must have the same key, as they do within a step; on the CPU other
/// payloads are summed too. Bit-equal on every backend; can be captured like DrawnEncoder. Use each object with one
/// stream only.
class DrawnSummer {
 public:
  explicit DrawnSummer(Device device = Device::cpu());

  /// @throws InvalidArgument for tasks without workers, empty slices, or another device's stream
  void run(std::span<const DrawnSumTask> tasks, Stream& stream);

 private:
  void sum_on_gpu(std::span<const DrawnSumTask> tasks, Stream& stream);

  Device device_;
  std::shared_ptr<cuda::DrawnRunner> cuda_;
  TreeSummer summer_;
  Buffer<float> means_;  // per group, on a GPU
  std::vector<MeanLeaf> leaves_;
  std::vector<MeanTask> sums_;
};

}  // namespace terngrad
