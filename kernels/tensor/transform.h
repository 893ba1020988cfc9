// Element-wise checks and transformations of a gradient. On a GPU's stream all pointers are device memory.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/runtime/device.h"

namespace terngrad {

/// True if no element is NaN or infinite. On a GPU it allocates memory and waits for the result: use find_nonfinite in
/// a training step.
bool all_finite(std::span<const float> values, Stream& stream);

/// Sets *found to 1 if an element is NaN or infinite, else leaves it unchanged, so several calls can share one flag.
/// The caller clears the flag first (fill_zero). StepScalars::skip reads such a flag. Asynchronous.
/// @param found  [1] in and out
void find_nonfinite(std::span<const float> values, std::uint32_t* found, Stream& stream);

/// Replaces NaN and infinities by +0; all other elements keep their bits. On a GPU it allocates memory and waits for
/// the result: use the overload below in a training step.
/// @returns number of replaced elements
std::int64_t zero_nonfinite(std::span<float> values, Stream& stream);

/// Like the overload above, but adds the number of replaced elements to *num_replaced. Asynchronous.
/// @param num_replaced  [1] in and out
void zero_nonfinite(std::span<float> values, std::int64_t* num_replaced, Stream& stream);

/// values[i] = fl(factor * values[i]). Bit-equal on every backend, except for the bits of NaN. Asynchronous.
void scale(std::span<float> values, float factor, Stream& stream);

/// Like the overload above, with a factor that is read from memory when the kernel runs.
/// @param factor  [1]
void scale(std::span<float> values, const float* factor, Stream& stream);

/// out[i] = fl(a[i] * b[i]); out may be a or b. Meant for short lists of scalers. Bit-equal on every backend.
/// Asynchronous on a GPU.
/// @throws InvalidArgument if lengths differ
void multiply(std::span<const float> a, std::span<const float> b, std::span<float> out, Stream& stream);

}  // namespace terngrad
