// Contract B4 for runs of terngrad_train that stop between steps; refused resumes.
#include "trainers/commands/train_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/trainers/train_runs.h"
#include "trainers/checkpoint/checkpoint.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::train_resume_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::CommandOutcome;
using testing::expect_equal_resume;
using testing::expect_usage_error;
using ::testing::HasSubstr;
using testing::metrics_of;
using ::testing::Not;
using testing::remove_checkpoints_after;
using testing::SmallMnist;
using testing::TemporaryDirectory;
using testing::train;
using Json = nlohmann::json;

using testing::operator+;
TEST(TrainCommand, ResumeEndsLikeTheUninterruptedRun) {
  expect_equal_resume({"--num_nodes", "4", "--grad_bits", "1", "--clip_factor", "2.5", "--log_steps", "5",
                       "--eval_steps", "5", "--telemetry_steps", "5"},
                      10);
  expect_equal_resume({"--log_steps", "5"}, 10);
  expect_equal_resume({"--num_nodes", "4", "--codec", "ternary:clip_factor=2.5,format=t5", "--codec_for",
                       "conv*=ternary:sharing=none,scope=block,block=128", "--telemetry_steps", "5"},
                      10);
}

TEST(TrainCommand, ResumeWithAMemoryEndsLikeTheUninterruptedRun) {
  expect_equal_resume({"--num_nodes", "4", "--codec", "terngrad_ef", "--telemetry_steps", "5"}, 10);
  expect_equal_resume({"--num_nodes", "2", "--codec", "fp8", "--codec_memory", "momentum", "--compress_from", "7"}, 10);
  expect_equal_resume({"--num_nodes", "2", "--codec", "eden", "--codec_memory", "loco:reset=4"}, 10);
  expect_equal_resume({"--num_nodes", "2", "--codec", "eden", "--codec_memory", "ef21:decay=0.9"}, 10);
  expect_equal_resume({"--num_nodes", "3", "--batch_size", "18", "--strategy", "async", "--codec", "bf16",
                       "--error_feedback", "true", "--error_feedback_decay", "0.9"},
                      10);
  expect_equal_resume({"--num_nodes", "3", "--batch_size", "18", "--strategy", "async", "--codec", "qsgd",
                       "--codec_memory", "loco:reset=4"},
                      10);
}

TEST(TrainCommand, ResumeWithAnotherMemoryIsRefused) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const auto start = [&](const std::vector<std::string>& with) {
    return train(mnist.options(folder / "run") + std::vector<std::string>{"--num_nodes", "2"} + with);
  };
  ASSERT_EQ(start({"--codec", "terngrad_ef", "--max_steps", "2"}).exit_code, kExitSuccess);
  EXPECT_EQ(start({"--codec", "ternary:rounding=nearest,clip_factor=1.22", "--codec_memory", "ef", "--max_steps", "3",
                   "--resume"})
                .exit_code,
            kExitSuccess);
  expect_usage_error(start({"--codec", "terngrad_ef", "--error_feedback", "false", "--max_steps", "4", "--resume"}),
                     {"--codec_memory 'none'", "'ef:decay=1'"});
  expect_usage_error(start({"--codec", "terngrad_ef", "--error_feedback_decay", "0.5", "--max_steps", "4", "--resume"}),
                     {"--codec_memory 'ef:decay=0.5'", "'ef:decay=1'"});
}

TEST(TrainCommand, ResumeMayNameTheSameCodecInAnotherWay) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  const auto start = [&](const std::vector<std::string>& with) {
    return train(mnist.options(run) + std::vector<std::string>{"--num_nodes", "2"} + with);
  };
  ASSERT_EQ(start({"--grad_bits", "1", "--clip_factor", "2.5", "--max_steps", "2"}).exit_code, kExitSuccess);
  EXPECT_EQ(start({"--codec", "ternary:clip_factor=2.5", "--max_steps", "3", "--resume"}).exit_code, kExitSuccess);
  expect_usage_error(start({"--codec", "ternary:clip_factor=2", "--max_steps", "4", "--resume"}),
                     {"--codec 'ternary:clip_factor=2,", "'ternary:clip_factor=2.5,"});
  expect_usage_error(start({"--grad_bits", "1", "--clip_factor", "2.5", "--codec_for", "conv*=ternary:clip_factor=0",
                            "--max_steps", "4", "--resume"}),
                     {"--codec_for 'conv*=ternary:clip_factor=0,", "''"});
}

// The zero_one_adam of a run updates its variance in steps 0, 1 and 3, which exchange fp32.
TEST(TrainCommand, OptimizersKnowWhichStepsCompress) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const CommandOutcome outcome =
      train(mnist.options(folder / "run") +
            std::vector<std::string>{"--num_nodes", "2", "--grad_bits", "1", "--optimizer", "zero_one_adam",
                                     "--variance_update_scaler", "1", "--max_steps", "4", "--save_iter", "1"});
  ASSERT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  std::vector<std::vector<float>> variances;
  for (const std::uint64_t step : {2u, 3u, 4u}) {
    const Checkpoint checkpoint = load_checkpoint(checkpoint_path(folder / "run", step));
    EXPECT_EQ(checkpoint.state().extra_metadata.at("zero_one_adam_variance_updates"), step == 4 ? "3" : "2");
    const auto net = make_net("lenet", {16, 16, 1}, 10, {});
    variances.emplace_back(static_cast<std::size_t>(net->layout().flat_elements()));
    checkpoint.read_group("slots/v", net->layout(), variances.back());
  }
  EXPECT_EQ(variances[0], variances[1]);
  EXPECT_NE(variances[1], variances[2]);
}

TEST(TrainCommand, ResumeOfEveryOptimizerEndsLikeTheUninterruptedRun) {
  for (const char* optimizer : {"gd", "adam", "nadam", "rmsprop"}) {
    expect_equal_resume({"--optimizer", optimizer, "--num_nodes", "2", "--grad_bits", "1"}, 10);
  }
  for (const char* compress_from : {"5", "15"}) {
    expect_equal_resume({"--optimizer", "onebit_adam", "--compress_from", compress_from, "--num_nodes", "2", "--codec",
                         "eden:levels=3", "--codec_memory", "ef"},
                        10);
  }
  expect_equal_resume({"--optimizer", "zero_one_adam", "--variance_update_scaler", "2", "--num_nodes", "2", "--codec",
                       "qsgd", "--codec_memory", "loco"},
                      10);
}

TEST(TrainCommand, ResumeOfARunWithFrozenTensorsEndsLikeTheUninterruptedRun) {
  for (const char* until : {"5", "10", "15", "0"}) {
    expect_equal_resume({"--freeze", "conv1/*", "--freeze_until", until, "--num_nodes", "2", "--grad_bits", "1",
                         "--telemetry_steps", "4", "--histogram_steps", "4"},
                        10);
  }
}

TEST(TrainCommand, ResumeFreezesTheSameTensors) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const std::vector<std::string> options = mnist.options(folder / "run");
  ASSERT_EQ(train(options + std::vector<std::string>{"--max_steps", "2", "--freeze", "conv1/*"}).exit_code, 0);
  expect_usage_error(train(options + std::vector<std::string>{"--max_steps", "3", "--resume"}),
                     {"--freeze ''", "'conv1/*'"});
}

TEST(TrainCommand, ResumeInTheMiddleOfALoggingIntervalKeepsItsMeans) {
  expect_equal_resume({"--log_steps", "7", "--telemetry_steps", "3"}, 10);
}

TEST(TrainCommand, ResumeOfAFinishedRunChangesNothing) {
  expect_equal_resume({"--log_steps", "6", "--num_nodes", "2"}, 20);
}

TEST(TrainCommand, ResumeWithTransformsKeepsTheirCounts) {
  expect_equal_resume({"--clip_by_global_norm", "0.5", "--nan_to_zero", "--num_nodes", "2", "--log_steps", "7"}, 10);
}

TEST(TrainCommand, ResumeInsideAFloatingEpochEndsLikeTheUninterruptedRun) {
  expect_equal_resume({"--num_nodes", "2", "--grad_bits", "1", "--floating_grad_epoch", "2", "--log_steps", "7",
                       "--telemetry_steps", "4"},
                      10);
}

TEST(TrainCommand, ResumeOfAScheduleOfStepsEndsLikeTheUninterruptedRun) {
  expect_equal_resume({"--learning_rate_decay_type", "steps", "--learning_rate_boundaries", "4,10,11,15",
                       "--learning_rate_decay_factor", "0.5", "--optimizer", "adam", "--log_steps", "1"},
                      10);
}

TEST(TrainCommand, ResumeLosesNoListedEvaluationAndRepeatsNone) {
  expect_equal_resume({"--eval_at", "0,3,10,11,20"}, 10);
  expect_equal_resume({"--eval_at", "0,9,12", "--eval_steps", "5"}, 10);
}

TEST(TrainCommand, AStartThatIsToBeEvaluatedIsSoOnceHoweverOftenTheRunStops) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const std::vector<std::string> steps = {"--max_steps", "4", "--eval_at", "0,1,3", "--save_iter", "100"};
  ASSERT_EQ(train(mnist.options(folder / "whole") + steps).exit_code, kExitSuccess);
  const std::vector<std::string> options = mnist.options(folder / "run") + steps;
  ASSERT_EQ(train(options + std::vector<std::string>{"--stop_after_secs", "1e-9"}).exit_code, kExitSuccess);
  for (int step = 2; step <= 4; ++step) {
    ASSERT_EQ(train(options + std::vector<std::string>{"--resume", "--stop_after_secs", "1e-9"}).exit_code,
              kExitSuccess);
  }
  EXPECT_EQ(metrics_of(folder / "run"), metrics_of(folder / "whole"));
}

TEST(TrainCommand, EvaluationsThatARunHasPassedAreRefused) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const std::vector<std::string> options = mnist.options(folder / "run");
  ASSERT_EQ(train(options + std::vector<std::string>{"--max_steps", "4", "--eval_at", "2"}).exit_code, kExitSuccess);
  const std::string metrics = read_file_text(folder / "run" / "metrics.jsonl");
  const std::vector<std::string> longer = options + std::vector<std::string>{"--max_steps", "6", "--resume"};
  expect_usage_error(train(longer + std::vector<std::string>{"--eval_at", "2,3,5"}),
                     {"--eval_at 2,3,5", "continues after step 4", "not evaluated at step 3", "steps from 4 on"});
  EXPECT_EQ(read_file_text(folder / "run" / "metrics.jsonl"), metrics);
  ASSERT_EQ(train(longer + std::vector<std::string>{"--eval_at", "2,4,5"}).exit_code, kExitSuccess);
  std::vector<int> steps;
  for (const Json& line : metrics_of(folder / "run")) {
    if (line["kind"] == "test") steps.push_back(line["step"]);
  }
  EXPECT_THAT(steps, ::testing::ElementsAre(2, 4, 5, 6));
}

TEST(TrainCommand, StopsAfterATimeAndGoesOnToTheSameEnd) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const std::vector<std::string> steps = {"--max_steps", "6", "--log_steps",  "4", "--num_nodes", "2",
                                          "--grad_bits", "1", "--eval_steps", "4", "--save_iter", "100"};
  ASSERT_EQ(train(mnist.options(folder / "whole") + steps).exit_code, kExitSuccess);
  const std::vector<std::string> options = mnist.options(folder / "run") + steps;
  CommandOutcome outcome = train(options + std::vector<std::string>{"--stop_after_secs", "1e-9"});
  for (int step = 1; step < 6; ++step) {
    ASSERT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
    EXPECT_THAT(outcome.err, HasSubstr("stopping after step " + std::to_string(step) + ": "));
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("stopped after step " + std::to_string(step) + " of 6"),
                                   HasSubstr("--train_dir " + (folder / "run").string() + " and --resume")));
    outcome = train(options + std::vector<std::string>{"--resume", "--stop_after_secs", "1e-9"});
  }
  EXPECT_EQ(outcome.exit_code, kExitSuccess);
  EXPECT_THAT(outcome.out, Not(HasSubstr("stopped")));
  EXPECT_TRUE(read_file_text(checkpoint_path(folder / "run", 6)) ==
              read_file_text(checkpoint_path(folder / "whole", 6)));
  EXPECT_EQ(metrics_of(folder / "run"), metrics_of(folder / "whole"));
}

TEST(TrainCommand, ResumeWithoutACheckpointStartsOver) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  const std::vector<std::string> options = mnist.options(run) + std::vector<std::string>{"--max_steps", "2"};
  // Without a run, --resume is refused.
  expect_usage_error(train(options + std::vector<std::string>{"--resume"}), {"no run to resume", run.string()});
  EXPECT_FALSE(fs::exists(run));
  ASSERT_EQ(train(options).exit_code, kExitSuccess);
  const std::string checkpoint = read_file_text(checkpoint_path(run, 2));
  const std::vector<Json> metrics = metrics_of(run);
  fs::remove(checkpoint_path(run, 2));
  const CommandOutcome outcome = train(options + std::vector<std::string>{"--resume"});
  EXPECT_EQ(outcome.exit_code, kExitSuccess);
  EXPECT_THAT(outcome.err, HasSubstr("starting over"));
  EXPECT_TRUE(read_file_text(checkpoint_path(run, 2)) == checkpoint);
  EXPECT_EQ(metrics_of(run), metrics);
}

TEST(TrainCommand, ResumeOfAnotherRunIsRefused) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  const std::vector<std::string> options =
      mnist.options(run) + std::vector<std::string>{"--num_nodes", "2", "--grad_bits", "1"};
  ASSERT_EQ(train(options + std::vector<std::string>{"--max_steps", "2"}).exit_code, kExitSuccess);
  const std::string config = read_file_text(run / "config.json");
  const auto resume = [&](const std::vector<std::string>& with) {
    return train(mnist.options(run) + std::vector<std::string>{"--resume"} + with);
  };
  expect_usage_error(resume({"--num_nodes", "4", "--grad_bits", "1"}), {"--num_nodes '4'", "'2'"});
  expect_usage_error(resume({"--num_nodes", "2"}), {"codec 'fp32'", "'ternary'"});
  expect_usage_error(resume({"--num_nodes", "2", "--grad_bits", "1", "--clip_factor", "2"}),
                     {"--codec 'ternary:clip_factor=2,", "'ternary:clip_factor=0,"});
  expect_usage_error(resume({"--num_nodes", "2", "--grad_bits", "1", "--seed", "2"}), {"seed '2'", "'1'"});
  expect_usage_error(resume({"--num_nodes", "2", "--grad_bits", "1", "--optimizer", "gd"}), {"optimizer 'gd'"});
  expect_usage_error(resume({"--num_nodes", "2", "--grad_bits", "1", "--clip_by_global_norm", "3"}),
                     {"clip_by_global_norm '3'", "'0'"});
  expect_usage_error(resume({"--num_nodes", "2", "--grad_bits", "1", "--nan_to_zero"}), {"nan_to_zero 'true'"});
  expect_usage_error(resume({"--num_nodes", "2", "--grad_bits", "1", "--max_steps", "1"}),
                     {"--max_steps 1", "has done 2 steps", "2 or more"});
  EXPECT_EQ(read_file_text(run / "config.json"), config);
}

TEST(TrainCommand, ResumeOnOtherDataIsRefused) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const std::vector<std::string> options = mnist.options(folder / "run") + std::vector<std::string>{"--max_steps"};
  ASSERT_EQ(train(options + std::vector<std::string>{"1"}).exit_code, kExitSuccess);
  std::string labels = testing::idx_labels(testing::kSmallTrainExamples);
  labels[20] = static_cast<char>((labels[20] + 1) % 10);
  mnist.folder().write("train-labels-idx1-ubyte", labels);
  expect_usage_error(train(options + std::vector<std::string>{"2", "--resume"}), {"--data_dir", "data_fingerprint"});
  mnist.folder().write("train-labels-idx1-ubyte", testing::idx_labels(40));
  mnist.folder().write("train-images-idx3-ubyte", testing::idx_images(40));
  expect_usage_error(train(options + std::vector<std::string>{"2", "--resume"}), {"num_examples '40'", "'48'"});
}

TEST(TrainCommand, AnotherNumberOfStepsMustBeAskedForAndIsTold) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const std::vector<std::string> options = mnist.options(folder / "run");
  ASSERT_EQ(train(options + std::vector<std::string>{"--max_steps", "2"}).exit_code, kExitSuccess);
  expect_usage_error(train(options + std::vector<std::string>{"--resume"}), {"--max_steps: the run had 2"});
  const CommandOutcome longer = train(options + std::vector<std::string>{"--resume", "--max_steps", "3"});
  EXPECT_EQ(longer.exit_code, kExitSuccess);
  EXPECT_THAT(longer.err, HasSubstr("--max_steps was 2 and is 3 now"));
}

TEST(TrainCommand, ResumeBeforeTheFirstCheckpointComparesToo) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const std::vector<std::string> options = mnist.options(folder / "run");
  ASSERT_EQ(train(options + std::vector<std::string>{"--max_steps", "2"}).exit_code, kExitSuccess);
  fs::remove(checkpoint_path(folder / "run", 2));
  const std::vector<std::string> resume = options + std::vector<std::string>{"--resume"};
  expect_usage_error(train(resume + std::vector<std::string>{"--max_steps", "2", "--seed", "2"}),
                     {"--seed '2'", "'1'"});
  expect_usage_error(train(resume), {"--max_steps: the run had 2"});
  EXPECT_EQ(train(resume + std::vector<std::string>{"--max_steps", "2"}).exit_code, kExitSuccess);
}

TEST(TrainCommand, RunKilledBetweenCheckpointAndEvaluationIsEvaluatedOnResume) {
  const SmallMnist mnist;
  for (const std::uint64_t killed_at : {10u, 20u}) {
    const TemporaryDirectory folder;
    const fs::path run = folder / "run";
    const std::vector<std::string> options =
        mnist.options(run) + std::vector<std::string>{"--max_steps",        "20", "--save_iter", "10",
                                                      "--eval_steps",       "5",  "--log_steps", "5",
                                                      "--keep_checkpoints", "0"};
    ASSERT_EQ(train(options).exit_code, kExitSuccess);
    const std::vector<Json> whole = metrics_of(run);
    std::string kept;
    std::istringstream lines(read_file_text(run / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const Json record = Json::parse(line);
      if (record["step"] == killed_at && record["kind"] == "test") break;
      kept += line + "\n";
    }
    write_file_atomically(run / "metrics.jsonl", kept);
    remove_checkpoints_after(run, killed_at);
    ASSERT_EQ(train(options + std::vector<std::string>{"--resume"}).exit_code, kExitSuccess);
    EXPECT_EQ(metrics_of(run), whole) << killed_at;
  }
}

TEST(TrainCommand, EvaluationThatFailsCostsNoStep) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const std::vector<std::string> options =
      mnist.options(folder / "run") +
      std::vector<std::string>{"--max_steps", "2", "--save_iter", "2", "--eval_steps", "2"};
  ASSERT_EQ(train(options).exit_code, kExitSuccess);
  // The checkpoint is written before the metrics of the evaluation after the same step.
  EXPECT_LE(fs::last_write_time(checkpoint_path(folder / "run", 2)),
            fs::last_write_time(folder / "run" / "metrics.jsonl"));
}

TEST(TrainCommand, NonfiniteGradientsCanBeResumedPastWithAnotherPolicy) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const std::vector<std::string> options =
      mnist.options(folder / "run") +
      std::vector<std::string>{"--initial_learning_rate", "1e30", "--max_steps", "8", "--save_iter", "1"};
  const CommandOutcome stopped = train(options);
  EXPECT_EQ(stopped.exit_code, kExitFailure);
  EXPECT_THAT(stopped.last_error_line(), HasSubstr("add --on_nonfinite skip or zero to --resume"));
  EXPECT_EQ(train(options + std::vector<std::string>{"--resume"}).exit_code, kExitFailure);
  const CommandOutcome resumed = train(options + std::vector<std::string>{"--resume", "--on_nonfinite", "skip"});
  EXPECT_EQ(resumed.exit_code, kExitSuccess) << ::testing::PrintToString(resumed);
}

TEST(TrainCommand, DamagedCheckpointNamesTheOneBefore) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  const std::vector<std::string> options =
      mnist.options(run) + std::vector<std::string>{"--max_steps", "3", "--save_iter", "1"};
  ASSERT_EQ(train(options).exit_code, kExitSuccess);
  const std::string metrics = read_file_text(run / "metrics.jsonl");
  testing::damage(checkpoint_path(run, 3));
  const CommandOutcome outcome = train(options + std::vector<std::string>{"--resume"});
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr(checkpoint_path(run, 3).string()), HasSubstr("damaged"),
                                 HasSubstr("can be used instead: '" + checkpoint_path(run, 2).string() + "'")));
  EXPECT_EQ(read_file_text(run / "metrics.jsonl"), metrics);
  // Following the message's advice allows to continue.
  fs::remove(checkpoint_path(run, 3));
  EXPECT_EQ(train(options + std::vector<std::string>{"--resume"}).exit_code, kExitSuccess);
}

TEST(TrainCommand, ForeignFileInPlaceOfACheckpointIsRefused) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  const std::vector<std::string> options = mnist.options(run) + std::vector<std::string>{"--max_steps", "1"};
  ASSERT_EQ(train(options).exit_code, kExitSuccess);
  write_file_atomically(checkpoint_path(run, 9), "not a checkpoint");
  const CommandOutcome outcome = train(options + std::vector<std::string>{"--resume"});
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_THAT(outcome.err, HasSubstr(checkpoint_path(run, 9).string()));
}

}  // namespace
}  // namespace terngrad::train_resume_test
