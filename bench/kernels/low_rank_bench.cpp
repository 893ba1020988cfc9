// Products of a matrix with thin factors, and P Q^T again, of a matrix with as many columns as AlexNet's largest
// layers.
#include "kernels/factors/low_rank.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/device_memory.h"
#include "bench/gradients.h"
#include "bench/rows.h"

namespace terngrad::bench {
namespace {

constexpr std::int64_t kColumns = 4096;
constexpr float kP = 0.5f;
constexpr float kQ = 0.25f;

enum class Product { kColumnsOfQ, kRowsOfP, kElements };

/// True if the last element of a result is right, in any order of sums.
bool is_right(Product product, std::int64_t rows, int rank, float found) {
  const std::span<const float> values = gradient(rows * kColumns);
  double sum = 0;
  double size = 0;
  const auto add = [&](double term) {
    sum += term;
    size += std::fabs(term);
  };
  if (product == Product::kColumnsOfQ) {
    for (const float value : values.last(kColumns)) add(static_cast<double>(value) * static_cast<double>(kQ));
  } else if (product == Product::kRowsOfP) {
    for (std::size_t i = kColumns - 1; i < values.size(); i += kColumns) {
      add(static_cast<double>(values[i]) * static_cast<double>(kP));
    }
  } else {
    add(static_cast<double>(kP) * static_cast<double>(kQ) * rank);
  }
  return std::fabs(static_cast<double>(found) - sum) <= 1e-6 * size;
}

/// The matrix is read or written once: the ceiling is that of reading. Sums along columns on a GPU also write and read
/// those of their slots, which are not counted.
Subject low_rank(Product product, std::int64_t rows, int rank) {
  const auto prepare = [=](Stream& stream) {
    struct Set {
      Input<float> m;
      Buffer<float> p, q, out;
      LowRankProducts products;
    };
    const auto factor = [&](std::int64_t count, float value) {
      const std::vector<float> values(static_cast<std::size_t>(count), value);
      return on_device(std::span(values), stream);
    };
    const bool writes = product == Product::kElements;
    const auto set = std::make_shared<Set>(Set{{gradient(writes ? 0 : rows * kColumns), stream},
                                               factor(rank * rows, kP),
                                               factor(rank * kColumns, kQ),
                                               Buffer<float>(writes ? rows * kColumns : 0, stream.device()),
                                               LowRankProducts(stream.device())});
    const FactorTask task{.m = {set->m.data(), rows, kColumns}, .rank = rank, .p = set->p.data(), .q = set->q.data()};
    const LowRankTask written{
        .sizes = {rows, kColumns, rank}, .p = set->p.data(), .q = set->q.data(), .out = set->out.data()};
    const auto run = [=, &stream] {
      if (product == Product::kColumnsOfQ) set->products.times_columns({&task, 1}, stream);
      if (product == Product::kRowsOfP) set->products.times_rows({&task, 1}, stream);
      if (product == Product::kElements) set->products.write_products({&written, 1}, nullptr, stream);
    };
    const auto check = [=, &stream] {
      const Buffer<float>& result = product == Product::kColumnsOfQ ? set->p : writes ? set->out : set->q;
      return is_right(product, rows, rank, on_host(result.span().last(1), stream)[0]);
    };
    return Work{run, check};
  };
  const auto elements = static_cast<double>(rows * kColumns);
  return {.bytes = 4 * elements,
          .elements = elements,
          .num_launches = product == Product::kRowsOfP ? 2 : 1,
          .prepare = prepare};
}

const Registration registration(__FILE__, [](Rows& rows) {
  for (const int rank : {1, 4, 8}) {
    for (const auto& [name, product] :
         {std::pair("low_rank_columns_r", Product::kColumnsOfQ), std::pair("low_rank_rows_r", Product::kRowsOfP),
          std::pair("low_rank_elements_r", Product::kElements)}) {
      rows.add(name + std::to_string(rank), "f32",
               [=, product = product](std::int64_t n) { return low_rank(product, n / kColumns, rank); },
               {.min_elements = kColumns, .one_thread = product == Product::kElements});
    }
  }
});

}  // namespace
}  // namespace terngrad::bench
