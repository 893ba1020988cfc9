// Rotation: a randomized Hadamard transform of runs of elements, and back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/random/philox.h"
#include "kernels/runtime/device.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// Elements of a run: powers of two. A chunk holds whole runs, so none crosses a cut through a tensor.
inline constexpr std::int64_t kMinRotationElements = 64;
inline constexpr std::int64_t kMaxRotationElements = 4096;

enum class Rotation : std::uint8_t {
  kForward,   // H D x fl(1 / sqrt(R))
  kBackward,  // D (H y) fl(1 / sqrt(R)), its inverse
};

/// One slice to rotate. Device memory on a GPU's stream.
struct RotateTask {
  const void* values = nullptr;  // [count] elements first .. first + count - 1 of the segment, aligned to their size
  std::int64_t first = 0;        // position in the segment: a multiple of kChunkElements
  std::int64_t count = 0;        // up to the segment's end, or a multiple of the run
  std::int64_t draw_offset = 0;  // of the segment; a multiple of kDrawAlignment
  float* out = nullptr;          // [count] out; may be `values`
  ElementType type = ElementType::kFloat32;  // of the values; the same in all tasks of a call
};

/// fl(1 / sqrt(run)) of a power of two.
constexpr float rotation_scale(std::int64_t run) {
  float scale = 1.0f;
  for (; run >= 4; run /= 4) scale *= 0.5f;
  return run == 2 ? scale * 0x1.6a09e6p-1f : scale;
}

/// @throws InvalidArgument for a run that is neither 0, which is none, nor one that Rotator takes
void require_rotation(std::int64_t run_elements);

namespace cuda {
class RotateRunner;
}

/// Rotates runs of R elements from a segment's start on, and its tail in runs of descending powers of two: H is the
/// Walsh-Hadamard matrix, D has a sign for each element, the same for all workers: minus where bit d % 128 of draw
/// block floor(d / 128) is 1, d the draw offset of the segment + position (Suresh et al., "Distributed Mean Estimation
/// with Limited Communication", ICML 2017, section 3). Norms and inner products stay what they are, and elements of a
/// run become of like size, whatever they were.
///
/// H is butterflies (a + b, a - b) with strides 1, 2, ..., R/2 in this order in float32, and one product at the end.
/// The inverse is exact up to these roundings; of finite elements above 2^128 / R sums may overflow. Bit-equal on every
/// backend, for any split into slices, any alignment, number of threads and SIMD width, except for the bits of NaN.
/// With the tasks of the call before it allocates nothing, copies nothing from the host and does not wait, so that it
/// can be captured into a CUDA graph. Serves one stream.
class Rotator {
 public:
  /// @throws InvalidArgument for a run that is no power of two from 64 to 4096
  explicit Rotator(std::int64_t run_elements, Device device = Device::cpu());

  /// @param tasks        any number, of any sizes; outputs must not overlap
  /// @param key          of seed and step; worker and purpose are those of rotations
  /// @param device_step  null, or in place of key.step: [1] on the stream's GPU
  /// @throws InvalidArgument for a misaligned `first`, `draw_offset` or element, tasks of different element types,
  /// another device's stream, or device_step on the CPU, before anything is written
  void run(std::span<const RotateTask> tasks, Rotation rotation, DrawKey key, Stream& stream,
           const std::uint64_t* device_step = nullptr);

 private:
  std::int64_t run_elements_;
  Device device_;
  std::shared_ptr<cuda::RotateRunner> cuda_;
};

namespace cpu {
/// Rotates `count` elements, at most a chunk, whose first has draw index `draw`. @param out  may be `values`
void rotate_chunk(const float* values, std::int64_t count, std::int64_t run_elements, bool forward, const DrawKey& key,
                  std::uint64_t draw, float* out);
}  // namespace cpu

}  // namespace terngrad
