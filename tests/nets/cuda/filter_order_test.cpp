#include "nets/cuda/filter_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "support/cuda_device.h"
#include "support/guarded_array.h"
#include "tests/nets/reference_net.h"

namespace terngrad::cuda::filter_order_test {
namespace {

using terngrad::testing::GuardedArray;
using CudaFilterOrder = terngrad::testing::CudaTest;

std::vector<float> transposed(const std::vector<float>& matrix, std::size_t rows, std::size_t columns) {
  std::vector<float> result(matrix.size());
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c) result[c * rows + r] = matrix[r * columns + c];
  return result;
}

const std::vector<std::pair<int, int>> kShapes = {{1, 1},  {25, 20}, {500, 50}, {32, 32},  {33, 31},
                                                  {1, 70}, {70, 1},  {75, 64},  {1200, 65}};

TEST_F(CudaFilterOrder, FiltersAreTheTransposedWeights) {
  Stream stream(Device::cuda());
  for (const auto& [rows, columns] : kShapes) {
    const std::vector<float> weights = test::random_floats(static_cast<std::size_t>(rows * columns), 1);
    // An exact buffer: reads past its end are errors, even if the values are not used.
    const Buffer<float> from = terngrad::testing::to_device<float>(weights, stream);
    GuardedArray<float> to(std::vector<float>(weights.size(), 77.0f), 3, stream);
    to_filters(from.data(), to.data(), rows, columns, stream);
    ASSERT_EQ(to.values(), transposed(weights, static_cast<std::size_t>(rows), static_cast<std::size_t>(columns)))
        << rows << " x " << columns;
  }
}

TEST_F(CudaFilterOrder, GradientsComeBackForEveryWorker) {
  Stream stream(Device::cuda());
  constexpr std::size_t kWorkers = 3;
  constexpr std::size_t kGap = 5;
  for (const auto& [rows, columns] : kShapes) {
    const auto size = static_cast<std::size_t>(rows * columns);
    const std::vector<float> filters = test::random_floats(kWorkers * size, 2);
    const std::vector<float> before(kWorkers * (size + kGap), 77.0f);
    std::vector<float> expected = before;
    for (std::size_t w = 0; w < kWorkers; ++w) {
      const auto first = filters.begin() + static_cast<std::ptrdiff_t>(w * size);
      const std::vector<float> gradient = transposed({first, first + static_cast<std::ptrdiff_t>(size)},
                                                     static_cast<std::size_t>(columns), static_cast<std::size_t>(rows));
      std::copy(gradient.begin(), gradient.end(), expected.begin() + static_cast<std::ptrdiff_t>(w * (size + kGap)));
    }
    GuardedArray<float> from(filters, 0, stream);
    GuardedArray<float> to(before, 1, stream);
    from_filters(from.data(), rows, columns, static_cast<int>(kWorkers),
                 {to.data(), static_cast<std::int64_t>(size + kGap)}, stream);
    ASSERT_EQ(to.values(), expected) << rows << " x " << columns;
  }
}

}  // namespace
}  // namespace terngrad::cuda::filter_order_test
