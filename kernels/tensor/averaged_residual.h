// Residuals of error feedback in 8 bits: a moving average of what messages left out.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"
#include "kernels/runtime/device_step.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// An averaged residual holds blocks of 64 elements in 17 float32 words each: 64 codes c of 8 bits, as int8 in order,
/// then the block's scale s as float32. An element is fl(s c). Codes behind the last element are 0.
inline constexpr std::int64_t kResidualBlock = 64;
inline constexpr std::int64_t kResidualBlockWords = 17;

/// Blocks of a residual of `count` elements.
constexpr std::int64_t residual_blocks(std::int64_t count) { return (count + kResidualBlock - 1) / kResidualBlock; }

/// Words of a residual of `count` elements.
constexpr std::int64_t residual_words(std::int64_t count) { return residual_blocks(count) * kResidualBlockWords; }

/// The moving average. A step whose number is a multiple of `reset` counts the residual before it as 0; if that step is
/// skipped, or its tensor not finite, the residual stays and counts again in the next one.
struct ResidualAverage {
  float decay = 0;
  float weight = 1;         // of the newest residual
  std::uint64_t reset = 0;  // steps; 0: never
  DeviceStep step = {};
};

/// Compensation of one tensor before it is encoded. Pointers are device memory on a GPU's stream.
struct AveragedCompensateTask {
  const float* state = nullptr;              // [residual_words(count)]
  const void* gradient = nullptr;            // [count], aligned to the element size
  ElementType type = ElementType::kFloat32;  // the gradient's type
  float* compensated = nullptr;              // [count] out; overlaps no input but `gradient`, which it may be
  std::int64_t count = 0;
};

/// compensated[i] = fl(e[i] + gradient[i]); e is 0 in a step that resets it. Bit-equal on every backend, except for the
/// bits of NaN. Asynchronous on a GPU.
void compensate(const AveragedCompensateTask& task, const ResidualAverage& average, Stream& stream);

/// Update of the residual of one tensor, or of a part that begins at a multiple of kResidualBlock and ends at one or
/// with the tensor, once its message is final. Pointers are device memory on a GPU's stream.
struct AveragedResidualTask {
  const float* encoded = nullptr;  // [count] the codec's input h
  const float* sent = nullptr;     // [count] decoded message d
  float* state = nullptr;          // [residual_words(count)] in and out
  std::int64_t count = 0;
  const float* flag = nullptr;          // [1] or null: NaN if the tensor was not finite
  const std::uint32_t* skip = nullptr;  // [1] or null: nonzero if the step is skipped
};

/// LoCo: Xie, Lin, Toh and Zhou, "LoCo: Low-bit communication adaptor for large-scale model training", TPAMI 2025
/// (arXiv 2407.04480). With e = 0 in a step that resets it:
///
///   e' = fl(fl(decay e) + fl(weight fl(h - d)))
///   s = fl(max|e'| / 127) of the block,  c = fl(e' / s) rounded to a whole number, ties to even
///
/// A block whose s is below 2^-126 or no finite number becomes zeros. Leaves the state unchanged if the flag is NaN or
/// the step is skipped. Bit-equal on every backend. Asynchronous on a GPU.
void update_residual(const AveragedResidualTask& task, const ResidualAverage& average, Stream& stream);

}  // namespace terngrad
