#include "trainers/loop/host_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "datasets/sets/transformed_images.h"
#include "datasets/shuffle.h"
#include "kernels/runtime/errors.h"
#include "nets/models/lenet.h"
#include "nets/softmax_cross_entropy.h"
#include "tests/nets/branched_net.h"
#include "tests/nets/reference_net.h"
#include "tests/support/sanitized.h"
#include "tests/trainers/small_training.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/hooks/checkpoint_hook.h"
#include "trainers/hooks/evaluation_hook.h"
#include "trainers/hooks/metrics_hook.h"
#include "trainers/hooks/net_state.h"
#include "trainers/hooks/progress_hook.h"

namespace terngrad::host_trainer_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kSmallImage;
using testing::losses_of;
using testing::make_small_trainer;
using testing::message_of;
using testing::SmallRun;
using testing::state_bits;
using testing::TemporaryDirectory;

std::vector<std::uint32_t> bits_after(const SmallRun& run) {
  const std::unique_ptr<Trainer> trainer = make_small_trainer(run);
  EXPECT_EQ(trainer->run(), run.total_steps);
  return state_bits(*trainer);
}

TEST(HostTrainer, EqualRunsGiveEqualBits) {
  const SmallRun run{.num_workers = 2, .codec = "ternary"};
  const std::vector<std::uint32_t> bits = bits_after(run);
  EXPECT_EQ(bits_after(run), bits);
  SmallRun other = run;
  other.seed = 2;
  EXPECT_NE(bits_after(other), bits);
}

TEST(HostTrainer, ThreadsChangeNoBit) {
  for (const char* codec : {"fp32", "ternary"}) {
    const SmallRun one{.num_workers = 4, .codec = codec, .total_steps = 4};
    const std::vector<std::uint32_t> bits = bits_after(one);
    for (const int threads : {2, 3, 5}) {
      SmallRun more = one;
      more.num_threads = threads;
      more.num_data_threads = threads;
      EXPECT_EQ(bits_after(more), bits) << codec << " " << threads;
    }
  }
}

TEST(HostTrainer, ThreadsChangeNoBitOfDropoutAndMovingStatistics) {
  const SmallRun one{.num_workers = 4, .codec = "ternary", .total_steps = 4, .net = test::branched_net(0.6f)};
  const std::vector<std::uint32_t> bits = bits_after(one);
  SmallRun more = one;
  more.num_threads = 3;
  EXPECT_EQ(bits_after(more), bits);
}

TEST(HostTrainer, EachWorkerMovesItsOwnStateAndTheAverageFollowsTheFirst) {
  SmallRun run{.num_workers = 2, .total_steps = 1, .net = test::branched_net(0.6f)};
  const std::unique_ptr<Trainer> trainer = make_small_trainer(run);
  const std::vector<float> initial(trainer->state(0).begin(), trainer->state(0).end());
  EXPECT_EQ(std::vector<float>(trainer->state(1).begin(), trainer->state(1).end()), initial);
  trainer->run();
  const std::span<float> first = trainer->state(0);
  EXPECT_NE(std::vector<float>(first.begin(), first.end()), initial);
  EXPECT_NE(testing::bits_of(first), testing::bits_of(trainer->state(1)));
  // The decay is 0.1 in the first step.
  for (std::size_t i = 0; i < initial.size(); ++i) {
    EXPECT_NEAR(trainer->state_ema().shadow()[i], 0.1 * initial[i] + 0.9 * first[i], 1e-6) << i;
  }
}

TEST(HostTrainer, DropsOutDifferentlyInEveryStep) {
  // One constant example and no learning: only dropout changes the loss.
  const auto dataset = testing::small_digits(1, kSmallImage);
  const NetSpec spec{"net",
                     {{"drop", DropoutSpec{.keep_prob = 0.5f}},
                      {"logits", FullyConnectedSpec{.weights = Initializer::truncated_normal(0.1f)}}}};
  const std::vector<double> losses = losses_of({.simple = true,
                                                .total_steps = 4,
                                                .batch_size = 1,
                                                .learning_rate = 0,
                                                .weight_decay = 0,
                                                .dataset = dataset,
                                                .net = spec});
  EXPECT_EQ(std::set<double>(losses.begin(), losses.end()).size(), 4u);
}

TEST(HostTrainer, TrainsWithTheSum) {
  // A doubled gradient with half the rate: multiplications by powers of two are exact.
  const auto parameters_of = [](const SmallRun& run) {
    const std::unique_ptr<Trainer> trainer = make_small_trainer(run);
    trainer->run();
    return testing::bits_of(trainer->parameters());
  };
  SmallRun run{.num_workers = 2, .codec = "ternary", .learning_rate = 0.02};
  const auto mean = parameters_of(run);
  run.mean_factor = 2;
  EXPECT_NE(parameters_of(run), mean);
  run.learning_rate = 0.01;
  EXPECT_EQ(parameters_of(run), mean);
}

TEST(HostTrainer, HooksChangeNoBit) {
  const SmallRun run{.num_workers = 2, .codec = "ternary"};
  const TemporaryDirectory folder;
  MetricsWriter writer(folder / "m.jsonl");
  std::FILE* const null_device = std::fopen("/dev/null", "w");
  ProgressDisplay display(null_device, ProgressDisplay::Mode::kLog);
  const std::unique_ptr<Trainer> trainer = make_small_trainer(run);
  trainer->add_hook(make_progress_hook(display, 1));
  trainer->add_hook(make_metrics_hook(writer, 1, 1));
  trainer->add_hook(std::make_unique<EvaluationHook>(testing::small_digits(7, kSmallImage), writer, display,
                                                     EvaluationSteps{.every = 2}, 1));
  trainer->add_hook(std::make_unique<CheckpointHook>(
      CheckpointHookOptions{.folder = Folder(folder.path()), .save_steps = 2, .keep_last = 1}, CheckpointState{},
      [&] { writer.sync(); }, display));
  trainer->run();
  EXPECT_EQ(state_bits(*trainer), bits_after(run));
  std::fclose(null_device);
}

TEST(HostTrainer, RefusesBucketsThatAreNotAllTensorsAndNoExchange) {
  const auto with = [](Buckets buckets, bool has_exchange) {
    TrainerParts parts;
    parts.net = make_net("lenet", {28, 28, 1}, 10, {.num_local_workers = 1, .examples_per_worker = 2});
    parts.workers = make_worker_group(1, make_self_communicator());
    parts.optimizer = make_optimizer("gd", {}, parts.net->layout().flat_elements());
    parts.buckets = std::move(buckets);
    if (has_exchange) {
      parts.exchanges.push_back(
          std::make_unique<CompressedAllReduce>(parts.net->layout(), parts.workers, CompressedAllReduceOptions{}));
    }
    return HostTrainer(std::move(parts), {.batch_size = 2, .total_steps = 1});
  };
  EXPECT_NO_THROW(with({}, true));
  EXPECT_THROW(with({}, false), InvalidArgument);
  EXPECT_THROW(with({{0, 1}}, true), InvalidArgument);
}

TEST(HostTrainer, FourWorkersWithoutCompressionDoWhatOneDoes) {
  // The same examples in each step; other orders of sums, so only roundings differ.
  const std::unique_ptr<Trainer> one = make_small_trainer({.num_workers = 1});
  const std::unique_ptr<Trainer> four = make_small_trainer({.num_workers = 4});
  const std::vector<float> initial(one->parameters().begin(), one->parameters().end());
  one->run();
  four->run();
  double moved = 0;
  double apart = 0;
  for (std::size_t i = 0; i < initial.size(); ++i) {
    moved += std::pow(one->parameters()[i] - initial[i], 2);
    apart += std::pow(one->parameters()[i] - four->parameters()[i], 2);
  }
  EXPECT_GT(std::sqrt(moved), 0.01);
  EXPECT_LT(std::sqrt(apart), 1e-4 * std::sqrt(moved));
  EXPECT_NE(state_bits(*one), state_bits(*four));  // the runs are really different
}

TEST(HostTrainer, TernaryTrainingLearns) {
  const std::vector<double> losses = losses_of({.num_workers = 4,
                                                .codec = "ternary",
                                                .total_steps = 40,
                                                .batch_size = 20,
                                                .learning_rate = 0.02,
                                                .net = lenet()});
  const double first = std::accumulate(losses.begin(), losses.begin() + 5, 0.0) / 5;
  const double last = std::accumulate(losses.end() - 5, losses.end(), 0.0) / 5;
  EXPECT_NEAR(first, std::log(10.0), 0.4);
  EXPECT_LT(last, 0.75 * first);
}

TEST(HostTrainer, GoingOnFromACheckpointEndsTheSame) {
  for (const auto& [codec, net] : {std::pair<const char*, NetSpec>{"fp32", testing::small_lenet()},
                                   {"ternary", testing::small_lenet()},
                                   {"ternary", test::branched_net(0.6f)}}) {
    const SmallRun run{.num_workers = 2, .codec = codec, .net = net};
    const TemporaryDirectory folder;
    MetricsWriter writer(folder / "m.jsonl");
    const std::unique_ptr<Trainer> whole = make_small_trainer(run);
    ProgressDisplay display(stderr, ProgressDisplay::Mode::kLog);
    whole->add_hook(std::make_unique<CheckpointHook>(
        CheckpointHookOptions{.folder = Folder(folder.path()), .save_steps = 4}, CheckpointState{},
        [&] { writer.sync(); }, display));
    whole->run();

    const std::unique_ptr<Trainer> resumed = make_small_trainer(run);
    const Checkpoint checkpoint = load_checkpoint(checkpoint_path(folder.path(), 4));
    const Layout& layout = resumed->net().layout();
    checkpoint.read_group("parameters", layout, resumed->parameters());
    checkpoint.read_group("ema", layout, resumed->ema().shadow());
    for (const Optimizer::Slot& slot : resumed->slots()) {
      checkpoint.read_group("slots/" + slot.name, layout, slot.values);
    }
    restore_states(checkpoint, *resumed);
    EXPECT_NE(state_bits(*resumed), state_bits(*whole));
    resumed->set_steps_done(4);
    EXPECT_EQ(resumed->run(), 6u);
    EXPECT_EQ(state_bits(*resumed), state_bits(*whole)) << codec;
  }
}

TEST(HostTrainer, StopsWhenAHookAsksAndGoesOnExactly) {
  const SmallRun run{.num_workers = 2, .codec = "ternary"};
  const std::unique_ptr<Trainer> trainer = make_small_trainer(run);
  int calls = 0;
  trainer->add_hook(at_step(2, [](const TrainingView&, const StepView&) { return HookVerdict::kStop; }));
  // Hooks after the stopping one still see the step.
  trainer->add_hook(every_steps(1, [&calls](const TrainingView&, const StepView&) {
    ++calls;
    return HookVerdict::kContinue;
  }));
  EXPECT_EQ(trainer->run(), 2u);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(trainer->run(), 6u);
  EXPECT_EQ(state_bits(*trainer), bits_after(run));
}

/// Records the arguments of hooks.
class Recorder final : public Hook {
 public:
  explicit Recorder(std::vector<std::string>& log, bool everywhere = false) : log_(log), everywhere_(everywhere) {}
  void before_train(const TrainingView& t) override { log_.push_back("before " + std::to_string(t.steps_done)); }
  HookVerdict after_step(const TrainingView& t, const StepView& s) override {
    log_.push_back("step " + std::to_string(s.step) + " done " + std::to_string(t.steps_done));
    return HookVerdict::kContinue;
  }
  void after_train(const TrainingView& t) override { log_.push_back("after " + std::to_string(t.steps_done)); }
  bool on_every_rank() const override { return everywhere_; }

 private:
  std::vector<std::string>& log_;
  bool everywhere_;
};

TEST(HostTrainer, CallsHooksAroundAndAfterEverySteps) {
  std::vector<std::string> log;
  const std::unique_ptr<Trainer> trainer = make_small_trainer({.simple = true, .total_steps = 2});
  trainer->add_hook(std::make_unique<Recorder>(log));
  trainer->run();
  EXPECT_THAT(log, ElementsAre("before 0", "step 0 done 1", "step 1 done 2", "after 2"));
}

TEST(HostTrainer, StepsReportTheScheduleAndTheBatch) {
  const std::unique_ptr<Trainer> trainer = make_small_trainer({.num_workers = 2, .learning_rate = 0.04});
  std::vector<double> rates;
  trainer->add_hook(every_steps(1, [&](const TrainingView& training, const StepView& step) {
    rates.push_back(step.learning_rate);
    EXPECT_EQ(training.num_workers, 2);
    EXPECT_EQ(training.batch_size, 8);
    EXPECT_EQ(std::fmod(step.accuracy * 8, 1.0), 0.0);
    EXPECT_TRUE(step.accuracy >= 0 && step.accuracy <= 1);
    EXPECT_GT(step.report.sent_bytes(), 0);
    return HookVerdict::kContinue;
  }));
  trainer->run();
  ASSERT_EQ(rates.size(), 6u);
  EXPECT_EQ(rates[0], 0.04);
  EXPECT_DOUBLE_EQ(rates[3], 0.04 * std::sqrt(0.5));
}

TEST(HostTrainer, TelemetryComparesWorkerZeroWithItsMessage) {
  const std::unique_ptr<Trainer> trainer = make_small_trainer({.num_workers = 2, .codec = "ternary"});
  trainer->add_hook(at_step(3, [](const TrainingView& training, const StepView& step) {
    const int weights = training.net.layout().find("conv2/weights");
    EXPECT_GE(weights, 0);
    const TensorTelemetry t = step.telemetry(weights);
    EXPECT_GT(t.scaler, 0);
    EXPECT_LE(t.scaler, t.max_abs * 100);
    EXPECT_GT(t.zero_fraction, 0.2);
    EXPECT_LT(t.zero_fraction, 1);
    EXPECT_TRUE(std::isfinite(t.snr_db));
    return HookVerdict::kContinue;
  }));
  trainer->run();
}

TEST(HostTrainer, HooksSeeTheExamplesAndTheLogitsOfTheLoss) {
  SmallRun run{.num_workers = 2, .codec = "ternary", .total_steps = 3};
  run.shuffle.example_at = [](std::uint64_t step, std::int64_t place) {
    return static_cast<std::int64_t>(8 * step) + place;
  };
  const std::shared_ptr<const Dataset> digits = testing::small_digits(24, kSmallImage);
  run.dataset = digits;
  const std::unique_ptr<Trainer> trainer = make_small_trainer(run);
  int steps = 0;
  trainer->add_hook(every_steps(1, [&](const TrainingView&, const StepView& step) {
    ++steps;
    std::vector<float> image(static_cast<std::size_t>(digits->image_elements()));
    EXPECT_EQ(step.images.size(), 8 * image.size());
    for (std::size_t i = 0; i < step.labels.size(); ++i) {
      const auto index = static_cast<std::int64_t>(8 * step.step + i);
      digits->read(index, {}, image);
      EXPECT_TRUE(std::ranges::equal(step.images.subspan(i * image.size(), image.size()), image)) << i;
      EXPECT_EQ(step.labels[i], digits->label(index));
    }
    const WorkerLoss loss = softmax_cross_entropy(step.logits, step.labels, 10, {});
    EXPECT_DOUBLE_EQ(loss.entropy_loss, step.loss);
    EXPECT_EQ(loss.num_correct / 8.0, step.accuracy);
    return HookVerdict::kContinue;
  }));
  trainer->run();
  EXPECT_EQ(steps, 3);
}

TEST(HostTrainer, HooksSeeTheMeanThatWasApplied) {
  for (const float factor : {1.0f, 2.0f}) {
    const std::unique_ptr<Trainer> trainer =
        make_small_trainer({.num_workers = 2, .codec = "ternary", .mean_factor = factor});
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

TEST(HostTrainer, WithParametersFromServersThereIsNoMean) {
  const std::unique_ptr<Trainer> trainer =
      make_small_trainer({.num_workers = 2, .owners = ShardOwners::kServers, .pulls_parameters = true});
  int steps = 0;
  trainer->add_hook(every_steps(1, [&](const TrainingView&, const StepView& step) {
    ++steps;
    EXPECT_FALSE(step.mean);
    return HookVerdict::kContinue;
  }));
  trainer->run();
  EXPECT_EQ(steps, 6);
}

/// Forty digits, of which the second half has an infinite pixel.
std::shared_ptr<const Dataset> poisoned_digits() {
  return transformed_images(
      testing::small_digits(40, kSmallImage),
      [](std::int64_t index, const ExampleVisit&, std::span<float> image) {
        if (index >= 20) image[100] = std::numeric_limits<float>::infinity();
      },
      /*is_augmented=*/false);
}

TEST(HostTrainer, StopOnNonfiniteLeavesTheLastWholeStep) {
  for (const bool simple : {true, false}) {
    const std::unique_ptr<Trainer> trainer = make_small_trainer({.simple = simple, .dataset = poisoned_digits()});
    const std::vector<std::uint32_t> before = state_bits(*trainer);
    const std::string message = message_of<NonFiniteError>([&] { trainer->run(); });
    EXPECT_THAT(
        message,
        HasSubstr("step 0: tensor 'conv1/weights' of worker 0 holds NaN or infinity, or is too large for the codec"));
    EXPECT_EQ(state_bits(*trainer), before);
  }
}

TEST(HostTrainer, SkippedStepsLeaveParametersAndSlots) {
  for (const bool simple : {true, false}) {
    // All forty examples in one batch: every step is poisoned.
    const std::unique_ptr<Trainer> trainer = make_small_trainer({.simple = simple,
                                                                 .on_nonfinite = OnNonfinite::kSkip,
                                                                 .total_steps = 2,
                                                                 .batch_size = 40,
                                                                 .dataset = poisoned_digits()});
    int skipped = 0;
    trainer->add_hook(every_steps(1, [&](const TrainingView&, const StepView& step) {
      skipped += step.report.skipped ? 1 : 0;
      return HookVerdict::kContinue;
    }));
    const std::vector<std::uint32_t> before = state_bits(*trainer);
    EXPECT_EQ(trainer->run(), 2u);
    EXPECT_EQ(skipped, 2);
    EXPECT_EQ(state_bits(*trainer), before) << simple;
  }
}

TEST(HostTrainer, SkippedStepsLeaveMovingStatistics) {
  SmallRun run{.num_workers = 2,
               .on_nonfinite = OnNonfinite::kSkip,
               .total_steps = 2,
               .batch_size = 40,
               .dataset = poisoned_digits(),
               .net = test::branched_net(0.6f)};
  const std::unique_ptr<Trainer> trainer = make_small_trainer(run);
  int skipped = 0;
  trainer->add_hook(every_steps(1, [&](const TrainingView&, const StepView& step) {
    skipped += step.report.skipped ? 1 : 0;
    return HookVerdict::kContinue;
  }));
  ASSERT_FALSE(trainer->state(0).empty());
  const std::vector<std::uint32_t> before = state_bits(*trainer);
  trainer->run();
  EXPECT_EQ(skipped, 2);
  EXPECT_EQ(state_bits(*trainer), before);
}

TEST(HostTrainer, PoisonedTensorsThatCountAsZeroKeepParametersFinite) {
  const std::unique_ptr<Trainer> trainer = make_small_trainer(
      {.num_workers = 4, .codec = "ternary", .on_nonfinite = OnNonfinite::kZero, .dataset = poisoned_digits()});
  const std::vector<std::uint32_t> before = state_bits(*trainer);
  int reported = 0;
  trainer->add_hook(every_steps(1, [&](const TrainingView&, const StepView& step) {
    reported += step.report.nonfinite.empty() ? 0 : 1;
    EXPECT_FALSE(step.report.skipped);
    return HookVerdict::kContinue;
  }));
  EXPECT_EQ(trainer->run(), 6u);
  EXPECT_GT(reported, 0);
  EXPECT_NE(state_bits(*trainer), before);
  for (const float value : trainer->parameters()) ASSERT_TRUE(std::isfinite(value));
}

TEST(HostTrainer, ErrorsOfTheDataSetComeThrough) {
  const std::shared_ptr<const Dataset> broken = transformed_images(
      testing::small_digits(40, kSmallImage),
      [](std::int64_t, const ExampleVisit&, std::span<float>) { throw DataError("worn out"); },
      /*is_augmented=*/false);
  const std::unique_ptr<Trainer> trainer = make_small_trainer({.dataset = broken});
  EXPECT_EQ(message_of<DataError>([&] { trainer->run(); }), "worn out");
}

constexpr std::uint64_t kReferenceSteps = testing::kIsSanitized ? 1 : 5;  // plain loops are slow under a sanitizer

const SmallRun kPinnedRun{
    .simple = true, .total_steps = 10, .learning_rate = 0.05, .weight_decay = 0.01, .net = lenet()};

// Losses of kPinnedRun. The first five are from the double-precision run below; the others were recorded from this
// trainer after it agreed to 1e-5 (GCC 12, oneDNN 2.6, AVX-512).
constexpr double kPinnedLosses[] = {2.303652, 2.358750, 2.403210, 2.406616, 2.394450,
                                    2.192312, 2.229043, 2.251179, 2.320362, 2.182891};

/// The same training in double precision, as plain loops.
std::vector<double> reference_losses(const SmallRun& run, std::uint64_t num_steps) {
  const std::unique_ptr<Trainer> initial = make_small_trainer(run);
  const NetPlan plan = plan_net(run.net, {kSmallImage, kSmallImage, 1}, 10);
  test::Doubles parameters = test::widen(initial->parameters());
  test::Doubles accumulator(parameters.size(), 0.0);
  const std::shared_ptr<const Dataset> digits = testing::small_digits(40, kSmallImage);
  std::vector<std::uint32_t> order;
  epoch_permutation(run.seed, 0, 40, order);
  std::vector<double> losses;
  for (std::uint64_t step = 0; step < num_steps; ++step) {
    test::Doubles images;
    std::vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < run.batch_size; ++i) {
      const std::int64_t index =
          order.at(step * static_cast<std::size_t>(run.batch_size) + static_cast<std::size_t>(i));
      std::vector<float> image(kSmallImage * kSmallImage);
      digits->read(index, {}, image);
      images.insert(images.end(), image.begin(), image.end());
      labels.push_back(digits->label(index));
    }
    const test::ReferenceResult result = test::reference_net(plan, parameters, images, labels);
    losses.push_back(result.loss);
    const double rate =
        run.learning_rate * std::sqrt(1 - static_cast<double>(step) / static_cast<double>(run.total_steps));
    for (const Segment& segment : plan.layout.segments()) {
      const double decay = segment.name.ends_with("/weights") ? run.weight_decay : 0;
      for (std::int64_t e = segment.offset; e < segment.offset + segment.num_elements; ++e) {
        const auto i = static_cast<std::size_t>(e);
        accumulator[i] = 0.9 * accumulator[i] + result.gradient[i] + decay * parameters[i];
        parameters[i] -= rate * accumulator[i];
      }
    }
  }
  return losses;
}

TEST(HostTrainer, LossesFollowAPlainRunInDoublePrecision) {
  const std::vector<double> losses = losses_of(kPinnedRun);
  const std::vector<double> expected = reference_losses(kPinnedRun, kReferenceSteps);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-4) << i;
}

TEST(HostTrainer, LossesFollowTheRecordedTrajectory) {
  const std::vector<double> losses = losses_of(kPinnedRun);
  ASSERT_EQ(losses.size(), std::size(kPinnedLosses));
  // Other instruction sets sum in another order, which changes far less; a wrong rate, gradient or order of examples
  // changes far more.
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], kPinnedLosses[i], 2e-3) << i;
}

}  // namespace
}  // namespace terngrad::host_trainer_test
