#include "trainers/loop/floating_epochs.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "kernels/runtime/errors.h"

namespace terngrad::floating_epochs_test {
namespace {

TEST(IsFloatingStep, IsTheLastOfEveryPeriodOfEpochs) {
  // 10 examples in batches of 4: epochs start at steps 0, 2.5, 5, 7.5, ...
  std::string floating;
  for (std::uint64_t step = 0; step < 16; ++step) floating += is_floating_step(step, 4, 10, 3) ? 'F' : '.';
  EXPECT_EQ(floating, ".....FFF.....FF.");  // epoch 2 from step 5, epoch 5 from step 12.5
  for (std::uint64_t step = 0; step < 16; ++step) EXPECT_TRUE(is_floating_step(step, 4, 10, 1));
  // Batches of several epochs.
  EXPECT_FALSE(is_floating_step(0, 30, 10, 2));
  EXPECT_TRUE(is_floating_step(1, 30, 10, 2));
}

TEST(IsFloatingStep, IsExactForTheLargestNumbers) {
  constexpr std::uint64_t kLast = (std::uint64_t{1} << 40) - 1;
  constexpr std::int64_t kBatch = 2147483647;
  // One example per epoch: epoch = step * batch, odd * odd.
  EXPECT_TRUE(is_floating_step(kLast, kBatch, 1, 2));
  EXPECT_FALSE(is_floating_step(kLast - 1, kBatch, 1, 2));
  EXPECT_EQ(is_floating_step(kLast, kBatch, 1, INT64_MAX), false);
}

TEST(IsFloatingStep, RefusesWhatIsNoEpoch) {
  EXPECT_THROW(is_floating_step(0, 0, 1, 1), InvalidArgument);
  EXPECT_THROW(is_floating_step(0, 1, 0, 1), InvalidArgument);
  EXPECT_THROW(is_floating_step(0, 1, 1, 0), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::floating_epochs_test
