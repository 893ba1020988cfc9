#include "kernels/codes/rotate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/slice.h"
#include "support/bits.h"
#include "support/codes/rotate_cases.h"
#include "support/gradients.h"
#include "support/sanitized.h"
#include "support/simd_targets.h"

namespace terngrad::rotate_test {
namespace {

using testing::bits_of;
using testing::reference_rotation;
using testing::RotateCase;
using testing::rotated;

constexpr std::int64_t kRuns[] = {64, 128, 256, 512, 1024, 2048, 4096};
constexpr Rotation kRotations[] = {Rotation::kForward, Rotation::kBackward};

double norm_of(const std::vector<float>& x) {
  double squares = 0;
  for (const float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

TEST(Rotator, MatchesTheDefinitionForEveryRunAndTail) {
  const std::vector<float> all = testing::gaussian(3 * 4096 + 4095, 1);
  std::vector<std::size_t> lengths = {4095, 4096, 4097, 8191, all.size()};
  for (std::size_t n = 0; n < 200; n += static_cast<std::size_t>(testing::scaled(1, 17))) lengths.push_back(n);
  for (std::size_t n = 200; n < 4096; n += static_cast<std::size_t>(testing::scaled(97, 997))) lengths.push_back(n);
  for (const std::int64_t run : kRuns) {
    for (const Rotation rotation : kRotations) {
      for (const std::size_t n : lengths) {
        const std::vector<float> x(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n));
        for (const TailRotation tails : {TailRotation::kOnce, TailRotation::kTwice}) {
          const RotateCase c{.run = run, .first = 4096, .draw_offset = n % 3 == 0 ? 64 : 128, .tails = tails};
          const auto expected = bits_of(reference_rotation(c, x, rotation));
          testing::for_each_target([&](const std::string& target) {
            ASSERT_EQ(bits_of(rotated(c, x, rotation)), expected) << target << ", " << n << " elements, run " << run;
          });
          ASSERT_EQ(bits_of(rotated(c, x, rotation, 3)), expected) << n << " elements, run " << run;
        }
      }
    }
  }
}

TEST(Rotator, KeepsTheNormAndIsItsOwnInverse) {
  for (const std::int64_t run : kRuns) {
    for (const std::size_t n : {1u, 10u, 63u, 4096u, 9000u, 20000u}) {
      std::vector<float> x = testing::laplace(n, static_cast<std::uint64_t>(run));
      x[n / 2] = 1000;
      const RotateCase c{.run = run, .tails = TailRotation::kTwice};
      const std::vector<float> y = rotated(c, x, Rotation::kForward);
      EXPECT_NEAR(norm_of(y) / norm_of(x), 1, 1e-6) << run << ", " << n;
      const std::vector<float> back = rotated(c, y, Rotation::kBackward);
      for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(back[i], x[i], 1000 * 1e-6) << run << ", " << n << ", " << i;
    }
  }
}

TEST(Rotator, SpreadsAUnitVectorEvenly) {
  for (const std::int64_t run : kRuns) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{63}, static_cast<std::size_t>(run) + 5}) {
      std::vector<float> x(static_cast<std::size_t>(2 * run));
      x[at] = 1;
      const std::vector<float> y = rotated({.run = run}, x, Rotation::kForward);
      const std::size_t begin = at / static_cast<std::size_t>(run) * static_cast<std::size_t>(run);
      for (std::size_t i = 0; i < y.size(); ++i) {
        const bool is_in_run = i >= begin && i < begin + static_cast<std::size_t>(run);
        EXPECT_EQ(std::fabs(y[i]), is_in_run ? rotation_scale(run) : 0.0f) << run << ", " << i;
      }
    }
  }
}

TEST(Rotator, SpreadsTheLastElementOfATailByTheSecondTransform) {
  for (const std::size_t tail : {3u, 11u, 65u, 101u, 2049u, 4095u}) {
    std::vector<float> x(4096 + tail);
    x.back() = 1;
    const std::vector<float> y = rotated({.run = 4096, .tails = TailRotation::kTwice}, x, Rotation::kForward);
    EXPECT_EQ(std::ranges::count_if(y, [](float value) { return value != 0; }),
              mixed_elements(static_cast<std::int64_t>(tail)));
  }
}

TEST(Rotator, ScalesByTheRoundedRoot) {
  for (std::int64_t run = 1; run <= 4096; run *= 2) {
    EXPECT_EQ(rotation_scale(run), static_cast<float>(1 / std::sqrt(static_cast<double>(run)))) << run;
  }
}

// The signs are those of the whole tensor for each slice and worker, and change with the step.
TEST(Rotator, OfASliceGivesThoseElementsOfTheWhole) {
  const std::vector<float> x = testing::gaussian(30000, 3);
  for (const std::int64_t run : kRuns) {
    const std::vector<float> whole = rotated({.run = run, .draw_offset = 192}, x, Rotation::kForward);
    for (const std::int64_t first : {4096, 28672}) {
      const std::vector<float> part(x.begin() + first, x.end());
      const std::vector<float> found =
          rotated({.run = run, .first = first, .draw_offset = 192}, part, Rotation::kForward);
      EXPECT_TRUE(std::equal(found.begin(), found.end(), whole.begin() + first)) << run;
    }
  }
  EXPECT_NE(rotated({.step = 1}, x, Rotation::kForward), rotated({.step = 2}, x, Rotation::kForward));
  EXPECT_NE(rotated({.seed = 1}, x, Rotation::kForward), rotated({.seed = 2}, x, Rotation::kForward));
}

TEST(Rotator, WorksInPlaceAtAnyAlignmentAndOnNarrowElements) {
  const std::vector<float> x = testing::gaussian(5003, 4);
  const RotateCase c{.tails = TailRotation::kTwice};
  const auto expected = bits_of(reference_rotation(c, x, Rotation::kForward));
  Stream stream;
  for (std::size_t shift = 0; shift < 16; ++shift) {
    std::vector<float> room(x.size() + shift);
    std::copy(x.begin(), x.end(), room.begin() + static_cast<std::ptrdiff_t>(shift));
    float* const values = room.data() + shift;
    const RotateTask task{.values = values, .count = 5003, .out = values};
    Rotator(c.run, Device::cpu(), c.tails)
        .run({&task, 1}, Rotation::kForward, {.seed = c.seed, .step = c.step}, stream);
    EXPECT_EQ(bits_of({values, x.size()}), expected) << shift;
  }
  std::vector<std::uint16_t> halves(x.size());
  std::vector<float> widened(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    halves[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x[i]) >> 16);
    widened[i] = std::bit_cast<float>(std::uint32_t{halves[i]} << 16);
  }
  std::vector<float> out(x.size());
  const RotateTask task{.values = halves.data(), .count = 5003, .out = out.data(), .type = ElementType::kBfloat16};
  Rotator(c.run, Device::cpu(), c.tails).run({&task, 1}, Rotation::kForward, {.seed = c.seed, .step = c.step}, stream);
  EXPECT_EQ(bits_of(out), bits_of(reference_rotation(c, widened, Rotation::kForward)));
}

TEST(Rotator, RefusesWhatItCannotRotate) {
  for (const std::int64_t run :
       {std::int64_t{-64}, std::int64_t{0}, std::int64_t{1}, std::int64_t{32}, std::int64_t{96}, std::int64_t{8192}}) {
    EXPECT_THROW(Rotator{run}, InvalidArgument) << run;
  }
  EXPECT_NO_THROW(require_rotation(0));
  EXPECT_THROW(require_rotation(32), InvalidArgument);
  std::vector<float> x(128);
  const RotateTask good{.values = x.data(), .count = 128, .out = x.data()};
  Stream stream;
  Rotator rotator(64);
  const auto refuses = [&](const RotateTask& task, const std::uint64_t* device_step = nullptr) {
    const RotateTask tasks[] = {good, task};
    EXPECT_THROW(rotator.run(tasks, Rotation::kForward, {}, stream, device_step), InvalidArgument);
  };
  RotateTask task = good;
  task.first = 64;
  refuses(task);
  task = good;
  task.draw_offset = 32;
  refuses(task);
  task = good;
  task.type = ElementType::kFloat16;
  refuses(task);
  task = good;
  task.out = reinterpret_cast<float*>(reinterpret_cast<std::uint8_t*>(x.data()) + 2);
  refuses(task);
  const std::uint64_t step = 0;
  refuses(good, &step);
  std::vector<float> out(128);
  const RotateTask elsewhere{.values = x.data(), .count = 127, .out = out.data()};
  EXPECT_THROW(Rotator(64, Device::cpu(), TailRotation::kTwice).run({&elsewhere, 1}, Rotation::kBackward, {}, stream),
               InvalidArgument);
  for (const float value : x) EXPECT_EQ(value, 0);
}

}  // namespace
}  // namespace terngrad::rotate_test
