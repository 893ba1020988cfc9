// MatrixProduct: C = A B by cuBLASLt.
#pragma once

#include <cstdint>
#include <memory>

#include "nets/cuda/libraries.h"
#include "nets/device_net.h"

namespace terngrad::cuda {

/// C [rows, columns] = A' B' with A' [rows, inner] and B' [inner, columns], all float32, row-major and packed. Where
/// `transpose_a` is set, memory holds A' transposed, [inner, rows]; so for B.
struct MatrixShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t inner = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  int alignment = kFullAlignment;  // of every operand, in bytes: a power of 2, at least 4
};

/// A product of matrices of one shape. The algorithm is the library's first choice by heuristic, among those whose sums
/// have a fixed order: never chosen by timing. So results depend on the arguments, the shape, the kind of GPU and the
/// version of the library only.
class MatrixProduct {
 public:
  /// @throws InvalidArgument if a size is not positive; NotSupported, naming the shape, if the library has no such
  /// algorithm
  MatrixProduct(const Libraries& libraries, const MatrixShape& shape, MathMode math);
  /// Of another number of rows, by the very algorithm of this one, for where one call stands for several: whether the
  /// bits are those of several calls must be tested. @returns null if that algorithm cannot do it
  /// @throws InvalidArgument if `rows` is not positive
  std::unique_ptr<MatrixProduct> with_rows(std::int64_t rows) const;

  std::int64_t workspace_bytes() const;
  /// Submits the product. @param a, b, c  device memory, aligned as the shape says
  /// @param workspace  [workspace_bytes()] device memory, 256-byte aligned, used by nothing else meanwhile
  /// @param stream     any of the GPU
  void run(const float* a, const float* b, float* c, void* workspace, const Stream& stream) const;
  const MatrixShape& shape() const { return shape_; }

 private:
  struct Plan;
  MatrixProduct(const Libraries& libraries, const MatrixShape& shape, std::shared_ptr<const Plan> plan);
  Libraries libraries_;
  MatrixShape shape_;
  std::shared_ptr<const Plan> plan_;
};

}  // namespace terngrad::cuda
