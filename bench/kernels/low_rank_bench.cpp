// Products of a matrix with thin factors, and P Q^T again, of a matrix with as many columns as AlexNet's largest
// layers.
#include "kernels/factors/low_rank.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "bench/subjects.h"
#include "bench/typed_gradient.h"

namespace terngrad::bench {
namespace {

constexpr std::int64_t kColumns = 4096;

enum class Product { kColumnsOfQ, kRowsOfP, kElements };

struct State {
  const float* values = nullptr;
  std::vector<float> p, q, out;
  LowRankProducts products;
};

/// The matrix is read or written once: the ceiling is that of reading.
Subject low_rank(Product product, std::int64_t n, int rank) {
  const std::int64_t rows = n / kColumns;
  const auto state = std::make_shared<State>();
  state->values = typed_gradient(ElementType::kFloat32, n).values;
  state->p.assign(static_cast<std::size_t>(rows * rank), 0.5f);
  state->q.assign(static_cast<std::size_t>(kColumns * rank), 0.25f);
  if (product == Product::kElements) state->out.resize(static_cast<std::size_t>(rows * kColumns));
  Subject subject;
  subject.elements = static_cast<double>(rows * kColumns);
  subject.bytes = 4.0 * subject.elements;
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    const FactorTask task{
        .m = {state->values, rows, kColumns}, .rank = rank, .p = state->p.data(), .q = state->q.data()};
    if (product == Product::kColumnsOfQ) {
      return [=, &stream] { state->products.times_columns({&task, 1}, stream); };
    }
    if (product == Product::kRowsOfP) {
      return [=, &stream] { state->products.times_rows({&task, 1}, stream); };
    }
    return [=] { low_rank_elements(state->p.data(), rows, state->q.data(), kColumns, rank, 0, state->out); };
  };
  subject.check = [=] {
    // One element of the result, in any order of sums.
    double sum = 0;
    double size = 0;
    double found = 0;
    if (product == Product::kColumnsOfQ) {
      for (std::int64_t c = 0; c < kColumns; ++c) {
        const double term = static_cast<double>(state->values[(rows - 1) * kColumns + c]) * 0.25;
        sum += term;
        size += std::fabs(term);
      }
      found = static_cast<double>(state->p.back());
    } else if (product == Product::kRowsOfP) {
      for (std::int64_t row = 0; row < rows; ++row) {
        const double term = static_cast<double>(state->values[row * kColumns + kColumns - 1]) * 0.5;
        sum += term;
        size += std::fabs(term);
      }
      found = static_cast<double>(state->q.back());
    } else {
      sum = size = 0.125 * rank;
      found = static_cast<double>(state->out.back());
    }
    return std::fabs(found - sum) <= 1e-6 * size;
  };
  return subject;
}

void add(const std::string& name, Product product, std::int64_t n, int rank, int threads) {
  register_subject(bench_name(name + "_r" + std::to_string(rank), "f32", n, threads), n, threads,
                   [=] { return low_rank(product, n, rank); });
}

}  // namespace

void register_low_rank() {
  for (const std::int64_t n : sizes()) {
    if (n < kColumns) continue;
    for (const int rank : {1, 4, 8}) {
      for (const int threads : thread_counts()) {
        add("low_rank_columns", Product::kColumnsOfQ, n, rank, threads);
        add("low_rank_rows", Product::kRowsOfP, n, rank, threads);
      }
      add("low_rank_elements", Product::kElements, n, rank, 1);
    }
  }
}

}  // namespace terngrad::bench
