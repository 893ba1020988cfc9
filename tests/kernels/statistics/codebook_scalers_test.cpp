#include "kernels/statistics/codebook_scalers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/gradients.h"
#include "support/reference.h"
#include "support/simd_targets.h"

namespace terngrad::codebook_scalers_test {
namespace {

using testing::bits_of;

constexpr int kLevels[] = {2, 3, 4, 8, 16};
constexpr CodebookScale kScales[] = {CodebookScale::kUnbiased, CodebookScale::kLeast};

/// Unit and scaler, by definition.
std::pair<float, float> by_definition(std::span<const float> values, const Codebook& book, CodebookScale scale) {
  const reference::Statistics of_values = reference::statistics(values);
  const auto n = static_cast<double>(values.size());
  const auto unit = static_cast<float>(book.unit * std::sqrt(of_values.sum_squares / n));
  if (!(unit >= 0x1p-86f)) return {0.0f, 0.0f};
  std::vector<float> levels;
  std::vector<float> products;
  for (const float value : values) {
    int k = 0;
    while (k + 1 < book.num_magnitudes && std::fabs(value) >= book.thresholds[k] * unit) ++k;
    levels.push_back(book.values[k]);
    products.push_back(std::fabs(value) * book.values[k]);
  }
  const double sum = reference::statistics(products).sum;
  return {unit,
          static_cast<float>(scale == CodebookScale::kUnbiased ? of_values.sum_squares / sum
                                                               : sum / reference::statistics(levels).sum_squares)};
}

/// Unit and scaler of one run.
std::pair<float, float> found_for(std::span<const float> values, int levels, CodebookScale scale) {
  Layout layout;
  layout.add("values", {static_cast<std::int64_t>(values.size())});
  std::vector<float> flat(values.begin(), values.end());
  flat.resize(static_cast<std::size_t>(layout.flat_elements()));
  const TensorTable table(layout, flat.data());
  float unit = -1;
  float scaler = -1;
  Stream stream(Device::cpu(), 1);
  CodebookScalerPlan(whole_segments(layout), codebook(levels), scale)
      .run({&table, 1}, {&unit, 1}, {&scaler, 1}, stream);
  return {unit, scaler};
}

double density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double above(double x) { return std::erfc(x / std::numbers::sqrt2) / 2; }

TEST(Codebook, HasTheLeastErrorForAGaussian) {
  for (const int levels : kLevels) {
    const Codebook book = codebook(levels);
    // With 2 and 3 levels the scale of the values is free: the unit stands for it.
    const double v = levels == 2 ? 2 * density(0) : book.unit;
    for (int k = 0; k < book.num_magnitudes; ++k) {
      const bool is_zero = levels == 3 && k == 0;
      const double from = k == 0 ? 0 : v * static_cast<double>(book.thresholds[k - 1]);
      const bool is_last = k + 1 == book.num_magnitudes;
      const double to = is_last ? 40 : v * static_cast<double>(book.thresholds[k]);
      const double mean = is_zero ? 0 : (density(from) - density(to)) / (above(from) - above(to));
      EXPECT_NEAR(v * static_cast<double>(book.values[k]), mean, 1e-6) << levels << " levels, " << k;
      if (!is_last) {
        EXPECT_NEAR(2 * book.thresholds[k], book.values[k] + book.values[k + 1], 1e-6) << levels << " levels, " << k;
      }
    }
  }
  for (const int levels : {0, 1, 5, 32}) EXPECT_FALSE(has_codebook(levels));
}

TEST(CodebookScalers, AreThoseOfTheDefinitionOnEveryTarget) {
  for (const std::size_t n : {1u, 2u, 15u, 17u, 64u, 513u, 4095u, 4096u}) {
    const std::vector<float> values = testing::gaussian(n, n, 0.3);
    for (const int levels : kLevels) {
      for (const CodebookScale scale : kScales) {
        const auto [unit, scaler] = by_definition(values, codebook(levels), scale);
        testing::for_each_target([&](const std::string& target) {
          const auto found = found_for(values, levels, scale);
          EXPECT_EQ(bits_of(found.first), bits_of(unit)) << target << ", " << levels << " levels, " << n;
          EXPECT_EQ(bits_of(found.second), bits_of(scaler)) << target << ", " << levels << " levels, " << n;
        });
      }
    }
  }
}

TEST(CodebookScalers, AreZeroForWhatIsTooSmallAndNanForWhatIsNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const int levels : kLevels) {
    for (const CodebookScale scale : kScales) {
      for (const float small : {0.0f, -0.0f, 1e-45f, 0x1p-90f}) {
        EXPECT_EQ(found_for(std::vector<float>(70, small), levels, scale), std::pair(0.0f, 0.0f)) << small;
      }
      for (const float large : {nan, infinity, 3e38f}) {
        std::vector<float> values(70, large == 3e38f ? large : 1.0f);  // 3e38 passes 2^126 where all elements have it
        values[66] = -large;
        const auto [unit, scaler] = found_for(values, levels, scale);
        EXPECT_TRUE(std::isnan(scaler)) << large << ", " << levels;
        EXPECT_EQ(bits_of(unit), bits_of(scaler));
      }
    }
  }
}

TEST(CodebookScalers, AreNanIfOnlyTheScalerOrTheProductsAreTooLarge) {
  // The unit is 3e38 / 64, a product of 3e38 with the largest level overflows.
  std::vector<float> one_large(4096, 0.0f);
  one_large[0] = 3e38f;
  EXPECT_TRUE(std::isnan(found_for(one_large, 16, CodebookScale::kUnbiased).second));
  // With 2 levels S is 64 times the unit, above 2^126.
  one_large[0] = 0x1.8p126f;
  EXPECT_TRUE(std::isnan(found_for(one_large, 2, CodebookScale::kUnbiased).second));
  EXPECT_FALSE(std::isnan(found_for(one_large, 2, CodebookScale::kLeast).second));
}

TEST(CodebookScalers, AreThoseOfEveryRunOfEveryWorkerForAnyNumberOfThreads) {
  Layout layout;
  layout.add("a", {9000});
  layout.add("empty", {0});
  layout.add("b", {70});
  std::vector<Slice> runs;
  for (std::int64_t first = 0; first < 9000; first += 4096)
    runs.push_back({0, first, std::min<std::int64_t>(4096, 9000 - first)});
  runs.push_back({2, 0, 64});
  runs.push_back({2, 64, 6});
  std::vector<std::vector<float>> flat;
  std::vector<TensorTable> workers;
  for (std::uint64_t worker = 0; worker < 3; ++worker) {
    flat.push_back(testing::gaussian(static_cast<std::size_t>(layout.flat_elements()), worker));
  }
  for (std::vector<float>& values : flat) workers.emplace_back(layout, values.data());
  for (const int num_threads : {1, 3}) {
    Stream stream(Device::cpu(), num_threads);
    std::vector<float> units(workers.size() * runs.size());
    std::vector<float> scalers(units.size());
    CodebookScalerPlan(runs, codebook(4), CodebookScale::kUnbiased).run(workers, units, scalers, stream);
    for (std::size_t i = 0; i < units.size(); ++i) {
      const Slice& run = runs[i % runs.size()];
      const std::span<const float> values(workers[i / runs.size()].slice(run), static_cast<std::size_t>(run.count));
      const auto expected = by_definition(values, codebook(4), CodebookScale::kUnbiased);
      EXPECT_EQ(std::pair(units[i], scalers[i]), expected) << i;
    }
  }
}

TEST(CodebookScalers, RefuseWhatTheyCannotHonour) {
  Layout layout;
  layout.add("a", {5000});
  EXPECT_THROW(CodebookScalerPlan(whole_segments(layout), codebook(4), CodebookScale::kLeast), InvalidArgument);
  CodebookScalerPlan plan({{0, 0, 4096}}, codebook(4), CodebookScale::kLeast);
  std::vector<float> values(static_cast<std::size_t>(layout.flat_elements()));
  const TensorTable table(layout, values.data());
  Stream stream(Device::cpu(), 1);
  std::vector<float> one(1);
  std::vector<float> two(2);
  EXPECT_THROW(plan.run({&table, 1}, one, two, stream), InvalidArgument);
  EXPECT_THROW(plan.run({&table, 1}, two, one, stream), InvalidArgument);
  const TensorTable narrow(layout, ElementType::kBfloat16, values.data());
  EXPECT_THROW(plan.run({&narrow, 1}, one, one, stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::codebook_scalers_test
