#include "kernels/statistics/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/gradients.h"
#include "support/reference.h"
#include "support/sanitized.h"
#include "support/simd_targets.h"

namespace terngrad::statistics_test {
namespace {

using testing::bits_of;

void expect_reference(std::span<const float> values, const Statistics& found, const std::string& what,
                      SummedAs summed = SummedAs::kValues) {
  const reference::Statistics expected = reference::statistics(values, summed == SummedAs::kMagnitudes);
  ASSERT_EQ(bits_of(found.sum), bits_of(expected.sum)) << what;
  ASSERT_EQ(bits_of(found.sum_squares), bits_of(expected.sum_squares)) << what;
  ASSERT_EQ(found.max_bits, expected.max_bits) << what;
  ASSERT_EQ(found.reserved, 0u) << what;
}

TEST(Statistics, FollowTheTreeAtEveryLength) {
  const std::vector<float> values = testing::gaussian(4100, 1);
  testing::for_each_target([&](const std::string& target) {
    Stream stream(Device::cpu(), 1);
    for (std::int64_t n = 0; n <= 4100; n += testing::kLengthStep) {
      const auto run = std::span(values).first(static_cast<std::size_t>(n));
      expect_reference(run, measure(run, stream), target + ", length " + std::to_string(n));
    }
  });
}

TEST(Statistics, AddUpMagnitudesInTheSameTree) {
  const std::vector<float> values = testing::gaussian(300 * kChunkElements + 77, 5);
  testing::for_each_target([&](const std::string& target) {
    Stream stream(Device::cpu(), 2);
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{513}, std::size_t{4095},
                                std::size_t{4097}, values.size()}) {
      const auto run = std::span(values).first(n);
      expect_reference(run, measure(run, stream, SummedAs::kMagnitudes), target + ", length " + std::to_string(n),
                       SummedAs::kMagnitudes);
    }
  });
}

TEST(Statistics, FollowTheTreeAroundChunksAndSlots) {
  // 300 chunks: more than the 256 slots.
  const std::int64_t longest = 300 * kChunkElements + 77;
  const std::vector<float> values = testing::gaussian(static_cast<std::size_t>(longest), 2);
  testing::for_each_target([&](const std::string& target) {
    for (const int threads : testing::few({1, 4, 2, 3})) {
      Stream stream(Device::cpu(), threads);
      std::vector<std::int64_t> lengths;
      for (const std::int64_t chunks : testing::few<std::int64_t>({1, 64, 2, 3, 256})) {
        for (const std::int64_t off : {-1, 0, 1}) lengths.push_back(chunks * kChunkElements + off);
      }
      lengths.push_back(64 * kChunkElements + 1234);
      if (threads == 1 || threads == 4) lengths.push_back(longest);
      for (const std::int64_t n : lengths) {
        const auto run = std::span(values).first(static_cast<std::size_t>(n));
        expect_reference(run, measure(run, stream),
                         target + ", length " + std::to_string(n) + ", threads " + std::to_string(threads));
      }
    }
  });
}

TEST(Statistics, LargestBitsAreThoseOfTheStatistics) {
  std::vector<float> values = testing::gaussian(40 * kChunkElements + 3, 6);
  const float hostile[] = {0.0f,
                           -0.0f,
                           -0x1p-149f,
                           -std::numeric_limits<float>::max(),
                           -std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN()};
  Layout layout;
  layout.add("all", {static_cast<std::int64_t>(values.size())});
  StatisticsPlan plan({{0, 0, 4096}, {0, 4096, 0}, {0, 8192, 38 * kChunkElements + 3}});
  const TensorTable table(layout, values.data());
  Stream stream(Device::cpu(), 2);
  testing::for_each_target([&](const std::string& target) {
    for (const float value : hostile) {
      for (const std::size_t at : {std::size_t{4095}, values.size() - 20, values.size() - 1}) {
        values[at] = value;
        std::vector<Statistics> expected(3);
        plan.run(table, expected, stream);
        std::vector<std::uint32_t> found(3);
        plan.largest_bits(table, found, stream);
        for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(found[i], expected[i].max_bits) << target << ' ' << value;
        values[at] = 1;
      }
    }
  });
}

TEST(Statistics, DoNotDependOnTheAlignment) {
  const std::vector<float> values = testing::gaussian(9000, 3);
  testing::for_each_target([&](const std::string& target) {
    Stream stream(Device::cpu(), 1);
    for (std::size_t start = 0; start < 16; ++start) {
      std::vector<float> moved(start + values.size());
      std::copy(values.begin(), values.end(), moved.begin() + static_cast<std::ptrdiff_t>(start));
      expect_reference(values, measure(std::span(moved).subspan(start), stream), target);
    }
  });
}

TEST(Statistics, CountChunksFromTheSliceStart) {
  const std::vector<float> values = testing::gaussian(30000, 4);
  Layout layout;
  layout.add("a", {10000});
  layout.add("b", {20000});
  std::vector<float> flat(static_cast<std::size_t>(layout.flat_elements()), 7.0f);  // padding, which must be ignored
  const TensorTable table(layout, flat.data());
  std::copy_n(values.begin(), 10000, table.tensor(0));
  std::copy_n(values.begin() + 10000, 20000, table.tensor(1));
  const std::vector<Slice> slices = {{0, 0, 0}, {1, 64, 10000}, {0, 0, 10000},
                                     {1, 0, 0}, {1, 19999, 1},  {0, 5000, 5000}};
  StatisticsPlan plan(slices);
  for (const int threads : {1, 2, 3, 4}) {
    Stream stream(Device::cpu(), threads);
    std::vector<Statistics> found(slices.size());
    plan.run(table, found, stream);
    for (std::size_t i = 0; i < slices.size(); ++i) {
      expect_reference({table.slice(slices[i]), static_cast<std::size_t>(slices[i].count)}, found[i],
                       "slice " + std::to_string(i));
    }
  }
}

TEST(Statistics, LieWithinRoundingErrorOfExactSums) {
  for (const std::size_t n : {1u, 5u, 4096u, 100000u}) {
    const std::vector<float> values = testing::gaussian(n, n);
    long double sum = 0;
    long double squares = 0;
    long double magnitudes = 0;
    for (const float value : values) {
      sum += static_cast<long double>(value);
      magnitudes += std::fabs(static_cast<long double>(value));
      squares += static_cast<long double>(value) * static_cast<long double>(value);
    }
    Stream stream(Device::cpu(), 1);
    const Statistics found = measure(values, stream);
    // Each element passes through at most 32 + 3 + 4 + ceil(chunks / 256) + 8 additions with errors of 2^-53 of the
    // magnitudes; the error of long double is 2^-11 of that.
    const long double bound = 60 * std::ldexp(1.0L, -53);
    EXPECT_LE(std::fabs(static_cast<long double>(found.sum) - sum), bound * magnitudes) << n;
    EXPECT_LE(std::fabs(static_cast<long double>(found.sum_squares) - squares), bound * squares) << n;
  }
}

TEST(Statistics, OfNothingAreZero) {
  Stream stream(Device::cpu(), 1);
  EXPECT_EQ(measure({}, stream), Statistics{});
}

TEST(Statistics, KeepDenormalsAndTheSignOfZeroDoesNotCount) {
  const float denormal = std::numeric_limits<float>::denorm_min();
  const std::vector<float> values = {-0.0f, denormal, -0.0f};
  testing::for_each_target([&](const std::string&) {
    Stream stream(Device::cpu(), 1);
    const Statistics found = measure(values, stream);
    EXPECT_EQ(found.sum, std::ldexp(1.0, -149));
    EXPECT_EQ(found.sum_squares, std::ldexp(1.0, -298));
    EXPECT_EQ(found.max_abs(), denormal);
  });
}

TEST(Statistics, OfHugeElementsStayFinite) {
  const std::vector<float> values(5000, std::numeric_limits<float>::max());
  Stream stream(Device::cpu(), 1);
  const Statistics found = measure(values, stream);
  EXPECT_FALSE(found.is_nonfinite());
  EXPECT_TRUE(std::isfinite(found.sum_squares));
}

TEST(Statistics, FlagNanAndInfinityAnywhere) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::signaling_NaN()}) {
    testing::for_each_target([&](const std::string& target) {
      Stream stream(Device::cpu(), 1);
      for (const std::size_t n : {1u, 15u, 16u, 17u, 513u, 4095u, 4096u, 4097u}) {
        for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
          std::vector<float> values(n, 1.0f);
          values[at] = bad;
          ASSERT_TRUE(measure(values, stream).is_nonfinite()) << target << ", " << at << " of " << n;
        }
      }
    });
  }
}

TEST(Statistics, RankNanAboveInfinityAboveFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Stream stream(Device::cpu(), 1);
  const std::vector<float> with_infinity = {1, -infinity, 3};
  const std::vector<float> with_both = {infinity, -nan, 3};
  EXPECT_EQ(measure(with_infinity, stream).max_bits, 0x7f800000u);
  EXPECT_EQ(measure(with_both, stream).max_bits, 0x7fc00000u);
}

TEST(Statistics, CombineAddsAndCompares) {
  const Statistics both = combine({1, 2, 5, 0}, {10, 20, 3, 0});
  EXPECT_EQ(both, (Statistics{11, 22, 5, 0}));
}

TEST(StatisticsPlan, RefusesAnotherNumberOfResults) {
  Layout layout;
  layout.add("a", {5});
  std::vector<float> flat(16);
  StatisticsPlan plan(whole_segments(layout));
  std::vector<Statistics> two(2);
  Stream stream(Device::cpu(), 1);
  EXPECT_THROW(plan.run(TensorTable(layout, flat.data()), two, stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::statistics_test
