// Element-wise checks and changes of a gradient. On a GPU's stream all pointers are device memory.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/runtime/device.h"

namespace terngrad {

/// Whether no element is NaN or infinite. On a GPU the host waits, and memory for the answer is allocated: in a
/// training step use find_nonfinite.
bool all_finite(std::span<const float> values, Stream& stream);

/// Sets *found to 1 if an element is NaN or infinite, and leaves it as it is otherwise: several calls share one flag,
/// which the caller sets to 0 before (fill_zero). StepScalars::skip reads such a flag. The host does not wait.
/// @param found  [1] in and out
void find_nonfinite(std::span<const float> values, std::uint32_t* found, Stream& stream);

/// Replaces NaN and infinities by +0; all other elements keep their bits. On a GPU the host waits, and memory for the
/// answer is allocated: in a training step use the form below.
/// @returns how many were replaced
std::int64_t zero_nonfinite(std::span<float> values, Stream& stream);

/// Like the form above, but adds to *num_replaced how many were replaced. The host does not wait.
/// @param num_replaced  [1] in and out
void zero_nonfinite(std::span<float> values, std::int64_t* num_replaced, Stream& stream);

/// values[i] = fl(factor * values[i]). Bit-equal on every backend, except for the bits of NaN. The host does not wait.
void scale(std::span<float> values, float factor, Stream& stream);

/// Like the form above, by the factor that is in memory when the kernel runs.
/// @param factor  [1]
void scale(std::span<float> values, const float* factor, Stream& stream);

/// out[i] = fl(a[i] * b[i]); out may be a or b. For short lists of scalers. Bit-equal on every backend; on a GPU the
/// host does not wait. @throws InvalidArgument if lengths differ
void multiply(std::span<const float> a, std::span<const float> b, std::span<float> out, Stream& stream);

}  // namespace terngrad
