#include "trainers/loop/device_trainer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "datasets/sets/transformed_images.h"
#include "kernels/runtime/errors.h"
#include "tests/nets/branched_net.h"
#include "tests/support/cuda_device.h"
#include "tests/support/sanitized.h"
#include "tests/support/thread_device_communicator.h"
#include "tests/trainers/device_runs.h"
#include "tests/trainers/small_training.h"
#include "trainers/loop/training_control.h"

namespace terngrad::device_trainer_test {
namespace {

using testing::DeviceRun;
using testing::kSmallImage;
using testing::LossRecorder;
using testing::make_device_trainer;
using testing::make_replica;
using testing::make_small_trainer;
using testing::small_digits;
using testing::SmallRun;
using testing::state_bits;
class CudaDeviceTrainer : public testing::CudaTest {};

/// Final state of a run, and the losses of its steps.
struct Outcome {
  std::vector<std::uint32_t> bits;
  std::vector<double> losses;
  explicit Outcome(Trainer& trainer) {
    trainer.add_hook(std::make_unique<LossRecorder>(losses));
    trainer.run();
    bits = state_bits(trainer);
  }
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome outcome_of(const DeviceRun& run) { return Outcome(*make_device_trainer(run)); }

TEST_F(CudaDeviceTrainer, TrainsWithTheSum) {
  // A doubled gradient with half the rate: multiplications by powers of two are exact.
  const auto parameters_of = [](const SmallRun& run) {
    const std::unique_ptr<DeviceTrainer> trainer = make_device_trainer({.run = run});
    trainer->run();
    return testing::bits_of(trainer->parameters());
  };
  SmallRun run{.num_workers = 2, .total_steps = 3, .learning_rate = 0.02};
  const auto mean = parameters_of(run);
  run.mean_factor = 2;
  EXPECT_NE(parameters_of(run), mean);
  run.learning_rate = 0.01;
  EXPECT_EQ(parameters_of(run), mean);
}

/// Bits of all gradients of the last step: by worker, then by tensor.
std::vector<std::vector<std::uint32_t>> last_gradients_of(const DeviceRun& run) {
  std::vector<std::vector<std::uint32_t>> gradients;
  const std::unique_ptr<DeviceTrainer> trainer = make_device_trainer(run);
  trainer->add_hook(at_step(run.run.total_steps, [&](const TrainingView& training, const StepView& step) {
    for (int worker = 0; worker < training.num_local_workers; ++worker) {
      for (int tensor = 0; tensor < training.net.layout().num_segments(); ++tensor) {
        gradients.push_back(testing::bits_of(step.worker_gradient(worker, tensor)));
      }
    }
    EXPECT_EQ(testing::bits_of(step.gradient(0)), gradients[0]);
    return HookVerdict::kContinue;
  }));
  trainer->run();
  return gradients;
}

TEST_F(CudaDeviceTrainer, HooksSeeTheGradientsOfEveryReplicasWorkers) {
  const SmallRun run{.num_workers = 4, .total_steps = 3};
  const auto one = last_gradients_of({.run = run});
  ASSERT_EQ(one.size(), 4u * 8u);
  EXPECT_NE(one[0], one[8]);
  EXPECT_NE(one[8], one[16]);
  EXPECT_EQ(last_gradients_of({.run = run, .num_replicas = 2}), one);
}

/// A hook that needs only numbers, so that bursts have full length.
class OnlyNumbers final : public Hook {
 public:
  explicit OnlyNumbers(std::vector<double>& losses) : losses_(losses) {}
  HookVerdict after_step(const TrainingView&, const StepView& step) override {
    losses_.push_back(step.loss);
    return HookVerdict::kContinue;
  }
  std::uint64_t next_sync_step(std::uint64_t) const override { return kNoSyncStep; }

 private:
  std::vector<double>& losses_;
};

void expect_near_host(const DeviceRun& device_run, double tolerance) {
  const auto host = make_small_trainer(device_run.run);
  const Outcome expected(*host);
  const auto device = make_device_trainer(device_run);
  const Outcome found(*device);
  ASSERT_EQ(found.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < found.losses.size(); ++i) {
    EXPECT_NEAR(found.losses[i], expected.losses[i], tolerance * expected.losses[i]) << "step " << i;
  }
  for (std::size_t i = 0; i < host->parameters().size(); ++i) {
    ASSERT_NEAR(device->parameters()[i], host->parameters()[i], tolerance) << "parameter " << i;
  }
  for (std::size_t i = 0; i < host->state_ema().shadow().size(); ++i) {
    ASSERT_NEAR(device->state_ema().shadow()[i], host->state_ema().shadow()[i], tolerance) << "averaged state " << i;
  }
}

TEST_F(CudaDeviceTrainer, FollowsTheCpu) {
  expect_near_host({.run = {.num_workers = 2, .total_steps = 2}}, 1e-5);
  expect_near_host({.run = {.num_workers = 2, .total_steps = 4, .net = test::branched_net(0.6f)}}, 1e-4);
}

TEST_F(CudaDeviceTrainer, TernaryStepsAreTheCpusButForAFewDrawsAtTheEdge) {
  // A gradient with another last bit sometimes changes a code, so only the first steps are close.
  expect_near_host({.run = {.num_workers = 2, .codec = "ternary", .total_steps = 1}}, 2e-4);
}

TEST_F(CudaDeviceTrainer, BurstsChangeNoBit) {
  const DeviceRun run{.run = {.num_workers = 2, .codec = "ternary", .total_steps = 9, .net = test::branched_net(0.6f)}};
  const Outcome looked_at = outcome_of(run);  // synchronizes after each step
  for (const int max_burst : {1, 3, 8}) {
    if (testing::kIsSanitized && max_burst == 1) continue;
    DeviceRun burst = run;
    burst.max_burst = max_burst;
    const auto trainer = make_device_trainer(burst);
    std::vector<double> losses;
    trainer->add_hook(std::make_unique<OnlyNumbers>(losses));
    EXPECT_EQ(trainer->run(), 9u);
    EXPECT_EQ(losses, looked_at.losses) << max_burst;
    EXPECT_EQ(state_bits(*trainer), looked_at.bits) << max_burst;
  }
}

TEST_F(CudaDeviceTrainer, ReplicasChangeNoBit) {
  for (const char* const codec : {"fp32", "ternary"}) {
    DeviceRun run{.run = {.num_workers = 4, .codec = codec, .total_steps = 3, .net = test::branched_net(0.6f)}};
    const Outcome one = outcome_of(run);
    for (const int replicas : {2, 4}) {
      run.num_replicas = replicas;
      EXPECT_EQ(outcome_of(run), one) << codec << ", " << replicas << " replicas";
    }
  }
}

TEST_F(CudaDeviceTrainer, ExchangesBetweenReplicasChangeNoBit) {
  DeviceRun run{.run = {.num_workers = 4, .codec = "ternary", .total_steps = 3, .net = test::branched_net(0.6f)}};
  for (const DownlinkCodec downlink_codec : {DownlinkCodec::kFloat32, DownlinkCodec::kTernary}) {
    run.algorithm = ExchangeAlgorithm::kAllGather;
    run.num_replicas = 1;
    run.downlink_codec = downlink_codec;
    const Outcome gathered = outcome_of(run);
    for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kScatterReduce, ExchangeAlgorithm::kIntegerSum}) {
      run.algorithm = algorithm;
      for (const int replicas : {1, 2, 4}) {
        if (testing::kIsSanitized && replicas != 2) continue;
        run.num_replicas = replicas;
        EXPECT_EQ(outcome_of(run).bits, gathered.bits)
            << word_of(algorithm) << ", " << word_of(downlink_codec) << ", " << replicas << " replicas";
      }
    }
  }
}

TEST_F(CudaDeviceTrainer, PayloadsWithoutAFixedSizeRunUncaptured) {
  DeviceRun run{.run = {.num_workers = 2, .codec = "ternary", .total_steps = 3, .net = test::branched_net(0.6f)}};
  const Outcome t2 = outcome_of(run);
  run.format = "tmask";
  EXPECT_EQ(outcome_of(run), t2);
}

TEST_F(CudaDeviceTrainer, ContinuesFromItsStateExactly) {
  const DeviceRun run{.run = {.num_workers = 2, .codec = "ternary", .total_steps = 7, .net = test::branched_net(0.6f)}};
  const auto whole = make_device_trainer(run);
  whole->run();
  const auto first = make_device_trainer(run);
  first->add_hook(at_step(3, [](const TrainingView&, const StepView&) { return HookVerdict::kStop; }));
  ASSERT_EQ(first->run(), 3u);
  const auto second = make_device_trainer(run);
  std::ranges::copy(first->parameters(), second->parameters().begin());
  std::ranges::copy(first->ema().shadow(), second->ema().shadow().begin());
  std::ranges::copy(first->state_ema().shadow(), second->state_ema().shadow().begin());
  for (int w = 0; w < 2; ++w) std::ranges::copy(first->state(w), second->state(w).begin());
  for (std::size_t i = 0; i < first->slots().size(); ++i) {
    std::ranges::copy(first->slots()[i].values, second->slots()[i].values.begin());
  }
  second->set_steps_done(3);
  second->run();
  EXPECT_EQ(state_bits(*second), state_bits(*whole));
}

TEST_F(CudaDeviceTrainer, ChangesTheExchangeBetweenSteps) {
  DeviceRun run{.run = {.num_workers = 2, .codec = "ternary", .total_steps = 6, .net = test::branched_net(0.6f)},
                .floating_from = 3};
  const Outcome mixed = outcome_of(run);
  run.floating_from = kNoSyncStep;
  const Outcome ternary = outcome_of(run);
  EXPECT_EQ(mixed.losses[3], ternary.losses[3]);
  EXPECT_NE(mixed.losses[4], ternary.losses[4]);
}

TEST_F(CudaDeviceTrainer, HooksSeeWhatTheyLookAt) {
  const DeviceRun run{.run = {.num_workers = 2, .codec = "ternary", .total_steps = 6, .net = test::branched_net(0.6f)},
                      .max_burst = 8};
  const auto trainer = make_device_trainer(run);
  int looks = 0;
  trainer->add_hook(every_steps(2, [&](const TrainingView& training, const StepView& step) {
    ++looks;
    EXPECT_EQ(training.steps_done, step.step + 1);
    EXPECT_EQ(training.steps_computed, training.steps_done);
    // The hook sees the state after exactly this step.
    DeviceRun shorter = run;
    const auto other = make_device_trainer(shorter);
    other->add_hook(
        at_step(training.steps_done, [](const TrainingView&, const StepView&) { return HookVerdict::kStop; }));
    other->run();
    EXPECT_TRUE(std::ranges::equal(other->parameters(), training.parameters));
    EXPECT_TRUE(std::ranges::equal(other->ema().shadow(), training.ema));
    const TensorTelemetry telemetry = step.telemetry(0);
    EXPECT_GT(telemetry.zero_fraction, 0.2);
    EXPECT_LT(telemetry.zero_fraction, 1.0);
    EXPECT_GT(telemetry.clip_angle_degrees, 0);
    EXPECT_LT(telemetry.clip_angle_degrees, 45);
    const auto gradient = step.gradient(0);
    EXPECT_EQ(gradient.size(), static_cast<std::size_t>(training.net.layout().segment(0).num_elements));
    EXPECT_FALSE(step.parts_are_timed);
    EXPECT_GT(step.data_seconds, 0);
    EXPECT_LT(step.data_seconds, step.step_seconds);
    EXPECT_GT(step.report.gradient.sent, 0);
    return HookVerdict::kContinue;
  }));
  trainer->run();
  EXPECT_EQ(looks, 3);
}

TEST_F(CudaDeviceTrainer, HooksSeeTheMeanThatWasApplied) {
  for (const float factor : {1.0f, 2.0f}) {
    const DeviceRun run{.run = {.num_workers = 2, .codec = "ternary", .total_steps = 3, .mean_factor = factor}};
    const auto trainer = make_device_trainer(run);
    const std::vector<float> before(trainer->parameters().begin(), trainer->parameters().end());
    trainer->add_hook(at_step(1, [&](const TrainingView& training, const StepView& step) {
      for (int index = 0; index < training.net.layout().num_segments(); ++index) {
        const std::span<const float> mean = step.mean(index);
        const Segment& segment = training.net.layout().segment(index);
        EXPECT_EQ(mean.size(), static_cast<std::size_t>(segment.num_elements));
        // Momentum's first step is gradient descent.
        for (std::size_t i = 0; i < mean.size(); ++i) {
          const std::size_t at = static_cast<std::size_t>(segment.offset) + i;
          EXPECT_FLOAT_EQ(training.parameters[at], before[at] - static_cast<float>(step.learning_rate) * mean[i]);
        }
      }
      return HookVerdict::kContinue;
    }));
    trainer->run();
  }
}

/// Digits of which the first has NaN from its second visit on.
std::shared_ptr<const Dataset> poisoned_digits() {
  return transformed_images(
      small_digits(8, kSmallImage),
      [](std::int64_t index, const ExampleVisit& visit, std::span<float> image) {
        if (index == 0 && visit.epoch >= 1) image[0] = NAN;
      },
      /*is_augmented=*/true);
}

/// 8 examples in batches of 4: the image with NaN comes in step 2 or 3.
DeviceRun poisoned_run(OnNonfinite on_nonfinite) {
  return {.run = {.num_workers = 2,
                  .codec = "ternary",
                  .on_nonfinite = on_nonfinite,
                  .total_steps = 8,
                  .batch_size = 4,
                  .dataset = poisoned_digits(),
                  .net = test::branched_net(0.6f)},
          .max_burst = 8};
}

std::string words_of_failure(Trainer& trainer) {
  try {
    trainer.run();
  } catch (const NonFiniteError& error) {
    return error.what();
  }
  return "no failure";
}

TEST_F(CudaDeviceTrainer, StopsWithTheWordsOfTheStepAndKeepsTheLastWholeOne) {
  const DeviceRun run = poisoned_run(OnNonfinite::kStop);
  const auto trainer = make_device_trainer(run);
  std::vector<double> losses;
  trainer->add_hook(std::make_unique<OnlyNumbers>(losses));
  const std::string words = words_of_failure(*trainer);
  // The same if the failing burst runs an exchange for the first time.
  DeviceRun mixed = run;
  mixed.floating_from = 1;
  std::vector<double> mixed_losses;
  const auto mixed_trainer = make_device_trainer(mixed);
  mixed_trainer->add_hook(std::make_unique<OnlyNumbers>(mixed_losses));
  EXPECT_EQ(words_of_failure(*mixed_trainer).find("step " + std::to_string(mixed_losses.size()) + ":"), 0u);
  // The same message as step by step, and on the CPU: later steps of the burst do not count.
  DeviceRun single = run;
  single.max_burst = 1;
  EXPECT_EQ(words_of_failure(*make_device_trainer(single)), words);
  EXPECT_EQ(words_of_failure(*make_small_trainer(run.run)), words);
  ASSERT_NE(words.find("holds NaN or infinity"), std::string::npos) << words;
  const std::string step = "step " + std::to_string(losses.size()) + ":";
  EXPECT_EQ(words.find(step), 0u) << words;
  for (const double loss : losses) EXPECT_TRUE(std::isfinite(loss));

  const auto until = make_device_trainer(run);
  until->add_hook(at_step(losses.size(), [](const TrainingView&, const StepView&) { return HookVerdict::kStop; }));
  until->run();
  EXPECT_EQ(state_bits(*trainer), state_bits(*until));
}

TEST_F(CudaDeviceTrainer, SkipsStepsAsTheCpuDoes) {
  const DeviceRun run = poisoned_run(OnNonfinite::kSkip);
  const auto count = [](Trainer& trainer) {
    std::vector<bool> skipped;
    trainer.add_hook(every_steps(1, [&](const TrainingView&, const StepView& step) {
      skipped.push_back(step.report.skipped);
      EXPECT_EQ(step.report.nonfinite.empty(), !step.report.skipped);
      return HookVerdict::kContinue;
    }));
    trainer.run();
    return skipped;
  };
  const auto device = make_device_trainer(run);
  const auto host = make_small_trainer(run.run);
  const std::vector<bool> skipped = count(*device);
  EXPECT_EQ(skipped, count(*host));
  EXPECT_EQ(std::ranges::count(skipped, true), 3);
  for (const float parameter : device->parameters()) EXPECT_TRUE(std::isfinite(parameter));
  for (int w = 0; w < 2; ++w) {
    for (const float value : device->state(w)) EXPECT_TRUE(std::isfinite(value));
  }
}

/// Records the bytes that gradients take in each step, without waiting for the GPU.
class SentBytes final : public Hook {
 public:
  explicit SentBytes(std::vector<std::int64_t>& sent) : sent_(sent) {}
  HookVerdict after_step(const TrainingView&, const StepView& step) override {
    sent_.push_back(step.report.gradient.sent);
    return HookVerdict::kContinue;
  }
  std::uint64_t next_sync_step(std::uint64_t) const override { return kNoSyncStep; }

 private:
  std::vector<std::int64_t>& sent_;
};

// Stages of two steps. The hook makes several GPUs rehearse again, all stages.
TEST_F(CudaDeviceTrainer, WarmsUpInStagesAlsoAfterAHookHasChangedTheRun) {
  std::vector<std::uint32_t> bits;
  for (const int replicas : {1, 2}) {
    const DeviceRun run{
        .run = {.num_workers = 2, .codec = "topk:density=0.02,stage_steps=2", .total_steps = 6, .batch_size = 4},
        .num_replicas = replicas,
        .max_burst = 8};
    const auto trainer = make_device_trainer(run);
    std::vector<std::int64_t> sent;
    trainer->add_hook(std::make_unique<SentBytes>(sent));
    trainer->add_hook(before_step(1, [](TrainingControl& control) { control.parameters("logits/biases")[0] = 0.5f; }));
    trainer->run();
    ASSERT_EQ(sent.size(), 6u);
    EXPECT_EQ(sent, (std::vector<std::int64_t>{sent[0], sent[0], sent[2], sent[2], sent[4], sent[4]}));
    EXPECT_LT(2 * sent[2], sent[0]);
    EXPECT_LT(sent[4], sent[2]);
    if (replicas == 1) bits = testing::bits_of(trainer->parameters());
    EXPECT_EQ(testing::bits_of(trainer->parameters()), bits);
  }
}

/// Digits of which the first is unreadable from its third visit on.
std::shared_ptr<const Dataset> unreadable_digits() {
  return transformed_images(
      small_digits(16, kSmallImage),
      [](std::int64_t index, const ExampleVisit& visit, std::span<float>) {
        if (index == 0 && visit.epoch >= 2) TERNGRAD_THROW(DataError, "example 0 is damaged");
      },
      /*is_augmented=*/true);
}

TEST_F(CudaDeviceTrainer, AnErrorOfTheDataCostsNoStepBeforeIt) {
  for (const int replicas : {1, 2}) {
    DeviceRun run{.run = {.num_workers = 2,
                          .total_steps = 20,
                          .batch_size = 4,
                          .dataset = unreadable_digits(),
                          .net = test::branched_net(1.0f)},
                  .num_replicas = replicas,
                  .max_burst = 8};
    const auto trainer = make_device_trainer(run);
    std::vector<double> losses;
    trainer->add_hook(std::make_unique<OnlyNumbers>(losses));
    EXPECT_THROW(trainer->run(), DataError);
    const auto host = make_small_trainer(run.run);
    std::vector<double> host_losses;
    host->add_hook(std::make_unique<OnlyNumbers>(host_losses));
    EXPECT_THROW(host->run(), DataError);
    EXPECT_EQ(losses.size(), host_losses.size()) << replicas;
    const auto until = make_device_trainer(run);
    until->add_hook(at_step(losses.size(), [](const TrainingView&, const StepView&) { return HookVerdict::kStop; }));
    until->run();
    EXPECT_EQ(state_bits(*trainer), state_bits(*until));
  }
}

TEST_F(CudaDeviceTrainer, ARunThatStoppedCanGoOnFromAnEarlierState) {
  const auto trainer = make_device_trainer(poisoned_run(OnNonfinite::kStop));
  EXPECT_THROW(trainer->run(), NonFiniteError);
  // Back to the start: the stop flag of the first run is cleared, so steps are applied again.
  trainer->set_steps_done(0);
  std::uint64_t steps = 0;
  trainer->add_hook(every_steps(1, [&](const TrainingView& training, const StepView&) {
    EXPECT_EQ(training.steps_done, ++steps);
    return steps == 2 ? HookVerdict::kStop : HookVerdict::kContinue;
  }));
  EXPECT_EQ(trainer->run(), 2u);
}

TEST_F(CudaDeviceTrainer, ClippingIsCounted) {
  DeviceRun run{.run = {.num_workers = 2, .total_steps = 2, .net = test::branched_net(0.6f)}};
  run.clip_by_global_norm = 1e-3;
  const auto trainer = make_device_trainer(run);
  std::int64_t clipped = 0;
  trainer->add_hook(every_steps(1, [&](const TrainingView&, const StepView& step) {
    clipped += step.transform_counts.clipped_gradients;
    return HookVerdict::kContinue;
  }));
  trainer->run();
  EXPECT_EQ(clipped, 4);
}

TEST_F(CudaDeviceTrainer, RefusesReplicasOfOtherWorkers) {
  DeviceTrainerParts parts;
  EXPECT_THROW(DeviceTrainer(std::move(parts), {}), InvalidArgument);
  DeviceTrainerParts half;
  half.replicas.push_back(
      make_replica({.run = {.num_workers = 4}, .num_replicas = 2},
                   std::make_shared<testing::ThreadDeviceCommunicator>(std::make_shared<testing::Meeting>(2), 0)));
  half.workers = make_worker_group(4, make_self_communicator());
  EXPECT_THROW(DeviceTrainer(std::move(half), {}), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::device_trainer_test
