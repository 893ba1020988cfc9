#include "bench/sparse_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "kernels/sparse/top_k.h"

namespace terngrad::bench {

std::vector<float> kept_elements(const SparseShape& shape, std::span<const float> values) {
  std::vector<float> kept(values.size());
  std::vector<float> magnitudes;
  const std::int64_t run = shape.format == SparseFormat::kLocal ? shape.block_elements : shape.num_elements;
  for (std::int64_t first = 0; first < shape.num_elements; first += run) {
    const std::int64_t count = std::min(run, shape.num_elements - first);
    const std::int64_t k = top_k_count(count, shape.density);
    magnitudes.clear();
    for (std::int64_t i = first; i < first + count; ++i)
      magnitudes.push_back(std::fabs(values[static_cast<std::size_t>(i)]));
    const auto last = magnitudes.begin() + static_cast<std::ptrdiff_t>(k - 1);
    std::nth_element(magnitudes.begin(), last, magnitudes.end(), std::greater<>());
    const float least = *last;
    std::int64_t num_equal = k - std::count_if(magnitudes.begin(), last, [&](float m) { return m > least; });
    for (std::int64_t i = first; i < first + count; ++i) {
      const float value = values[static_cast<std::size_t>(i)];
      const float magnitude = std::fabs(value);
      if (magnitude > least || (magnitude == least && num_equal-- > 0)) kept[static_cast<std::size_t>(i)] = value;
    }
  }
  return kept;
}

bool holds(const SparseShape& shape, std::span<const std::uint8_t> payload, std::span<const float> expected) {
  std::vector<std::uint32_t> places;
  std::vector<float> values;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == 0) continue;  // so few in the gradient that none is kept
    places.push_back(static_cast<std::uint32_t>(i));
    values.push_back(expected[i]);
  }
  std::vector<std::uint64_t> words(static_cast<std::size_t>((max_sparse_bytes(shape) + 7) / 8));
  const auto bytes =
      static_cast<std::size_t>(write_sparse(shape, places, values, reinterpret_cast<std::uint8_t*>(words.data())));
  return payload.size() >= bytes && std::memcmp(payload.data(), words.data(), bytes) == 0;
}

SparseShape sparse_shape(std::int64_t n, double density, std::int64_t block) {
  return {.format = block == 0 ? SparseFormat::kRuns : SparseFormat::kLocal,
          .num_elements = n,
          .density = density,
          .block_elements = block};
}

}  // namespace terngrad::bench
