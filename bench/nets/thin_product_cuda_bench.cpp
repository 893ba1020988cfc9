// What products with thin factors compete with on a GPU: those of cuBLASLt, in float32 and in no promised order of
// sums.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/cuda_harness.h"
#include "bench/cuda_subjects.h"
#include "kernels/runtime/copy.h"
#include "nets/cuda/matrix_product.h"

namespace terngrad::bench {
namespace {

constexpr std::int64_t kColumns = 4096;
constexpr std::int64_t kRank = 4;

struct Set {
  Buffer<float> m, factor, result;
  Buffer<std::uint8_t> workspace;
};

/// M Q, or M^T P.
CudaSubject thin_product(std::int64_t rows, bool is_transposed) {
  struct State {
    std::unique_ptr<cuda::MatrixProduct> product;
    std::vector<std::unique_ptr<Set>> sets;
  };
  const auto state = std::make_shared<State>();
  const cuda::MatrixShape shape{.rows = is_transposed ? kColumns : rows,
                                .columns = kRank,
                                .inner = is_transposed ? rows : kColumns,
                                .transpose_a = is_transposed};
  CudaSubject subject;
  subject.elements = static_cast<double>(rows * kColumns);
  subject.bytes = 4.0 * subject.elements;
  subject.prepare = [=](Stream& stream, int num_sets) {
    state->product = std::make_unique<cuda::MatrixProduct>(cuda::Libraries(stream), shape, MathMode::kFp32);
    const std::vector<float> ones(static_cast<std::size_t>(shape.inner * kRank), 1.0f);
    std::vector<std::function<void()>> works;
    for (Buffer<float>& gradient : gradients_on(stream, rows * kColumns, num_sets)) {
      Set& set = *state->sets.emplace_back(
          std::make_unique<Set>(Set{std::move(gradient), Buffer<float>(shape.inner * kRank, stream.device()),
                                    Buffer<float>(shape.rows * kRank, stream.device()),
                                    Buffer<std::uint8_t>(state->product->workspace_bytes(), stream.device())}));
      copy<float>(ones, set.factor.span(), stream);
      works.emplace_back([state, &set, &stream] {
        state->product->run(set.m.data(), set.factor.data(), set.result.data(), set.workspace.data(), stream);
      });
    }
    stream.synchronize();
    return works;
  };
  // All columns of a factor of ones have the same sums.
  subject.check = [=](Stream& stream) {
    std::vector<float> found(static_cast<std::size_t>(shape.rows * kRank));
    copy<float>(state->sets.back()->result.span(), std::span(found), stream);
    stream.synchronize();
    float max = 0;
    for (std::size_t i = 0; i < found.size(); i += kRank) {
      max = std::max(max, std::fabs(found[i]));
      if (std::fabs(found[i] - found[i + kRank - 1]) > 1e-3f * std::fabs(found[i]) + 1e-6f) return false;
    }
    return max > 0;
  };
  return subject;
}

}  // namespace

void register_cuda_thin_product() {
  if (!cuda::Libraries::why_missing().empty()) return;
  for (const std::int64_t n : cuda_memory_sizes()) {
    const std::int64_t rows = n / kColumns;
    if (rows == 0) continue;
    for (const bool is_transposed : {false, true}) {
      register_cuda_subject(cuda_bench_name(is_transposed ? "cublas_rows_r4" : "cublas_columns_r4", "f32", n),
                            4.0 * static_cast<double>(n), Residency::kMemory,
                            [=] { return thin_product(rows, is_transposed); });
    }
  }
}

}  // namespace terngrad::bench
