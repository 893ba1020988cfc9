// Options that change the training step: NaN policies, transforms, schedules, floating epochs.
#include "trainers/commands/train_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/trainers/train_runs.h"
#include "trainers/checkpoint/checkpoint.h"

namespace terngrad::train_recipe_test {
namespace {

using ::testing::AllOf;
using testing::CommandOutcome;
using ::testing::ElementsAre;
using testing::expect_usage_error;
using testing::exploding;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::metrics_of;
using testing::SmallMnist;
using testing::TemporaryDirectory;
using testing::train;
using Json = nlohmann::json;

using testing::operator+;
TEST(TrainCommand, SkippedStepsAreNoUpdatesOfAdam) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  // The first update makes weights of about 1e38: all later gradients are infinite or NaN.
  const CommandOutcome outcome = train(
      mnist.options(folder / "run") + std::vector<std::string>{"--optimizer", "adam", "--initial_learning_rate", "1e38",
                                                               "--learning_rate_decay_type", "fixed", "--on_nonfinite",
                                                               "skip", "--max_steps", "5", "--log_steps", "5"});
  ASSERT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  EXPECT_EQ(metrics_of(folder / "run").at(0)["skipped_steps"], 4);
  EXPECT_EQ(load_checkpoint(checkpoint_path(folder / "run", 5)).state().extra_metadata.at("adam_updates"), "1");
}

TEST(TrainCommand, NonfiniteGradientsStopTheRunNamingTensorWorkerAndStep) {
  const SmallMnist mnist;
  const std::vector<std::vector<std::string>> modes = {{},
                                                       {"--on_nonfinite", "stop"},
                                                       {"--strategy", "replicated"},
                                                       {"--num_nodes", "2", "--grad_bits", "1"},
                                                       {"--grad_bits", "16"}};
  for (const std::vector<std::string>& mode : modes) {
    const TemporaryDirectory folder;
    const CommandOutcome outcome = train(exploding(mnist, folder / "run") + mode);
    EXPECT_EQ(outcome.exit_code, kExitFailure) << ::testing::PrintToString(mode);
    EXPECT_THAT(
        outcome.last_error_line(),
        MatchesRegex("terngrad_train: error: step [0-9]+: tensor '[a-z0-9/]+' of "
                     "worker 0 holds NaN or infinity, or is too large for the codec.*; no checkpoint was saved.*"))
        << ::testing::PrintToString(mode);
    EXPECT_EQ(outcome.out, "");
  }
  const TemporaryDirectory folder;
  const CommandOutcome outcome =
      train(exploding(mnist, folder / "run") + std::vector<std::string>{"--save_iter", "1", "--num_nodes", "2"});
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_THAT(outcome.last_error_line(), AllOf(HasSubstr("holds NaN or infinity"), HasSubstr("continue from"),
                                               HasSubstr("checkpoint-0000000001"), HasSubstr("--resume")));
}

TEST(TrainCommand, NonfiniteGradientsAreSkippedOrZeroedAndReported) {
  const SmallMnist mnist;
  for (const char* policy : {"skip", "zero"}) {
    for (const char* nodes : {"1", "2"}) {
      const TemporaryDirectory folder;
      const CommandOutcome outcome = train(exploding(mnist, folder / "run") +
                                           std::vector<std::string>{"--on_nonfinite", policy, "--num_nodes", nodes});
      EXPECT_EQ(outcome.exit_code, kExitSuccess) << policy << nodes << ::testing::PrintToString(outcome);
      EXPECT_THAT(outcome.err,
                  AllOf(HasSubstr("holds NaN or infinity"),
                        HasSubstr(policy == std::string("skip") ? "; the step is skipped" : "; counted as zero")));
      const Json last = metrics_of(folder / "run").at(1);
      EXPECT_EQ(last["step"], 8);
      EXPECT_EQ(last["nonfinite_steps"], 4) << policy << nodes;
      EXPECT_EQ(last["skipped_steps"], policy == std::string("skip") ? 4 : 0);
      // A net with NaN has no correct predictions.
      const Json test = metrics_of(folder / "run").back();
      EXPECT_EQ(test["kind"], "test");
      EXPECT_LT(test["top1"].get<double>(), 0.5);
    }
  }
}

TEST(TrainCommand, NanToZeroTrainsOnWhereARunWouldStop) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const CommandOutcome outcome =
      train(exploding(mnist, folder / "run") + std::vector<std::string>{"--nan_to_zero", "--weight_decay", "0"});
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  const Json last = metrics_of(folder / "run").at(1);
  EXPECT_EQ(last["step"], 8);
  EXPECT_EQ(last["nonfinite_steps"], 0);
  EXPECT_GT(last["zeroed_elements"], 0);
}

TEST(TrainCommand, ClipByGlobalNormBoundsWhatIsSent) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const CommandOutcome outcome =
      train(mnist.options(folder / "run") + std::vector<std::string>{"--clip_by_global_norm", "0.001", "--max_steps",
                                                                     "4", "--log_steps", "2", "--telemetry_steps", "1",
                                                                     "--num_nodes", "2"});
  ASSERT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  int num_telemetry = 0;
  for (const Json& line : metrics_of(folder / "run")) {
    if (line["kind"] == "train") {
      EXPECT_EQ(line["clipped_gradients"], 4);
    }
    if (line["kind"] != "tensors") continue;
    ++num_telemetry;
    double sum_squares = 0;
    for (const auto& tensor : line["tensors"]) {
      sum_squares += tensor["norm"].get<double>() * tensor["norm"].get<double>();
    }
    EXPECT_NEAR(std::sqrt(sum_squares), 0.001, 1e-8);
  }
  EXPECT_EQ(num_telemetry, 4);
}

TEST(TrainCommand, ExponentialScheduleIsAStaircaseOfEpochs) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  // 48 examples in batches of 8: K = int(6 * 0.6) = 3 steps.
  const std::vector<std::string> options =
      mnist.options(folder / "run") +
      std::vector<std::string>{"--learning_rate_decay_type",   "exponential", "--num_epochs_per_decay",  "0.6",
                               "--learning_rate_decay_factor", "0.5",         "--initial_learning_rate", "0.125"};
  ASSERT_EQ(train(options + std::vector<std::string>{"--max_steps", "8", "--log_steps", "1"}).exit_code, kExitSuccess);
  std::vector<double> rates;
  for (const Json& line : metrics_of(folder / "run")) {
    if (line["kind"] == "train") rates.push_back(line["learning_rate"]);
  }
  EXPECT_THAT(rates, ElementsAre(0.125, 0.125, 0.125, 0.0625, 0.0625, 0.0625, 0.03125, 0.03125));
  // A longer run keeps the staircase; another staircase is another run.
  const std::vector<std::string> longer = options + std::vector<std::string>{"--max_steps", "10", "--resume"};
  std::vector<std::string> others = longer;
  *std::ranges::find(others, "0.6") = "0.5";
  expect_usage_error(train(others), {"num_epochs_per_decay '0.5'", "'0.6'"});
  others = longer;
  *std::ranges::find(others, "0.5") = "0.25";
  expect_usage_error(train(others), {"learning_rate_decay_factor '0.25'", "'0.5'"});
  EXPECT_EQ(train(longer).exit_code, kExitSuccess);
}

TEST(TrainCommand, StepsScheduleDropsTheRateAtItsBoundaries) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const std::vector<std::string> options =
      mnist.options(folder / "run") +
      std::vector<std::string>{"--learning_rate_decay_type",   "steps", "--learning_rate_boundaries", "2,5",
                               "--learning_rate_decay_factor", "0.5",   "--initial_learning_rate",    "0.125"};
  ASSERT_EQ(train(options + std::vector<std::string>{"--max_steps", "6", "--log_steps", "1"}).exit_code, kExitSuccess);
  const std::vector<std::string> longer =
      options + std::vector<std::string>{"--max_steps", "8", "--log_steps", "1", "--resume"};
  // Other boundaries, or another kind of schedule, are another run.
  std::vector<std::string> others = longer;
  *std::ranges::find(others, "2,5") = "2,7";
  expect_usage_error(train(others), {"learning_rate_boundaries '2,7'", "'2,5'"});
  others = longer;
  *std::ranges::find(others, "0.5") = "0.25";
  expect_usage_error(train(others), {"learning_rate_decay_factor '0.25'", "'0.5'"});
  ASSERT_EQ(train(longer).exit_code, kExitSuccess);
  std::vector<double> rates;
  for (const Json& line : metrics_of(folder / "run")) {
    if (line["kind"] == "train") rates.push_back(line["learning_rate"]);
  }
  EXPECT_THAT(rates, ElementsAre(0.125, 0.125, 0.0625, 0.0625, 0.0625, 0.03125, 0.03125, 0.03125));
}

TEST(TrainCommand, EvaluatesAtTheStepsThatAreListed) {
  const SmallMnist mnist;
  for (const std::vector<std::string>& mode : {std::vector<std::string>{},
                                               {"--num_nodes", "2", "--grad_bits", "1"},
                                               {"--num_nodes", "2", "--strategy", "ps"},
                                               {"--num_nodes", "2", "--strategy", "async"}}) {
    const TemporaryDirectory folder;
    const CommandOutcome outcome = train(mnist.options(folder / "run") + mode +
                                         std::vector<std::string>{"--max_steps", "9", "--eval_at", "0,1:4:*2,5",
                                                                  "--eval_steps", "4", "--device", "cpu"});
    ASSERT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
    std::vector<int> steps;
    for (const Json& line : metrics_of(folder / "run")) {
      if (line["kind"] == "test") steps.push_back(line["step"]);
    }
    EXPECT_THAT(steps, ElementsAre(0, 1, 2, 4, 5, 8, 9)) << ::testing::PrintToString(mode);
  }
}

TEST(TrainCommand, ARunOfNoStepsEvaluatesAndSavesItsStart) {
  const SmallMnist mnist;
  for (const std::vector<std::string>& mode :
       {std::vector<std::string>{}, {"--eval_at", "0"}, {"--num_nodes", "2", "--strategy", "async"}}) {
    const TemporaryDirectory folder;
    const std::vector<std::string> options = mnist.options(folder / "run") + mode;
    const CommandOutcome outcome = train(options + std::vector<std::string>{"--max_steps", "0"});
    ASSERT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
    const std::vector<Json> metrics = metrics_of(folder / "run");
    ASSERT_EQ(metrics.size(), 1u);
    EXPECT_EQ(metrics[0]["kind"], "test");
    EXPECT_EQ(metrics[0]["step"], 0);
    EXPECT_EQ(load_checkpoint(checkpoint_path(folder / "run", 0)).state().step, 0u);
    // It may be extended, with the same result as an uninterrupted run.
    ASSERT_EQ(train(options + std::vector<std::string>{"--max_steps", "3", "--resume"}).exit_code, kExitSuccess);
    const TemporaryDirectory other;
    ASSERT_EQ(train(mnist.options(other / "run") + mode + std::vector<std::string>{"--max_steps", "3"}).exit_code,
              kExitSuccess);
    EXPECT_TRUE(read_file_text(checkpoint_path(folder / "run", 3)) ==
                read_file_text(checkpoint_path(other / "run", 3)));
  }
}

TEST(TrainCommand, FloatingEpochsSendFp32AndTelemetrySaysSo) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  // 48 examples in batches of 8: epochs of 6 steps; every second epoch is floating.
  const std::vector<std::string> options =
      mnist.options(folder / "run") +
      std::vector<std::string>{"--num_nodes",           "2", "--grad_bits", "1", "--quantize_logits",
                               "--floating_grad_epoch", "2"};
  ASSERT_EQ(train(options + std::vector<std::string>{"--max_steps", "13", "--log_steps", "1", "--telemetry_steps", "1"})
                .exit_code,
            kExitSuccess);
  int num_floating = 0;
  for (const Json& line : metrics_of(folder / "run")) {
    const int step = line["step"].get<int>() - 1;
    const bool floating = step / 6 % 2 == 1;
    if (line["kind"] == "train") {
      num_floating += floating ? 1 : 0;
      const double ratio = line["wire_ratio"];
      // Ratios 1 and 16 (two bits per element), slightly reduced by headers.
      EXPECT_TRUE(floating ? ratio > 0.9 && ratio < 1 : ratio > 12 && ratio < 16) << step << " " << ratio;
    } else if (line["kind"] == "tensors") {
      for (const auto& tensor : line["tensors"]) {
        EXPECT_EQ(tensor["scaler"] == 0.0, floating) << step;
        EXPECT_EQ(tensor["snr_db"].is_null(), floating) << step;  // infinite for lossless steps
      }
    }
  }
  EXPECT_EQ(num_floating, 6);
  std::vector<std::string> others = options + std::vector<std::string>{"--max_steps", "14", "--resume"};
  others[static_cast<std::size_t>(std::ranges::find(others, "--floating_grad_epoch") - others.begin()) + 1] = "3";
  expect_usage_error(train(others), {"floating_grad_epoch '3'", "'2'"});
}

}  // namespace
}  // namespace terngrad::train_recipe_test
