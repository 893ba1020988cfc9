// Reference of the statistics by sign.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/statistics/signed_statistics.h"
#include "support/gradients.h"
#include "support/reference.h"

namespace terngrad::testing {

/// Magnitudes of the elements of one sign; the other elements are 0.
inline std::vector<float> side_of(std::span<const float> values, bool negative) {
  std::vector<float> side;
  for (const float value : values) side.push_back(std::signbit(value) == negative ? std::fabs(value) : 0.0f);
  return side;
}

inline std::uint64_t num_negative_of(std::span<const float> values) {
  return static_cast<std::uint64_t>(std::ranges::count_if(values, [](float value) { return std::signbit(value); }));
}

/// Statistics of one group.
inline SignedStatistics reference_sides(std::span<const float> values) {
  const reference::Statistics positive = reference::statistics(side_of(values, false));
  const reference::Statistics negative = reference::statistics(side_of(values, true));
  return {positive.sum, negative.sum, num_negative_of(values), positive.max_bits, negative.max_bits};
}

/// Sum of a column: blocks of 64 rows in order, then 256 slots in a tree.
inline double reference_column_sum(std::span<const float> column) {
  std::vector<double> blocks((column.size() + 63) / 64, 0.0);
  for (std::size_t row = 0; row < column.size(); ++row) blocks[row / 64] += static_cast<double>(column[row]);
  double slots[256] = {};
  for (std::size_t block = 0; block < blocks.size(); ++block) slots[block % 256] += blocks[block];
  for (const std::size_t half : {128u, 64u, 32u, 16u, 8u, 4u, 2u, 1u}) {
    for (std::size_t j = 0; j < half; ++j) slots[j] = slots[j] + slots[j + half];
  }
  return slots[0];
}

/// Statistics of each column of a matrix with `columns` columns.
inline std::vector<SignedStatistics> reference_columns(std::span<const float> values, std::size_t columns) {
  std::vector<SignedStatistics> result;
  for (std::size_t c = 0; c < columns; ++c) {
    std::vector<float> column;
    for (std::size_t i = c; i < values.size(); i += columns) column.push_back(values[i]);
    const std::vector<float> positive = side_of(column, false);
    const std::vector<float> negative = side_of(column, true);
    result.push_back({reference_column_sum(positive), reference_column_sum(negative), num_negative_of(column),
                      reference::statistics(positive).max_bits, reference::statistics(negative).max_bits});
  }
  return result;
}

/// Tensors for all kinds of runs: chunks and blocks of rows, one and many, complete and ragged.
struct SidesOfRuns {
  Layout layout;
  std::vector<SignedRun> runs;
  std::vector<float> flat;
  std::vector<SignedStatistics> expected;

  explicit SidesOfRuns(std::uint64_t seed) {
    layout.add("few", {7});
    layout.add("empty", {0, 5});
    layout.add("long", {40 * kChunkElements + 5});
    layout.add("matrix", {130, 300});
    layout.add("tall", {64 * 300 + 3, 2});
    layout.add("wide", {1, 77});
    layout.add("blocks", {5000});
    flat = gaussian(static_cast<std::size_t>(layout.flat_elements()), seed);
    for (std::size_t i = 0; i < flat.size(); i += 9) flat[i] = i % 2 == 0 ? 0.0f : -0.0f;
    for (int index = 0; index < 6; ++index) {
      const Segment& segment = layout.segment(index);
      runs.push_back({{index, 0, segment.num_elements}, segment.shape.size() > 1 ? segment.shape.back() : 0});
    }
    for (std::int64_t first = 0; first < 5000; first += 192) {
      runs.push_back({{6, first, std::min<std::int64_t>(192, 5000 - first)}, 0});
    }
    const TensorTable table(layout, flat.data());
    for (const SignedRun& run : runs) {
      if (run.slice.count == 0) continue;
      const std::span<const float> values(table.slice(run.slice), static_cast<std::size_t>(run.slice.count));
      if (run.columns == 0) {
        expected.push_back(reference_sides(values));
        continue;
      }
      const auto columns = reference_columns(values, static_cast<std::size_t>(run.columns));
      expected.insert(expected.end(), columns.begin(), columns.end());
    }
  }
};

}  // namespace terngrad::testing
