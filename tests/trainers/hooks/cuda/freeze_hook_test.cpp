// Frozen tensors on GPUs.
#include "trainers/hooks/freeze_hook.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/support/cuda_device.h"
#include "tests/trainers/device_runs.h"
#include "tests/trainers/frozen_runs.h"
#include "trainers/loop/training_control.h"

namespace terngrad::cuda_freeze_hook_test {
namespace {

using testing::bits_of;
using testing::DeviceRun;
using testing::expect_frozen_until;
using testing::freeze_some;
using testing::kNorm;
using testing::make_device_trainer;
using testing::norm_of_trained;
using testing::record_frozen;
using testing::SmallRun;

class CudaFreezeHook : public testing::CudaTest {};

TEST_F(CudaFreezeHook, KeepsTensorsUntilTheStep) {
  SmallRun run{.num_workers = 2, .codec = "ternary"};
  expect_frozen_until(record_frozen(*make_device_trainer({.run = run})));
  EXPECT_NEAR(norm_of_trained(
                  *make_device_trainer({.run = {.total_steps = 1, .weight_decay = 0.1}, .clip_by_global_norm = kNorm})),
              kNorm, 1e-6 * kNorm);
}

TEST_F(CudaFreezeHook, HasTheSameBitsInBurstsPartsAndOnSeveralReplicas) {
  const auto frozen_bits = [](const DeviceRun& run, bool in_bursts) {
    const auto trainer = make_device_trainer(run);
    trainer->add_hook(freeze_some());
    std::vector<double> losses;
    if (!in_bursts) trainer->add_hook(std::make_unique<testing::LossRecorder>(losses));
    trainer->run();
    return bits_of(trainer->parameters());
  };
  SmallRun run{.num_workers = 4, .codec = "ternary"};
  const std::vector<std::uint32_t> bits = frozen_bits({.run = run}, false);
  EXPECT_EQ(frozen_bits({.run = run}, true), bits);
  EXPECT_EQ(frozen_bits({.run = run, .captures = false}, true), bits);
  run.bucket_bytes = 4000;
  for (const bool overlap : {false, true}) {
    run.overlap = overlap;
    EXPECT_EQ(frozen_bits({.run = run}, true), bits) << overlap;
    EXPECT_EQ(frozen_bits({.run = run, .num_replicas = 2}, true), bits) << overlap;
  }
}

TEST_F(CudaFreezeHook, ParametersThatAHookSetsAreSetOnEveryReplica) {
  const auto bits_of_replicas = [](int num_replicas) {
    const auto trainer =
        make_device_trainer({.run = {.num_workers = 2, .codec = "ternary"}, .num_replicas = num_replicas});
    trainer->add_hook(before_step(3, [](TrainingControl& control) {
      std::ranges::fill(control.parameters("conv1/biases"), 0.5f);
      control.freeze("conv1/biases");
    }));
    trainer->run();
    const Segment& biases = trainer->net().layout().segment(1);
    EXPECT_EQ(biases.name, "conv1/biases");
    EXPECT_EQ(trainer->parameters()[static_cast<std::size_t>(biases.offset)], 0.5f);
    return bits_of(trainer->parameters());
  };
  EXPECT_EQ(bits_of_replicas(2), bits_of_replicas(1));
}

}  // namespace
}  // namespace terngrad::cuda_freeze_hook_test
