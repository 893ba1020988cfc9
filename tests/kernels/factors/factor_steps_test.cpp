#include "kernels/factors/factor_steps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/factors/factor_draws.h"
#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/gradients.h"

namespace terngrad::factor_steps_test {
namespace {

using testing::bits_of;
using testing::gaussian;

constexpr std::uint64_t kSeed = 9;
constexpr DeviceStep kStep{4, nullptr};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
// The largest bfloat16, and a value that rounds above it.
constexpr float kLargest = 0x1.fep127f;
constexpr float kBeyond = 0x1.ff8p127f;

std::vector<float> drawn(std::int64_t first, std::size_t count) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(
        draw_factor_element({kSeed, 4, 0, DrawPurpose::kFactorInit}, static_cast<std::uint64_t>(first) + i));
  }
  return values;
}

TEST(FactorSteps, BeginWithColumnsThatWereKeptAndDrawOthers) {
  constexpr std::size_t kColumns = 70;
  std::vector<float> kept = gaussian(3 * kColumns, 1);
  for (std::size_t i = kColumns; i < 2 * kColumns; ++i) kept[i] = i % 2 == 0 ? 0.0f : -0.0f;
  kept[0] = -5.0f;
  kept[2 * kColumns] = 0x1.8p-140f;
  for (std::size_t i = 1; i < kColumns; ++i) kept[2 * kColumns + i] = static_cast<float>(i % 3) * 0x1p-149f;
  std::vector<float> q(kept.size());
  std::vector<float> fresh(2 * kColumns);
  const std::vector<FactorBegin> tasks = {
      {.kept = kept.data(), .q = q.data(), .rank = 3, .columns = kColumns, .draw_offset = 128},
      {.q = fresh.data(), .rank = 2, .columns = kColumns, .draw_offset = 640}};
  for (const int threads : {1, 2}) {
    Stream stream(Device::cpu(), threads);
    FactorSteps().begin(tasks, kSeed, kStep, stream);
    std::vector<float> expected = kept;
    for (std::size_t i = 0; i < kColumns; ++i) {
      expected[i] = std::ldexp(kept[i], -2);
      expected[2 * kColumns + i] = std::ldexp(kept[2 * kColumns + i], 140);
    }
    std::ranges::copy(drawn(128 + kColumns, kColumns), expected.begin() + kColumns);
    EXPECT_EQ(bits_of(q), bits_of(expected));
    EXPECT_EQ(bits_of(fresh), bits_of(drawn(640, 2 * kColumns)));
  }
}

TEST(FactorSteps, BringKeptColumnsToOneScale) {
  Stream stream(Device::cpu(), 1);
  for (const auto& [kept, begun] : {std::pair{0x1.8p127f, 1.5f}, {-0x1p-149f, -1.0f}, {1.0f, 1.0f}, {-1.99f, -1.99f}}) {
    const std::vector<float> column = {kept, 0.0f};
    std::vector<float> q(2);
    const FactorBegin task{.kept = column.data(), .q = q.data(), .rank = 1, .columns = 2};
    FactorSteps().begin({&task, 1}, kSeed, kStep, stream);
    EXPECT_EQ(q, (std::vector<float>{begun, 0}));
  }
}

struct Rounded {
  std::vector<float> values;
  float flag;
};

template <class Round>
Rounded rounded(std::vector<float> values, ElementType type, float flag, const Round& round) {
  const FactorRounding task{
      .values = values.data(), .count = static_cast<std::int64_t>(values.size()), .type = type, .flag = &flag};
  Stream stream(Device::cpu(), 1);
  FactorSteps steps;
  round(steps, std::span(&task, 1), stream);
  return {values, flag};
}
Rounded first(const std::vector<float>& values, ElementType type, float flag = 3) {
  return rounded(values, type, flag, [](auto& steps, auto tasks, auto& stream) { steps.round_first(tasks, stream); });
}
Rounded second(const std::vector<float>& values, ElementType type, float flag) {
  return rounded(values, type, flag, [](auto& steps, auto tasks, auto& stream) { steps.round_second(tasks, stream); });
}

TEST(FactorSteps, RoundsToWhatFactorsTravelAs) {
  const std::vector<float> values = gaussian(500, 3);
  EXPECT_EQ(bits_of(first(values, ElementType::kFloat32).values), bits_of(values));
  const std::vector<float> narrow = first(values, ElementType::kBfloat16).values;
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(narrow[i], from_bfloat16(to_bfloat16(values[i])));
  EXPECT_EQ(bits_of(second(values, ElementType::kBfloat16, 0).values), bits_of(narrow));
  const Rounded mean = rounded(values, ElementType::kBfloat16, kNan,
                               [](auto& steps, auto tasks, auto& stream) { steps.round_mean(tasks, stream); });
  EXPECT_EQ(bits_of(mean.values), bits_of(narrow));
  EXPECT_TRUE(std::isnan(mean.flag)) << "which is not looked at";
}

TEST(FactorSteps, FlagsWhatIsNotFiniteInItsType) {
  for (const float bad : {kInfinity, -kInfinity, kNan}) {
    for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
      EXPECT_TRUE(std::isnan(first({1, bad, 2}, type).flag));
      EXPECT_TRUE(std::isnan(second({1, bad, 2}, type, 0).flag));
    }
  }
  for (const float large : {kLargest, -kLargest}) EXPECT_EQ(first({large}, ElementType::kBfloat16).flag, 0);
  for (const float large : {kBeyond, -kBeyond}) {
    EXPECT_TRUE(std::isnan(first({large}, ElementType::kBfloat16).flag));
    EXPECT_EQ(first({large}, ElementType::kFloat32).flag, 0);
  }
}

TEST(FactorSteps, ASecondFactorIsZerosWhereTheFirstWasNotFinite) {
  const Rounded found = second({1, kNan, 2}, ElementType::kFloat32, kNan);
  EXPECT_EQ(found.values, (std::vector<float>{0, 0, 0}));
  EXPECT_TRUE(std::isnan(found.flag));
}

TEST(FactorSteps, KeepsUnlessTheStepIsSkipped) {
  const std::vector<float> from = gaussian(100, 5);
  Stream stream(Device::cpu(), 1);
  for (const std::uint32_t skip : {0u, 1u}) {
    std::vector<float> to(100, 7);
    const FactorMemoryTask task{from.data(), to.data(), 100};
    FactorSteps().update_memory({&task, 1}, &skip, stream);
    EXPECT_EQ(to, skip == 0 ? from : std::vector<float>(100, 7));
    FactorSteps().update_memory({&task, 1}, nullptr, stream);
    EXPECT_EQ(to, from);
  }
}

TEST(FactorSteps, RefusesAStepInDeviceMemoryOnTheCpu) {
  Stream stream;
  const std::uint64_t number = 0;
  EXPECT_THROW(FactorSteps().begin({}, kSeed, {0, &number}, stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::factor_steps_test
