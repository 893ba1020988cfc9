// MathMode: arithmetic of nets on GPUs.
#pragma once

namespace terngrad {

/// Arithmetic of matrix products and convolutions of float32 numbers on a GPU.
enum class MathMode {
  kFp32,  // products of float32, sums in float32
  kTf32,  // factors rounded to TensorFloat-32 (10 bits of mantissa), sums in float32: tensor cores
};

}  // namespace terngrad
