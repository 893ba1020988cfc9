// MatrixProduct: C = A B by cuBLASLt.
#pragma once

#include <cstdint>
#include <memory>

#include "nets/cuda/libraries.h"
#include "nets/device_net.h"

namespace terngrad::cuda {

/// C [rows, columns] = A' B' with A' [rows, inner] and B' [inner, columns], all float32, row-major and packed. With
/// `transpose_a` memory holds A' transposed, [inner, rows]; likewise B.
struct MatrixShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t inner = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  int alignment = kFullAlignment;  // alignment in bytes of all operands: a power of 2, at least 4
};

/// A product of matrices of one shape. Uses the first algorithm of the library's heuristic, never one chosen by timing,
/// whose sums have a fixed order. So results depend on the arguments, the shape, the GPU model and the version of the
/// library only.
class MatrixProduct {
 public:
  /// @throws InvalidArgument if a size is not positive; NotSupported, naming the shape, if the library has no such
  /// algorithm
  MatrixProduct(const Libraries& libraries, const MatrixShape& shape, MathMode math);
  /// A product for another number of rows with the same algorithm, to replace several calls by one; the caller must
  /// test that bits are the same. @returns null if the algorithm cannot do it
  /// @throws InvalidArgument if `rows` is not positive
  std::unique_ptr<MatrixProduct> with_rows(std::int64_t rows) const;

  std::int64_t workspace_bytes() const;
  /// Submits the product. @param a, b, c  device memory, aligned to the shape's alignment
  /// @param workspace  [workspace_bytes()] device memory, 256-byte aligned, not used by other work meanwhile
  /// @param stream     any stream of the GPU
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
