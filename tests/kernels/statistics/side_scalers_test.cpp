#include "kernels/statistics/side_scalers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/gradients.h"
#include "support/narrow_gradients.h"
#include "support/reference.h"
#include "support/sanitized.h"
#include "support/simd_targets.h"

namespace terngrad::side_scalers_test {
namespace {

using testing::bits_of;

/// By definition, element by element.
SideMax side_max_of(std::span<const float> values) {
  SideMax max;
  for (const float value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    std::uint32_t& side = std::signbit(value) ? max.negative : max.positive;
    side = std::max(side, bits & 0x7fffffffu);
  }
  return max;
}

std::vector<float> scalers_of(std::span<const float> values, double c, ScalerRule rule, int num_threads = 1) {
  Layout layout;
  layout.add("values", {static_cast<std::int64_t>(values.size())});
  std::vector<float> flat(values.begin(), values.end());
  flat.resize(static_cast<std::size_t>(layout.flat_elements()));
  const TensorTable table(layout, flat.data());
  SideScalerPlan plan(whole_segments(layout));
  std::vector<float> out(2, -1.0f);
  Stream stream(Device::cpu(), num_threads);
  plan.run({&table, 1}, c, rule, out, stream);
  return out;
}

TEST(SideScalers, AreTheMaximaOfEachSideWithoutClipping) {
  EXPECT_EQ(scalers_of({{1, -3, 2, -0.5f}}, 0, ScalerRule::kPaper), (std::vector<float>{2, 3}));
  EXPECT_EQ(scalers_of({{1, 2, 0}}, 0, ScalerRule::kOriginal), (std::vector<float>{2, 0}));
  EXPECT_EQ(scalers_of({{-1, -0.0f}}, 0, ScalerRule::kPaper), (std::vector<float>{0, 1}));
}

TEST(SideScalers, AreClippedAtTheDeviationOfAllElements) {
  // Mean 0.5, mean square (16 + 4 * 1 + 1) / 6 = 3.5: variance 3.25.
  const std::vector<float> values = {4, -1, 1, -1, -1, 1};
  const auto cut = static_cast<float>(1.5 * std::sqrt(3.5 - 0.25));
  EXPECT_EQ(scalers_of(values, 1.5, ScalerRule::kPaper), (std::vector<float>{cut, 1}));
  EXPECT_EQ(scalers_of(values, 1.5, ScalerRule::kOriginal), (std::vector<float>{cut, cut}));
}

TEST(SideScalers, OfNothingAreZero) {
  EXPECT_EQ(bits_of(scalers_of({}, 2.5, ScalerRule::kPaper)), (std::vector<std::uint32_t>{0, 0}));
  EXPECT_EQ(bits_of(scalers_of({}, 2.5, ScalerRule::kOriginal)), (std::vector<std::uint32_t>{0, 0}));
}

TEST(SideScalers, OfASideThatIsNotFiniteAreTheCanonicalNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {infinity, nan, 0x1.8p126f}) {
    const auto positive = bits_of(scalers_of({{1, bad, -2}}, 0, ScalerRule::kPaper));
    EXPECT_EQ(positive, (std::vector<std::uint32_t>{0x7fc00000u, std::bit_cast<std::uint32_t>(2.0f)})) << bad;
    const auto negative = bits_of(scalers_of({{1, -bad, -2}}, 0, ScalerRule::kPaper));
    EXPECT_EQ(negative, (std::vector<std::uint32_t>{std::bit_cast<std::uint32_t>(1.0f), 0x7fc00000u})) << bad;
  }
}

TEST(SideScalers, BelowTheMinAreZero) {
  EXPECT_EQ(scalers_of({{0x1p-86f, -0x1p-87f}}, 0, ScalerRule::kPaper), (std::vector<float>{0x1p-86f, 0}));
}

TEST(SideScalers, FollowTheDefinitionAtEveryLengthAndAlignment) {
  std::vector<float> values = testing::gaussian(4100, 1);
  values[17] = -0.0f;
  values[18] = std::numeric_limits<float>::denorm_min();
  testing::for_each_target([&](const std::string& target) {
    for (std::size_t n = 0; n <= 4096; n += testing::kLengthStep) {
      const auto run = std::span<const float>(values).subspan(n % 4, n);
      ASSERT_EQ(cpu::chunk_side_max(run.data(), static_cast<std::int64_t>(n)), side_max_of(run)) << target << " " << n;
    }
    for (const float sign : {1.0f, -1.0f}) {  // one side only
      std::vector<float> side = values;
      for (float& value : side) value = std::copysign(value, sign);
      ASSERT_EQ(cpu::chunk_side_max(side.data(), 4096), side_max_of(std::span(side).first(4096))) << target;
    }
  });
}

TEST(SideScalers, FollowTheDefinitionForEverySliceOfEveryWorker) {
  Layout layout;
  layout.add("a", {70000});
  layout.add("empty", {0});
  layout.add("b", {3, 4097});
  std::vector<Slice> slices = whole_segments(layout);
  for (std::int64_t first = 0; first < 12288; first += 64) slices.push_back({2, first, 64});
  std::vector<std::vector<float>> flat;
  std::vector<TensorTable> tables;
  for (std::uint64_t worker = 0; worker < 2; ++worker) {
    flat.push_back(testing::gaussian(static_cast<std::size_t>(layout.flat_elements()), 10 + worker));
    tables.emplace_back(layout, flat.back().data());
  }
  SideScalerPlan plan(slices);
  for (const int num_threads : {1, 3}) {
    Stream stream(Device::cpu(), num_threads);
    for (const double c : {0.0, 1.5}) {
      for (const ScalerRule rule : {ScalerRule::kPaper, ScalerRule::kOriginal}) {
        std::vector<float> out(2 * tables.size() * slices.size());
        plan.run(tables, c, rule, out, stream);
        for (std::size_t i = 0; i < 2 * slices.size(); ++i) {
          const Slice& slice = slices[i % slices.size()];
          const std::span<const float> run(tables[i / slices.size()].slice(slice),
                                           static_cast<std::size_t>(slice.count));
          reference::Statistics statistics = reference::statistics(run);
          const SideMax max = side_max_of(run);
          statistics.max_bits = max.positive;
          ASSERT_EQ(bits_of(out[2 * i]),
                    bits_of(reference::scaler(statistics, slice.count, c, rule == ScalerRule::kOriginal)))
              << i;
          statistics.max_bits = max.negative;
          ASSERT_EQ(bits_of(out[2 * i + 1]),
                    bits_of(reference::scaler(statistics, slice.count, c, rule == ScalerRule::kOriginal)))
              << i;
        }
      }
    }
  }
}

TEST(SideScalers, OfNarrowElementsAreThoseOfTheWidened) {
  Layout layout;
  layout.add("a", {9001});
  SideScalerPlan plan(whole_segments(layout));
  Stream stream(Device::cpu(), 2);
  for (const ElementType type : testing::kNarrowTypes) {
    testing::NarrowGradient gradient =
        testing::narrow_gaussian(type, static_cast<std::size_t>(layout.flat_elements()), 5);
    const TensorTable narrow(layout, type, gradient.elements.data());
    const TensorTable wide(layout, gradient.widened.data());
    std::vector<float> found(2);
    std::vector<float> expected(2);
    plan.run({&narrow, 1}, 2.5, ScalerRule::kPaper, found, stream);
    plan.run({&wide, 1}, 2.5, ScalerRule::kPaper, expected, stream);
    EXPECT_EQ(bits_of(found), bits_of(expected));
    const std::vector<TensorTable> both = {narrow, wide};
    std::vector<float> of_both(4);
    EXPECT_THROW(plan.run(both, 0, ScalerRule::kPaper, of_both, stream), InvalidArgument);
  }
}

TEST(SideScalers, RefuseWhatTheyCannotMeasure) {
  Layout layout;
  layout.add("a", {10});
  std::vector<float> flat(static_cast<std::size_t>(layout.flat_elements()));
  const TensorTable table(layout, flat.data());
  SideScalerPlan plan(whole_segments(layout));
  Stream stream(Device::cpu(), 1);
  std::vector<float> out(2);
  EXPECT_THROW(plan.run({&table, 1}, 0, ScalerRule::kPaper, std::span(out).first(1), stream), InvalidArgument);
  EXPECT_THROW(plan.run({&table, 1}, 0, ScalerRule::kL2, out, stream), InvalidArgument);
  EXPECT_NO_THROW(plan.run({&table, 1}, 0, ScalerRule::kPaper, out, stream));
}

}  // namespace
}  // namespace terngrad::side_scalers_test
