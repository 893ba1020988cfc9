// The competitor of products with thin factors on a GPU: those of cuBLASLt, in float32 and in no promised order of
// sums.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "bench/device_memory.h"
#include "bench/gradients.h"
#include "bench/rows.h"
#include "nets/cuda/matrix_product.h"

namespace terngrad::bench {
namespace {

constexpr std::int64_t kColumns = 4096;
constexpr std::int64_t kRank = 4;

/// M Q, or M^T P.
Subject thin_product(std::int64_t rows, bool is_transposed) {
  const cuda::MatrixShape shape{.rows = is_transposed ? kColumns : rows,
                                .columns = kRank,
                                .inner = is_transposed ? rows : kColumns,
                                .transpose_a = is_transposed};
  // One for all sets.
  const auto product = std::make_shared<std::optional<cuda::MatrixProduct>>();
  const auto prepare = [=](Stream& stream) {
    struct Set {
      Input<float> m;
      Buffer<float> factor, result;
      Buffer<std::uint8_t> workspace;
    };
    if (!*product) product->emplace(cuda::Libraries(stream), shape, MathMode::kFp32);
    const std::vector<float> ones(static_cast<std::size_t>(shape.inner * kRank), 1.0f);
    const auto set = std::make_shared<Set>(Set{{gradient(rows * kColumns), stream},
                                               on_device(std::span(ones), stream),
                                               Buffer<float>(shape.rows * kRank, stream.device()),
                                               Buffer<std::uint8_t>((*product)->workspace_bytes(), stream.device())});
    const auto run = [=, &stream] {
      (*product)->run(set->m.data(), set->factor.data(), set->result.data(), set->workspace.data(), stream);
    };
    // All columns of a factor of ones have the same sums.
    const auto check = [=, &stream] {
      const std::vector<float> found = on_host(set->result.span(), stream);
      float max = 0;
      for (std::size_t i = 0; i < found.size(); i += kRank) {
        max = std::max(max, std::fabs(found[i]));
        if (std::fabs(found[i] - found[i + kRank - 1]) > 1e-3f * std::fabs(found[i]) + 1e-6f) return false;
      }
      return max > 0;
    };
    return Work{run, check};
  };
  const auto elements = static_cast<double>(rows * kColumns);
  return {.bytes = 4 * elements, .elements = elements, .prepare = prepare};
}

const Registration registration(__FILE__, [](Rows& rows) {
  if (!cuda::Libraries::why_missing().empty()) return;
  for (const bool is_transposed : {false, true}) {
    rows.add(is_transposed ? "cublas_rows_r4" : "cublas_columns_r4", "f32",
             [=](std::int64_t n) { return thin_product(n / kColumns, is_transposed); },
             {.devices = Devices::kCuda, .min_elements = kColumns, .memory_only = true});
  }
});

}  // namespace
}  // namespace terngrad::bench
