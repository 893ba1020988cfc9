// Replaces nets/cuda/matrix_product.cpp in the emulation: plain loops.
#include "nets/cuda/matrix_product.h"

#include "kernels/runtime/errors.h"
#include "tests/simt/nets/stand_in.h"

namespace terngrad::cuda {
using terngrad::testing::JointCalls;

struct MatrixProduct::Plan {
  MathMode math;
  bool adds_backwards;
};

MatrixProduct::MatrixProduct(const Libraries& libraries, const MatrixShape& shape, MathMode math)
    : MatrixProduct(libraries, shape, std::make_shared<const Plan>(Plan{math, false})) {}
MatrixProduct::MatrixProduct(const Libraries& libraries, const MatrixShape& shape, std::shared_ptr<const Plan> plan)
    : libraries_(libraries), shape_(shape), plan_(std::move(plan)) {
  TERNGRAD_REQUIRE(shape.rows > 0 && shape.columns > 0 && shape.inner > 0, "[matrix product] a size is 0");
}

std::unique_ptr<MatrixProduct> MatrixProduct::with_rows(std::int64_t rows) const {
  if (testing::joint_calls == JointCalls::kRefused) return nullptr;
  MatrixShape shape = shape_;
  shape.rows = rows;
  const Plan plan{plan_->math, testing::joint_calls == JointCalls::kOtherBits};
  return std::unique_ptr<MatrixProduct>(new MatrixProduct(libraries_, shape, std::make_shared<const Plan>(plan)));
}

std::int64_t MatrixProduct::workspace_bytes() const { return 64; }

void MatrixProduct::run(const float* a, const float* b, float* c, void* workspace, const Stream& stream) const {
  testing::submit(stream, [a, b, c, workspace, s = shape_, plan = *plan_] {
    *static_cast<char*>(workspace) = 1;  // checks that the workspace exists
    for (std::int64_t row = 0; row < s.rows; ++row) {
      for (std::int64_t column = 0; column < s.columns; ++column) {
        float sum = 0;
        for (std::int64_t i = 0; i < s.inner; ++i) {
          const std::int64_t k = plan.adds_backwards ? s.inner - 1 - i : i;
          const float left = s.transpose_a ? a[k * s.rows + row] : a[row * s.inner + k];
          const float right = s.transpose_b ? b[column * s.inner + k] : b[k * s.columns + column];
          sum += testing::factor(left, plan.math) * testing::factor(right, plan.math);
        }
        c[row * s.columns + column] = sum;
      }
    }
  });
}

}  // namespace terngrad::cuda
