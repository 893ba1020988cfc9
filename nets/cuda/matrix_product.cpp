#include "nets/cuda/matrix_product.h"

#include <array>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

#include "kernels/runtime/device_guard.h"
#include "kernels/runtime/errors.h"
#include "nets/cuda/cublas_lt_api.h"
#include "nets/cuda/library_handles.h"

namespace terngrad::cuda {
namespace {

// NVIDIA's recommendation for GPUs since Hopper.
constexpr std::uint64_t kMaxWorkspaceBytes = std::uint64_t{32} << 20;
// More than the heuristic returns for one shape.
constexpr int kMaxOffers = 32;

std::string to_text(const MatrixShape& shape) {
  std::ostringstream text;
  text << "[" << shape.rows << ", " << shape.columns << "] = [" << shape.rows << ", " << shape.inner << "]"
       << (shape.transpose_a ? " (transposed)" : "") << " [" << shape.inner << ", " << shape.columns << "]"
       << (shape.transpose_b ? " (transposed)" : "");
  return text.str();
}

void check(cublasStatus_t status, const char* call, const MatrixShape& shape) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  TERNGRAD_THROW(DeviceError, "[MatrixProduct] ", call, " failed for ", to_text(shape), ": ",
                 cublas_lt_api().get_status_string(status));
}

void require_sizes(const MatrixShape& shape) {
  TERNGRAD_REQUIRE(shape.rows > 0 && shape.columns > 0 && shape.inner > 0,
                   "[MatrixProduct] rows, columns and inner must be positive: ", to_text(shape));
}

template <auto destroy>
struct Destroy {
  template <class T>
  void operator()(T* object) const {
    static_cast<void>((cublas_lt_api().*destroy)(object));
  }
};
template <class T, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, Destroy<destroy>>;
using Operation = Owned<cublasLtMatmulDesc_t, &CublasLtApi::matmul_desc_destroy>;
using MatrixLayout = Owned<cublasLtMatrixLayout_t, &CublasLtApi::matrix_layout_destroy>;
using Preference = Owned<cublasLtMatmulPreference_t, &CublasLtApi::matmul_preference_destroy>;

MatrixLayout make_layout(std::int64_t rows, std::int64_t columns, const MatrixShape& shape) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublas_lt_api().matrix_layout_create(&layout, CUDA_R_32F, static_cast<std::uint64_t>(rows),
                                             static_cast<std::uint64_t>(columns), rows),
        "cublasLtMatrixLayoutCreate", shape);
  return MatrixLayout(layout);
}

/// The product in cuBLASLt's column-major terms: a row-major matrix is the transpose of a column-major one, so the
/// library computes C^T = B'^T A'^T, whose first factor is B.
struct Problem {
  Operation operation;
  MatrixLayout b;
  MatrixLayout a;
  MatrixLayout c;
};

Problem make_problem(const MatrixShape& shape, MathMode math) {
  cublasLtMatmulDesc_t descriptor = nullptr;
  // COMPUTE_32F multiplies float32 numbers; only FAST_TF32 allows rounding them.
  check(cublas_lt_api().matmul_desc_create(
            &descriptor, math == MathMode::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate", shape);
  Operation operation(descriptor);
  const auto set_transposed = [&](cublasLtMatmulDescAttributes_t attribute, bool transposed) {
    const cublasOperation_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublas_lt_api().matmul_desc_set_attribute(descriptor, attribute, &value, sizeof(value)),
          "cublasLtMatmulDescSetAttribute", shape);
  };
  set_transposed(CUBLASLT_MATMUL_DESC_TRANSA, shape.transpose_b);
  set_transposed(CUBLASLT_MATMUL_DESC_TRANSB, shape.transpose_a);
  return {.operation = std::move(operation),
          .b = shape.transpose_b ? make_layout(shape.inner, shape.columns, shape)
                                 : make_layout(shape.columns, shape.inner, shape),
          .a = shape.transpose_a ? make_layout(shape.rows, shape.inner, shape)
                                 : make_layout(shape.inner, shape.rows, shape),
          .c = make_layout(shape.columns, shape.rows, shape)};
}

Preference make_preference(const MatrixShape& shape) {
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublas_lt_api().matmul_preference_create(&preference), "cublasLtMatmulPreferenceCreate", shape);
  Preference owned(preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check(cublas_lt_api().matmul_preference_set_attribute(preference, attribute, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute", shape);
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMaxWorkspaceBytes);
  // Split-K sums: COMPUTE_TYPE writes partial sums to the workspace and adds them in a separate step. INPLACE, where
  // blocks take turns to add to the result, does not guarantee their order. The mask does not affect products
  // without split sums.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(attribute, static_cast<std::uint32_t>(shape.alignment));
  }
  return owned;
}

/// True if an algorithm has the arithmetic of MathMode. The compute type alone is not enough: environment variables may
/// make the library emulate float32 by bfloat16 products on tensor cores, which have other bits.
bool is_admissible(const cublasLtMatmulAlgo_t& algorithm, MathMode math) {
  cublasLtNumericalImplFlags_t flags = 0;  // 0: unknown, for algorithms without these flags
  std::size_t written = 0;
  static_cast<void>(cublas_lt_api().matmul_algo_cap_get_attribute(&algorithm, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS,
                                                                  &flags, sizeof(flags), &written));
  cublasLtNumericalImplFlags_t allowed = CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA |
                                         CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F |
                                         CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_32F;
  if (math == MathMode::kTf32) {
    allowed |= CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32;
  }
  return (flags & ~allowed) == 0;
}

/// The first admissible algorithm of the library's heuristic.
std::optional<cublasLtMatmulHeuristicResult_t> choose_algorithm(cublasLtHandle_t handle, const Problem& problem,
                                                                const MatrixShape& shape, MathMode math) {
  const Preference preference = make_preference(shape);
  std::array<cublasLtMatmulHeuristicResult_t, kMaxOffers> offers{};
  int num_offers = 0;
  const cublasStatus_t status = cublas_lt_api().matmul_algo_get_heuristic(
      handle, problem.operation.get(), problem.b.get(), problem.a.get(), problem.c.get(), problem.c.get(),
      preference.get(), kMaxOffers, offers.data(), &num_offers);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return std::nullopt;
  check(status, "cublasLtMatmulAlgoGetHeuristic", shape);
  for (int i = 0; i < num_offers; ++i) {
    const auto& offer = offers[static_cast<std::size_t>(i)];
    if (offer.state == CUBLAS_STATUS_SUCCESS && is_admissible(offer.algo, math)) return offer;
  }
  return std::nullopt;
}

}  // namespace

struct MatrixProduct::Plan {
  MathMode math;
  Problem problem;
  cublasLtMatmulAlgo_t algorithm;
  std::int64_t workspace_bytes;
};

MatrixProduct::MatrixProduct(const Libraries& libraries, const MatrixShape& shape, MathMode math)
    : libraries_(libraries), shape_(shape) {
  require_sizes(shape);
  const DeviceGuard guard(libraries.stream().device());
  Problem problem = make_problem(shape, math);
  const auto chosen = choose_algorithm(libraries.handles().cublas_lt, problem, shape, math);
  if (!chosen) {
    TERNGRAD_THROW(NotSupported, "[MatrixProduct] cuBLASLt ", cublas_lt_api().get_version(), " has no algorithm with ",
                   math == MathMode::kTf32 ? "TF32" : "float32", " products and sums in a fixed order for ",
                   to_text(shape));
  }
  plan_ = std::make_shared<const Plan>(Plan{.math = math,
                                            .problem = std::move(problem),
                                            .algorithm = chosen->algo,
                                            .workspace_bytes = static_cast<std::int64_t>(chosen->workspaceSize)});
}

MatrixProduct::MatrixProduct(const Libraries& libraries, const MatrixShape& shape, std::shared_ptr<const Plan> plan)
    : libraries_(libraries), shape_(shape), plan_(std::move(plan)) {}

std::unique_ptr<MatrixProduct> MatrixProduct::with_rows(std::int64_t rows) const {
  MatrixShape shape = shape_;
  shape.rows = rows;
  require_sizes(shape);
  const DeviceGuard guard(libraries_.stream().device());
  Problem problem = make_problem(shape, plan_->math);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      cublas_lt_api().matmul_algo_check(libraries_.handles().cublas_lt, problem.operation.get(), problem.b.get(),
                                        problem.a.get(), problem.c.get(), problem.c.get(), &plan_->algorithm, &result);
  if (status != CUBLAS_STATUS_SUCCESS || result.state != CUBLAS_STATUS_SUCCESS) return nullptr;
  auto plan = std::make_shared<const Plan>(Plan{.math = plan_->math,
                                                .problem = std::move(problem),
                                                .algorithm = plan_->algorithm,
                                                .workspace_bytes = static_cast<std::int64_t>(result.workspaceSize)});
  return std::unique_ptr<MatrixProduct>(new MatrixProduct(libraries_, shape, std::move(plan)));
}

std::int64_t MatrixProduct::workspace_bytes() const { return plan_->workspace_bytes; }

void MatrixProduct::run(const float* a, const float* b, float* c, void* workspace, const Stream& stream) const {
  const DeviceGuard guard(libraries_.stream().device());
  const float one = 1;
  const float zero = 0;
  const Problem& problem = plan_->problem;
  check(cublas_lt_api().matmul(libraries_.handles().cublas_lt, problem.operation.get(), &one, b, problem.b.get(), a,
                               problem.a.get(), &zero, c, problem.c.get(), c, problem.c.get(), &plan_->algorithm,
                               workspace, static_cast<std::size_t>(plan_->workspace_bytes), native_stream(stream)),
        "cublasLtMatmul", shape_);
}

}  // namespace terngrad::cuda
