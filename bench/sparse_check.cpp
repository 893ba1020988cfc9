#include "bench/sparse_check.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "kernels/sparse/top_k.h"

namespace terngrad::bench {

std::vector<float> kept_by_sorting(const SparseShape& shape, std::span<const float> values) {
  std::vector<float> kept(values.size());
  const std::int64_t run = shape.format == SparseFormat::kLocal ? shape.block_elements : shape.num_elements;
  for (std::int64_t first = 0; first < shape.num_elements; first += run) {
    const std::int64_t count = std::min(run, shape.num_elements - first);
    std::vector<std::size_t> places(static_cast<std::size_t>(count));
    std::iota(places.begin(), places.end(), static_cast<std::size_t>(first));
    std::ranges::stable_sort(places, std::ranges::greater(), [&](std::size_t i) { return std::fabs(values[i]); });
    places.resize(static_cast<std::size_t>(top_k_count(count, shape.density)));
    for (const std::size_t place : places) kept[place] = values[place];
  }
  return kept;
}

bool holds(const SparseShape& shape, std::span<const std::uint8_t> payload, std::span<const float> expected) {
  std::vector<float> found(expected.size());
  add_sparse(shape, payload, 0, found);
  return std::ranges::equal(found, expected);
}

SparseShape sparse_shape(std::int64_t n, double density, std::int64_t block) {
  return {.format = block == 0 ? SparseFormat::kRuns : SparseFormat::kLocal,
          .num_elements = n,
          .density = density,
          .block_elements = block};
}

}  // namespace terngrad::bench
