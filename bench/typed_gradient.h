// Gradients of any element type as inputs of benchmarks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"
#include "kernels/tensor/element_type.h"

namespace terngrad::bench {

/// What gradient() gives, rounded to a type. Valid until a longer one of the type is asked for.
struct TypedGradient {
  ElementType type;
  const void* elements;  // [count] of `type`
  const float* values;   // [count] the same as float32, for checks
};
TypedGradient typed_gradient(ElementType type, std::int64_t count);

/// Copies of its elements on a stream's device, one per set.
std::vector<Buffer<std::uint8_t>> typed_gradients_on(Stream& stream, ElementType type, std::int64_t count,
                                                     int num_sets);

/// "f32", "bf16" or "f16", as names of benchmarks have it.
std::string bench_type(ElementType type);

}  // namespace terngrad::bench
