// Products of a matrix with thin factors, and P Q^T again, on a GPU.
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/cuda_harness.h"
#include "bench/cuda_subjects.h"
#include "bench/typed_gradient.h"
#include "kernels/factors/low_rank.h"
#include "kernels/runtime/copy.h"

namespace terngrad::bench {
namespace {

constexpr std::int64_t kColumns = 4096;  // of AlexNet's largest layers
constexpr float kP = 0.5f;
constexpr float kQ = 0.25f;

enum class Product { kColumnsOfQ, kRowsOfP, kElements };

struct Set {
  Buffer<float> m, p, q;
  LowRankProducts products{Device::cuda()};
};

/// The element that is checked, in any order of sums: the last of the result.
double expected_last(Product product, std::int64_t rows, int rank, double& size) {
  const float* const values = typed_gradient(ElementType::kFloat32, rows * kColumns).values;
  double sum = 0;
  const auto add = [&](double term) {
    sum += term;
    size += std::fabs(term);
  };
  if (product == Product::kColumnsOfQ) {
    for (std::int64_t c = 0; c < kColumns; ++c) {
      add(static_cast<double>(values[(rows - 1) * kColumns + c]) * static_cast<double>(kQ));
    }
  } else if (product == Product::kRowsOfP) {
    for (std::int64_t row = 0; row < rows; ++row) {
      add(static_cast<double>(values[row * kColumns + kColumns - 1]) * static_cast<double>(kP));
    }
  } else {
    add(static_cast<double>(kP) * static_cast<double>(kQ) * rank);
  }
  return sum;
}

/// The matrix is read or written once. Sums along columns also write and read those of their slots, which are not
/// counted.
CudaSubject low_rank(Product product, std::int64_t rows, int rank) {
  const auto sets = std::make_shared<std::vector<std::unique_ptr<Set>>>();
  const auto factor = [](std::int64_t count, float value, Stream& stream) {
    const std::vector<float> values(static_cast<std::size_t>(count), value);
    Buffer<float> there(count, stream.device());
    copy<float>(values, there.span(), stream);
    stream.synchronize();
    return there;
  };
  CudaSubject subject;
  subject.elements = static_cast<double>(rows * kColumns);
  subject.bytes = 4.0 * subject.elements;
  subject.num_launches = product == Product::kRowsOfP ? 2 : 1;
  subject.prepare = [=](Stream& stream, int num_sets) {
    std::vector<std::function<void()>> works;
    for (Buffer<float>& gradient : gradients_on(stream, rows * kColumns, num_sets)) {
      sets->push_back(std::make_unique<Set>(
          Set{std::move(gradient), factor(rank * rows, kP, stream), factor(rank * kColumns, kQ, stream)}));
      works.emplace_back([=, &set = *sets->back(), &stream] {
        const FactorTask task{.m = {set.m.data(), rows, kColumns}, .rank = rank, .p = set.p.data(), .q = set.q.data()};
        const LowRankTask written{
            .sizes = {rows, kColumns, rank}, .p = set.p.data(), .q = set.q.data(), .out = set.m.data()};
        if (product == Product::kColumnsOfQ) set.products.times_columns({&task, 1}, stream);
        if (product == Product::kRowsOfP) set.products.times_rows({&task, 1}, stream);
        if (product == Product::kElements) set.products.write_products({&written, 1}, nullptr, stream);
      });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    Set& set = *sets->back();
    const Buffer<float>& result = product == Product::kColumnsOfQ ? set.p
                                  : product == Product::kRowsOfP  ? set.q
                                                                  : set.m;
    float found = 0;
    copy<float>(result.span().last(1), std::span(&found, 1), stream);
    stream.synchronize();
    double size = 0;
    const double expected = expected_last(product, rows, rank, size);
    return std::fabs(static_cast<double>(found) - expected) <= 1e-6 * size;
  };
  return subject;
}

}  // namespace

void register_cuda_low_rank() {
  for (const auto& [sizes, residency] :
       {std::pair(cuda_memory_sizes(), Residency::kMemory), std::pair(cuda_cache_sizes(), Residency::kCache)}) {
    for (const std::int64_t n : sizes) {
      const std::int64_t rows = n / kColumns;
      if (rows == 0) continue;
      for (const int rank : {1, 4, 8}) {
        for (const auto& [name, product] :
             {std::pair("low_rank_columns_r", Product::kColumnsOfQ), std::pair("low_rank_rows_r", Product::kRowsOfP),
              std::pair("low_rank_elements_r", Product::kElements)}) {
          register_cuda_subject(cuda_bench_name(name + std::to_string(rank), "f32", n), 4.0 * static_cast<double>(n),
                                residency, [=, product = product] { return low_rank(product, rows, rank); });
        }
      }
    }
  }
}

}  // namespace terngrad::bench
