// MathMode: what nets on GPUs compute with.
#pragma once

namespace terngrad {

/// How matrix products and convolutions compute with float32 numbers on a GPU.
enum class MathMode {
  kFp32,  // products of float32, sums in float32
  kTf32,  // factors rounded to 10 bits of mantissa (TensorFloat-32), sums in float32: tensor cores
};

}  // namespace terngrad
