// Gradients as inputs of benchmarks, in any element type.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/runtime/buffer.h"
#include "kernels/tensor/element_type.h"

namespace terngrad::bench {

/// `index`-th gradient of several, of at most `count` elements each: standard normal values times 0.01, the same in
/// every run.
Buffer<float> make_gradient(std::int64_t count, std::uint64_t index);

/// The first `count` elements of the first of these gradients. Valid until more are asked for.
std::span<const float> gradient(std::int64_t count);

/// gradient(), rounded to a type. Valid until more of the type are asked for.
struct TypedGradient {
  std::span<const std::uint8_t> elements;  // bytes of `count` elements
  std::span<const float> values;           // [count] the elements as float32, for checks
};
TypedGradient typed_gradient(ElementType type, std::int64_t count);

/// "f32", "bf16" or "f16", as in names of benchmarks.
std::string bench_type(ElementType type);

}  // namespace terngrad::bench
