// Randomized Hadamard transform of runs of elements, and its inverse.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/random/philox.h"
#include "kernels/runtime/device.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// Limits of the run length R, a power of two. A chunk contains whole runs, so no cut through a tensor splits a run.
inline constexpr std::int64_t kMinRotationElements = 64;
inline constexpr std::int64_t kMaxRotationElements = 4096;

/// Direction of the rotation of a run of R elements; see Rotator for H and D.
enum class Rotation : std::uint8_t {
  kForward,   // H D x fl(1 / sqrt(R))
  kBackward,  // D (H y) fl(1 / sqrt(R)), the inverse
};

/// Rotation of a tail, the t elements behind a segment's last whole run.
enum class TailRotation : std::uint8_t {
  kOnce,   // runs of descending powers of two
  kTwice,  // these runs, and then one more transform H D' over the tail's last 2^k elements, see mixed_elements()
};

/// Number 2^k of elements that the second transform of a tail takes: the largest power of two below t; 0 if t is a
/// power of two, as the tail is then one run.
constexpr std::int64_t mixed_elements(std::int64_t tail) {
  const std::int64_t largest = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(tail)));
  return largest == tail ? 0 : largest;
}

/// One slice to rotate. Pointers are device memory on a GPU's stream.
struct RotateTask {
  const void* values = nullptr;              // [count] elements from `first` on, aligned to their size
  std::int64_t first = 0;                    // offset in the segment: a multiple of kChunkElements
  std::int64_t count = 0;                    // a multiple of the run length, unless the slice ends with the segment
  std::int64_t draw_offset = 0;              // the segment's first draw index; a multiple of kDrawAlignment
  float* out = nullptr;                      // [count] out; may be `values`
  ElementType type = ElementType::kFloat32;  // type of the values, the same in all tasks of a call
};

/// fl(1 / sqrt(run)) for a power of two.
constexpr float rotation_scale(std::int64_t run) {
  float scale = 1.0f;
  for (; run >= 4; run /= 4) scale *= 0.5f;
  return run == 2 ? scale * 0x1.6a09e6p-1f : scale;
}

/// @throws InvalidArgument unless the run length is 0 (no rotation) or valid for Rotator
void require_rotation(std::int64_t run_elements);

namespace cuda {
class RotateRunner;
}

/// Rotates runs of R elements from a segment's start on, and its tail in runs of descending powers of two. H is the
/// Walsh-Hadamard matrix. D holds one random sign per element, the same for all workers: minus if bit d % 128 of draw
/// block floor(d / 128) is 1, where d is the segment's draw offset + position (Suresh et al., "Distributed Mean
/// Estimation with Limited Communication", ICML 2017, section 3). Norms and inner products are preserved, and the
/// elements of a run get similar magnitudes. Those of a tail's shortest runs do not, but with TailRotation::kTwice they
/// do in tails of 8 elements and more. D' consists of the signs of the tail's first 2^k elements: without other signs
/// than those of D the second transform would undo most of the first.
///
/// H consists of butterflies (a + b, a - b) with strides 1, 2, ..., R/2 in this order in float32, and one product at
/// the end. The inverse is exact up to these roundings; sums may overflow for finite elements above 2^128 / R.
/// Bit-equal on every backend, for any split into slices, alignment, number of threads and SIMD width, except for the
/// bits of NaN. A call with the same tasks as the previous one neither allocates, copies from the host nor waits, so it
/// can be captured into a CUDA graph. Use each object with one stream only.
class Rotator {
 public:
  /// @throws InvalidArgument unless the run length is a power of two from 64 to 4096
  explicit Rotator(std::int64_t run_elements, Device device = Device::cpu(), TailRotation tails = TailRotation::kOnce);

  /// @param tasks        any number of slices of any size; outputs must not overlap
  /// @param key          seed and step; worker and purpose are replaced by those of rotations
  /// @param device_step  null, or [1] on the stream's GPU, which replaces key.step
  /// @throws InvalidArgument before anything is written: for a misaligned `first`, `draw_offset` or element, tasks with
  /// different element types, another device's stream, device_step on the CPU, or a tail to be turned back twice whose
  /// `values` are not `out`
  void run(std::span<const RotateTask> tasks, Rotation rotation, DrawKey key, Stream& stream,
           const std::uint64_t* device_step = nullptr);

 private:
  std::int64_t run_elements_;
  Device device_;
  TailRotation tails_;
  std::vector<RotateTask> mixed_;
  std::shared_ptr<cuda::RotateRunner> cuda_, cuda_mixed_;
};

namespace cpu {
/// Rotates `count` elements, at most a chunk; the first has draw index `draw`. @param out  may be `values`
void rotate_chunk(const float* values, std::int64_t count, std::int64_t run_elements, bool forward, const DrawKey& key,
                  std::uint64_t draw, float* out);
}  // namespace cpu

}  // namespace terngrad
