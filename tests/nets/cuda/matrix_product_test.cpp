// Matrix products compared with double-precision loops, on a GPU and with the emulation's stand-in for cuBLASLt.
#include "nets/cuda/matrix_product.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "kernels/runtime/errors.h"
#include "nets/cuda/library_runs.h"
#include "support/gradients.h"

namespace terngrad::cuda::matrix_product_test {
namespace {

using testing::Floats;
using testing::ReferenceSums;

class CudaMatrixProduct : public testing::CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    stream_ = std::make_unique<Stream>(Device::cuda());
    libraries_ = std::make_unique<Libraries>(*stream_);
  }
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Libraries> libraries_;
};

std::size_t elements(std::int64_t rows, std::int64_t columns) { return static_cast<std::size_t>(rows * columns); }

ReferenceSums reference(const MatrixShape& shape, const Floats& a, const Floats& b) {
  ReferenceSums result(elements(shape.rows, shape.columns));
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    for (std::int64_t column = 0; column < shape.columns; ++column) {
      for (std::int64_t i = 0; i < shape.inner; ++i) {
        const std::int64_t in_a = shape.transpose_a ? i * shape.rows + row : row * shape.inner + i;
        const std::int64_t in_b = shape.transpose_b ? column * shape.inner + i : i * shape.columns + column;
        result.add(static_cast<std::size_t>(row * shape.columns + column), a[static_cast<std::size_t>(in_a)],
                   b[static_cast<std::size_t>(in_b)]);
      }
    }
  }
  return result;
}

/// Odd shapes, vectors, one element, and shapes of fully connected layers.
std::vector<MatrixShape> shapes() {
  constexpr std::array<std::array<std::int64_t, 3>, 7> kSizes = {
      {{1, 1, 1}, {3, 5, 7}, {1, 10, 192}, {33, 1, 65}, {16, 10, 192}, {17, 31, 129}, {128, 64, 100}}};
  std::vector<MatrixShape> result;
  for (const auto& [rows, columns, inner] : kSizes) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        result.push_back({rows, columns, inner, transpose_a, transpose_b});
      }
    }
  }
  return result;
}

std::string to_text(const MatrixShape& shape, MathMode math) {
  return std::to_string(shape.rows) + " x " + std::to_string(shape.columns) + " x " + std::to_string(shape.inner) +
         (shape.transpose_a ? ", A transposed" : "") + (shape.transpose_b ? ", B transposed" : "") +
         (math == MathMode::kTf32 ? ", tf32" : ", fp32");
}

TEST_F(CudaMatrixProduct, IsExactWhereEveryOrderIs) {
  for (const MathMode math : {MathMode::kFp32, MathMode::kTf32}) {
    for (const MatrixShape& shape : shapes()) {
      SCOPED_TRACE(to_text(shape, math));
      const Floats a = testing::small_integers(elements(shape.rows, shape.inner), 1);
      const Floats b = testing::small_integers(elements(shape.inner, shape.columns), 2);
      const MatrixProduct product(*libraries_, shape, math);
      EXPECT_EQ(product.shape().inner, shape.inner);
      EXPECT_EQ(testing::run_once(product, a, b, elements(shape.rows, shape.columns), *stream_),
                reference(shape, a, b).rounded());
    }
  }
}

TEST_F(CudaMatrixProduct, IsNearTheSumOfProducts) {
  for (const MathMode math : {MathMode::kFp32, MathMode::kTf32}) {
    for (const MatrixShape& shape : shapes()) {
      SCOPED_TRACE(to_text(shape, math));
      const Floats a = testing::gaussian(elements(shape.rows, shape.inner), 1);
      const Floats b = testing::gaussian(elements(shape.inner, shape.columns), 2);
      const MatrixProduct product(*libraries_, shape, math);
      testing::expect_near_sums(testing::run_once(product, a, b, elements(shape.rows, shape.columns), *stream_),
                                reference(shape, a, b), shape.inner, math);
    }
  }
}

// 1 + 2^-12 rounds to 1 in TF32.
TEST_F(CudaMatrixProduct, Fp32DoesNotRoundFactors) {
  for (const MatrixShape& shape : shapes()) {
    SCOPED_TRACE(to_text(shape, MathMode::kFp32));
    const Floats a(elements(shape.rows, shape.inner), 1 + 0x1p-12f);
    const Floats b(elements(shape.inner, shape.columns), 1.0f);
    const MatrixProduct product(*libraries_, shape, MathMode::kFp32);
    EXPECT_EQ(testing::run_once(product, a, b, elements(shape.rows, shape.columns), *stream_),
              Floats(elements(shape.rows, shape.columns), static_cast<float>(shape.inner) * (1 + 0x1p-12f)));
  }
}

TEST_F(CudaMatrixProduct, RepeatsItsBitsAndCanBeCaptured) {
  // The last shape has long sums for few elements, which libraries like to split between blocks.
  for (const MatrixShape& shape : {MatrixShape{17, 31, 129, false, true}, MatrixShape{10, 12, 3000, true, false}}) {
    for (const MathMode math : {MathMode::kFp32, MathMode::kTf32}) {
      SCOPED_TRACE(to_text(shape, math));
      const MatrixProduct product(*libraries_, shape, math);
      testing::expect_repeatable(product, testing::gaussian(elements(shape.rows, shape.inner), 3),
                                 testing::gaussian(elements(shape.inner, shape.columns), 4),
                                 elements(shape.rows, shape.columns), *stream_);
    }
  }
}

TEST_F(CudaMatrixProduct, OfMoreRowsIsRightWhereItCanBeDone) {
  for (const MathMode math : {MathMode::kFp32, MathMode::kTf32}) {
    for (const bool transpose_b : {false, true}) {
      MatrixShape shape{.rows = 16, .columns = 12, .inner = 40, .transpose_b = transpose_b};
      std::unique_ptr<MatrixProduct> joined;
      {
        const MatrixProduct product(*libraries_, shape, math);
        joined = product.with_rows(64);
      }
      shape.rows = 64;
      SCOPED_TRACE(to_text(shape, math));
      if (joined == nullptr) continue;
      EXPECT_EQ(joined->shape().rows, 64);
      const Floats a = testing::small_integers(elements(shape.rows, shape.inner), 5);
      const Floats b = testing::small_integers(elements(shape.inner, shape.columns), 6);
      EXPECT_EQ(testing::run_once(*joined, a, b, elements(shape.rows, shape.columns), *stream_),
                reference(shape, a, b).rounded());
    }
  }
}

TEST_F(CudaMatrixProduct, RefusesEmptyMatrices) {
  for (const MatrixShape& shape : {MatrixShape{0, 1, 1}, MatrixShape{1, 0, 1}, MatrixShape{1, 1, 0}}) {
    EXPECT_THROW(MatrixProduct(*libraries_, shape, MathMode::kFp32), InvalidArgument);
  }
  const MatrixProduct product(*libraries_, {4, 4, 4}, MathMode::kFp32);
  EXPECT_THROW(product.with_rows(0), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda::matrix_product_test
