#include "trainers/train_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "tests/trainers/command_runs.h"
#include "tests/trainers/event_reader.h"
#include "trainers/atomic_file.h"
#include "trainers/checkpoint.h"
#include "trainers/event_hook.h"

namespace terngrad {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;
using testing::big_endian;
using testing::CommandOutcome;
using testing::SmallMnist;
using testing::TemporaryDirectory;
using testing::train;
using testing::operator+;

std::vector<Json> metrics_of(const fs::path& run) {
  std::vector<Json> lines;
  std::istringstream text(read_file_text(run / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    Json object = Json::object();
    const Json all = Json::parse(line);
    for (const auto& [key, value] : all.items()) {
      if (!key.ends_with("_seconds") && !key.ends_with("_per_second")) object[key] = value;
    }
    lines.push_back(std::move(object));
  }
  return lines;
}

void expect_usage_error(const CommandOutcome& outcome, const std::vector<std::string>& words) {
  EXPECT_EQ(outcome.exit_code, kExitUsage) << ::testing::PrintToString(outcome);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, StartsWith("terngrad_train: error: "));
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  for (const std::string& word : words) EXPECT_THAT(outcome.err, HasSubstr(word));
}

TEST(TrainCommand, HelpAndVersionGoToStdout) {
  for (const char* option : {"--help", "-h"}) {
    const CommandOutcome help = train({option});
    EXPECT_EQ(help.exit_code, kExitSuccess);
    EXPECT_THAT(help.out, AllOf(HasSubstr("--grad_bits"), HasSubstr("--clip_factor"), HasSubstr("3000")));
    EXPECT_EQ(help.err, "");
  }
  const CommandOutcome version = train({"--version"});
  EXPECT_EQ(version.exit_code, kExitSuccess);
  EXPECT_THAT(version.out, StartsWith("terngrad_train "));
  // An error is not hidden by --help.
  EXPECT_EQ(train({"--help", "--max_steps", "x"}).exit_code, kExitUsage);
}

TEST(TrainCommand, WrongUsageExits2InOneLineAndLeavesNothing) {
  const TemporaryDirectory folder;
  const std::string run = (folder / "run").string();
  expect_usage_error(train({"--train_dir", run, "--grad_bit", "1"}), {"--grad_bit", "--grad_bits"});
  expect_usage_error(train({"--train_dir", run, "--max_steps", "12x"}), {"--max_steps", "12x"});
  expect_usage_error(train({"--train_dir", run, "--max_steps"}), {"--max_steps", "value"});
  expect_usage_error(train({"--train_dir", run, "run"}), {"unexpected argument 'run'"});
  expect_usage_error(train({"--train_dir", run, "--device", "cuda"}), {"--device cuda", "cpu"});
  expect_usage_error(train({"--train_dir", run, "--batch_size", "10", "--num_nodes", "4"}),
                     {"--batch_size 10", "--num_nodes 4"});
  expect_usage_error(train({"--train_dir", run, "--codec", "fp32", "--grad_bits", "1"}), {"--codec", "--grad_bits"});
  expect_usage_error(train({"--train_dir", run, "--dataset", "mnist"}), {"--data_dir"});
  expect_usage_error(train({"--resume"}), {"--resume", "--train_dir"});
  expect_usage_error(train({"--config", (folder / "none").string()}), {"--config", "none"});
  EXPECT_FALSE(fs::exists(run));
}

TEST(TrainCommand, RuleForNoTensorIsRefused) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  expect_usage_error(
      train(mnist.options(folder / "run") + std::vector<std::string>{"--codec_for", "convolution*=ternary"}),
      {"convolution*"});
  EXPECT_FALSE(fs::exists(folder / "run"));
}

TEST(TrainCommand, BadDataFilesExit1NamingTheFile) {
  struct Damage {
    const char* file;
    std::string content;
    const char* said;
  };
  const std::string images = testing::idx_images(3);
  const std::string labels = testing::idx_labels(3);
  const Damage damages[] = {
      {"train-images-idx3-ubyte", "", "train-images-idx3-ubyte"},
      {"train-images-idx3-ubyte", images.substr(0, images.size() - 1), "train-images-idx3-ubyte"},
      {"train-images-idx3-ubyte", big_endian(2050) + images.substr(4), "magic"},
      {"train-images-idx3-ubyte", images + "x", "train-images-idx3-ubyte"},
      {"train-labels-idx1-ubyte", labels, "train-labels-idx1-ubyte"},  // fewer labels than images
      {"train-labels-idx1-ubyte", labels.substr(0, 6), "train-labels-idx1-ubyte"},
      {"train-labels-idx1-ubyte", big_endian(2049) + big_endian(48) + std::string(48, '\x0a'), "10"},
      {"t10k-labels-idx1-ubyte", "", "t10k-labels-idx1-ubyte"},
  };
  const TemporaryDirectory folder;
  for (const Damage& damage : damages) {
    const SmallMnist mnist;
    mnist.folder().write(damage.file, damage.content);
    const CommandOutcome outcome = train(mnist.options(folder / "run"));
    EXPECT_EQ(outcome.exit_code, kExitFailure) << damage.file << ::testing::PrintToString(outcome);
    EXPECT_THAT(outcome.err, AllOf(StartsWith("terngrad_train: error: "), HasSubstr(damage.said)));
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
  const SmallMnist mnist;
  fs::remove(mnist.path() / "t10k-images-idx3-ubyte");
  const CommandOutcome missing = train(mnist.options(folder / "run"));
  EXPECT_EQ(missing.exit_code, kExitFailure);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("t10k-images-idx3-ubyte"), HasSubstr(mnist.path().string())));
  EXPECT_FALSE(fs::exists(folder / "run"));
}

TEST(TrainCommand, FolderThatHoldsSomethingIsRefused) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  folder.write("notes.txt", "mine");
  const CommandOutcome outcome = train(mnist.options(folder.path()));
  expect_usage_error(outcome, {"notes.txt", "--train_dir"});
  EXPECT_EQ(read_file_text(folder / "notes.txt"), "mine");
  EXPECT_FALSE(fs::exists(folder / "config.json"));
}

TEST(TrainCommand, RunIsNotOverwrittenAndSaysHowToGoOn) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const std::vector<std::string> options = mnist.options(folder / "run") + std::vector<std::string>{"--max_steps", "1"};
  EXPECT_EQ(train(options).exit_code, kExitSuccess);
  const std::string metrics = read_file_text(folder / "run" / "metrics.jsonl");
  expect_usage_error(train(options), {"not empty", "--resume"});
  EXPECT_EQ(read_file_text(folder / "run" / "metrics.jsonl"), metrics);
}

TEST(TrainCommand, WritesARunDirectory) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const CommandOutcome outcome =
      train(mnist.options(folder / "run") + std::vector<std::string>{"--max_steps", "4", "--num_nodes", "4",
                                                                     "--grad_bits", "1", "--log_steps", "2",
                                                                     "--telemetry_steps", "4", "--eval_steps", "2"});
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  EXPECT_EQ(outcome.out, "run directory: " + (folder / "run").string() + "\n");
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("4 workers of 2 examples, codec ternary"), HasSubstr("step 4/4"),
                                 HasSubstr("step 4 test top-1 = ")));
  std::string kinds;
  for (const Json& line : metrics_of(folder / "run")) {
    kinds += std::to_string(line["step"].get<int>()) + line["kind"].get<std::string>() + " ";
  }
  EXPECT_EQ(kinds, "2train 2test 4train 4tensors 4test ");
  const Json config = Json::parse(read_file_text(folder / "run" / "config.json"));
  EXPECT_EQ(config["options"]["num_nodes"], 4);
  EXPECT_EQ(config["options"]["max_steps"], 4);
  const auto latest = latest_checkpoint(folder / "run");
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(latest->step, 4u);
}

/// Runs to 20 steps, then again from the checkpoint of step `from`.
void expect_equal_resume(const std::vector<std::string>& more, std::uint64_t from) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  const std::vector<std::string> options =
      mnist.options(run) +
      std::vector<std::string>{"--max_steps", "20", "--save_iter", "10", "--keep_checkpoints", "0"} + more;
  const CommandOutcome whole = train(options);
  ASSERT_EQ(whole.exit_code, kExitSuccess) << ::testing::PrintToString(whole);
  const std::string checkpoint = read_file_text(checkpoint_path(run, 20));
  const std::vector<Json> metrics = metrics_of(run);
  remove_checkpoints_after(run, from);
  const CommandOutcome resumed = train(options + std::vector<std::string>{"--resume"});
  ASSERT_EQ(resumed.exit_code, kExitSuccess) << ::testing::PrintToString(resumed);
  EXPECT_THAT(resumed.err, HasSubstr("resumed after step " + std::to_string(from)));
  EXPECT_TRUE(read_file_text(checkpoint_path(run, 20)) == checkpoint);
  EXPECT_EQ(metrics_of(run), metrics);
  EXPECT_EQ(Json::parse(read_file_text(run / "config.json"))["history"].size(), 2u);
}

TEST(TrainCommand, ResumeEndsLikeTheUninterruptedRun) {
  expect_equal_resume({"--num_nodes", "4", "--grad_bits", "1", "--clip_factor", "2.5", "--log_steps", "5",
                       "--eval_steps", "5", "--telemetry_steps", "5"},
                      10);
  expect_equal_resume({"--log_steps", "5"}, 10);
}

TEST(TrainCommand, ResumeOfEveryOptimizerEndsLikeTheUninterruptedRun) {
  for (const char* optimizer : {"gd", "adam", "rmsprop"}) {
    expect_equal_resume({"--optimizer", optimizer, "--num_nodes", "2", "--grad_bits", "1"}, 10);
  }
}

TEST(TrainCommand, SkippedStepsAreNoUpdatesOfAdam) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  // Weights of about 1e38 after the first update: every gradient from then on is infinite or NaN.
  const CommandOutcome outcome = train(
      mnist.options(folder / "run") + std::vector<std::string>{"--optimizer", "adam", "--initial_learning_rate", "1e38",
                                                               "--learning_rate_decay_type", "fixed", "--on_nonfinite",
                                                               "skip", "--max_steps", "5", "--log_steps", "5"});
  ASSERT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  EXPECT_EQ(metrics_of(folder / "run").at(0)["skipped_steps"], 4);
  EXPECT_EQ(load_checkpoint(checkpoint_path(folder / "run", 5)).state().more.at("adam_updates"), "1");
}

TEST(TrainCommand, ResumeInTheMiddleOfALoggingIntervalKeepsItsMeans) {
  expect_equal_resume({"--log_steps", "7", "--telemetry_steps", "3"}, 10);
}

TEST(TrainCommand, ResumeOfAFinishedRunChangesNothing) {
  expect_equal_resume({"--log_steps", "6", "--num_nodes", "2"}, 20);
}

/// What metrics.jsonl says, as event files say it.
std::vector<testing::SeenScalar> scalars_of_metrics(const fs::path& run) {
  std::vector<testing::SeenScalar> scalars;
  std::istringstream text(read_file_text(run / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    const auto record = nlohmann::ordered_json::parse(line);
    for (const NamedScalar& scalar : scalars_of(record)) {
      scalars.push_back({record["step"].get<std::int64_t>(), scalar.tag, static_cast<float>(scalar.value)});
    }
  }
  return scalars;
}

TEST(TrainCommand, EventFilesSayWhatTheMetricsSay) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  const std::vector<std::string> options = mnist.options(run) + std::vector<std::string>{"--max_steps",
                                                                                         "20",
                                                                                         "--save_iter",
                                                                                         "10",
                                                                                         "--num_nodes",
                                                                                         "2",
                                                                                         "--grad_bits",
                                                                                         "1",
                                                                                         "--size_to_binarize",
                                                                                         "0",
                                                                                         "--quantize_logits",
                                                                                         "--log_steps",
                                                                                         "5",
                                                                                         "--telemetry_steps",
                                                                                         "4",
                                                                                         "--eval_steps",
                                                                                         "10",
                                                                                         "--histogram_steps",
                                                                                         "6"};
  ASSERT_EQ(train(options).exit_code, kExitSuccess);
  ASSERT_EQ(testing::event_files(run).size(), 1u);
  const std::vector<testing::SeenScalar> before = testing::seen_scalars(run);
  EXPECT_EQ(before, scalars_of_metrics(run));
  EXPECT_GT(before.size(), 100u);
  // A resumed run has a second file, which makes readers drop what comes after the checkpoint in the first.
  remove_checkpoints_after(run, 10);
  ASSERT_EQ(train(options + std::vector<std::string>{"--resume"}).exit_code, kExitSuccess);
  const std::vector<fs::path> files = testing::event_files(run);
  ASSERT_EQ(files.size(), 2u);
  const auto events = testing::read_events(files[1]);
  EXPECT_EQ(events.at(0).file_version(), "brain.Event:2");
  EXPECT_EQ(events.at(1).session_log().status(), tensorboard::SessionLog::START);
  EXPECT_EQ(events.at(1).step(), 11);
  EXPECT_EQ(testing::seen_scalars(run), scalars_of_metrics(run));
  std::vector<std::int64_t> histogram_steps;
  for (const auto& event : events) {
    if (event.summary().value_size() > 0 && event.summary().value(0).has_histo())
      histogram_steps.push_back(event.step());
  }
  EXPECT_THAT(histogram_steps, ::testing::ElementsAre(12, 18));
}

TEST(TrainCommand, EventFilesChangeNothingElse) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  std::vector<std::vector<Json>> metrics;
  std::vector<std::string> checkpoints;
  for (const char* option : {"--tensorboard", "--tensorboard=false"}) {
    const fs::path run = folder / option;
    ASSERT_EQ(
        train(mnist.options(run) + std::vector<std::string>{"--max_steps", "6", "--num_nodes", "2", "--grad_bits", "1",
                                                            "--log_steps", "2", "--telemetry_steps", "3", option})
            .exit_code,
        kExitSuccess);
    metrics.push_back(metrics_of(run));
    checkpoints.push_back(read_file_text(checkpoint_path(run, 6)));
    EXPECT_EQ(testing::event_files(run).size(), option == std::string("--tensorboard") ? 1u : 0u);
  }
  EXPECT_EQ(metrics[0], metrics[1]);
  EXPECT_TRUE(checkpoints[0] == checkpoints[1]);
  expect_usage_error(train({"--tensorboard=false", "--histogram_steps", "5"}), {"--histogram_steps", "--tensorboard"});
}

TEST(TrainCommand, ResumeWithoutACheckpointStartsOver) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  const std::vector<std::string> options = mnist.options(run) + std::vector<std::string>{"--max_steps", "2"};
  // No run at all is refused.
  expect_usage_error(train(options + std::vector<std::string>{"--resume"}), {"no run to go on with", run.string()});
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
                     {"--clip_factor '2'", "'0'"});
  expect_usage_error(resume({"--num_nodes", "2", "--grad_bits", "1", "--seed", "2"}), {"seed '2'", "'1'"});
  expect_usage_error(resume({"--num_nodes", "2", "--grad_bits", "1", "--optimizer", "gd"}), {"optimizer 'gd'"});
  expect_usage_error(resume({"--num_nodes", "2", "--grad_bits", "1", "--clip_by_global_norm", "3"}),
                     {"clip_by_global_norm '3'", "'0'"});
  expect_usage_error(resume({"--num_nodes", "2", "--grad_bits", "1", "--nan_to_zero"}), {"nan_to_zero 'true'"});
  expect_usage_error(resume({"--num_nodes", "2", "--grad_bits", "1", "--max_steps", "1"}),
                     {"--max_steps 1", "has done 2 steps", "2 or more"});
  EXPECT_EQ(read_file_text(run / "config.json"), config);
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
  // What the message says is enough to go on.
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

TEST(TrainCommand, EvaluationThatFailsCostsNoStep) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const std::vector<std::string> options =
      mnist.options(folder / "run") +
      std::vector<std::string>{"--max_steps", "2", "--save_iter", "2", "--eval_steps", "2"};
  ASSERT_EQ(train(options).exit_code, kExitSuccess);
  // The checkpoint is older than the line of the evaluation after the same step.
  EXPECT_LE(fs::last_write_time(checkpoint_path(folder / "run", 2)),
            fs::last_write_time(folder / "run" / "metrics.jsonl"));
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

/// A learning rate that makes everything infinite within a few steps.
std::vector<std::string> exploding(const SmallMnist& mnist, const fs::path& run) {
  return mnist.options(run) +
         std::vector<std::string>{"--initial_learning_rate", "1e30", "--max_steps", "8", "--log_steps", "4"};
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
    EXPECT_THAT(outcome.last_error_line(), MatchesRegex("terngrad_train: error: step [0-9]+: tensor '[a-z0-9/]+' of "
                                                        "worker 0 holds NaN or infinity.*; no checkpoint was saved.*"))
        << ::testing::PrintToString(mode);
    EXPECT_EQ(outcome.out, "");
  }
  const TemporaryDirectory folder;
  const CommandOutcome outcome =
      train(exploding(mnist, folder / "run") + std::vector<std::string>{"--save_iter", "1", "--num_nodes", "2"});
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_THAT(outcome.last_error_line(), AllOf(HasSubstr("holds NaN or infinity"), HasSubstr("go on from"),
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
      // A net of NaN gets nothing right.
      const Json test = metrics_of(folder / "run").back();
      EXPECT_EQ(test["kind"], "test");
      EXPECT_LT(test["top1"].get<double>(), 0.5);
    }
  }
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

TEST(TrainCommand, BenchmarkModeNeedsNoFiles) {
  const TemporaryDirectory folder;
  const std::vector<std::string> options = {
      "--dataset",   "mnist", "--benchmark_mode", "--image_size", "16", "--batch_size", "8", "--threads", "1",
      "--max_steps", "2",     "--train_dir"};
  const std::string run = (folder / "run").string();
  const CommandOutcome outcome = train(options + std::vector<std::string>{run});
  ASSERT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  EXPECT_THAT(outcome.err, Not(HasSubstr("top-1")));
  EXPECT_EQ(metrics_of(run).size(), 1u);
  EXPECT_TRUE(latest_checkpoint(run).has_value());
  const CommandOutcome evaluated = testing::eval({"--checkpoint_dir", run, "--data_dir", "x"});
  EXPECT_EQ(evaluated.exit_code, kExitUsage);
  EXPECT_THAT(evaluated.err, AllOf(HasSubstr("constant images"), HasSubstr("give --dataset")));
  const std::string other = (folder / "other").string();
  expect_usage_error(train(options + std::vector<std::string>{other, "--data_dir", "x"}),
                     {"--data_dir", "--benchmark_mode"});
  expect_usage_error(train(options + std::vector<std::string>{other, "--eval_steps", "1"}),
                     {"--eval_steps", "--benchmark_mode"});
  EXPECT_FALSE(fs::exists(other));
}

/// The group of a checkpoint as flat values.
std::vector<float> group_of(const fs::path& path, const char* group) {
  const Checkpoint checkpoint = load_checkpoint(path);
  std::vector<float> values;
  for (const TensorRecord& tensor : checkpoint.tensors()) {
    if (!tensor.name.starts_with(std::string(group) + "/")) continue;
    const auto* begin = reinterpret_cast<const float*>(tensor.bytes.data());
    values.insert(values.end(), begin, begin + tensor.bytes.size() / sizeof(float));
  }
  return values;
}

TEST(TrainCommand, BeginsWithTheParametersOfAnotherRun) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const std::string first = (folder / "first").string();
  ASSERT_EQ(train(mnist.options(first) + std::vector<std::string>{"--max_steps", "2"}).exit_code, kExitSuccess);
  const std::string from = checkpoint_path(first, 2).string();
  const auto start = [&](const std::string& name, const std::vector<std::string>& more) {
    return train(mnist.options(folder / name) + std::vector<std::string>{"--max_steps", "1", "--init_from", from} +
                 more);
  };
  ASSERT_EQ(start("again", {}).exit_code, kExitSuccess);
  // The beginning is saved: it cannot be computed again without the other run.
  EXPECT_EQ(group_of(checkpoint_path(folder / "again", 0), "parameters"), group_of(from, "parameters"));
  EXPECT_EQ(group_of(checkpoint_path(folder / "again", 0), "ema"), group_of(from, "parameters"));
  ASSERT_EQ(start("tuned", {"--fine_tune", "--seed", "2"}).exit_code, kExitSuccess);
  const std::vector<float> tuned = group_of(checkpoint_path(folder / "tuned", 0), "parameters");
  const std::vector<float> source = group_of(from, "parameters");
  ASSERT_EQ(tuned.size(), source.size());
  const std::size_t num_different = static_cast<std::size_t>(std::inner_product(
      tuned.begin(), tuned.end(), source.begin(), 0, std::plus<>(), [](float a, float b) { return a != b ? 1 : 0; }));
  // LeNet's logits have 500 x 10 weights and 10 biases; biases begin as zeros and have moved in the other run.
  EXPECT_GT(num_different, 5000u);
  EXPECT_LE(num_different, 5010u);

  expect_usage_error(start("bad", {"--resume"}), {"--init_from", "--resume"});
  expect_usage_error(train(mnist.options(folder / "bad") + std::vector<std::string>{"--fine_tune"}),
                     {"--fine_tune", "--init_from"});
  const CommandOutcome missing =
      train(mnist.options(folder / "bad") + std::vector<std::string>{"--init_from", (folder / "none").string()});
  expect_usage_error(missing, {"--init_from " + (folder / "none").string()});
  testing::damage(from);
  expect_usage_error(start("bad", {}), {"--init_from " + from, "damaged"});
  EXPECT_THAT(start("bad", {}).err, Not(HasSubstr("remove")));
  EXPECT_FALSE(fs::exists(folder / "bad"));
}

TEST(TrainCommand, WarmStartThatLostItsBeginningIsNotStartedOver) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  ASSERT_EQ(train(mnist.options(folder / "first") + std::vector<std::string>{"--max_steps", "1"}).exit_code,
            kExitSuccess);
  const std::vector<std::string> options = mnist.options(folder / "run") + std::vector<std::string>{"--max_steps", "1"};
  ASSERT_EQ(
      train(options + std::vector<std::string>{"--init_from", checkpoint_path(folder / "first", 1).string()}).exit_code,
      kExitSuccess);
  remove_checkpoints_after(folder / "run", 0);
  EXPECT_EQ(train(options + std::vector<std::string>{"--resume"}).exit_code, kExitSuccess);
  remove_checkpoints_after(folder / "run", 0);
  fs::remove(checkpoint_path(folder / "run", 0));
  expect_usage_error(train(options + std::vector<std::string>{"--resume"}), {"--init_from", "no checkpoint"});
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

TEST(TrainCommand, ResumeWithTransformsKeepsTheirCounts) {
  expect_equal_resume({"--clip_by_global_norm", "0.5", "--nan_to_zero", "--num_nodes", "2", "--log_steps", "7"}, 10);
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
  // A longer run keeps the stairs, and other stairs are another run.
  const std::vector<std::string> longer = options + std::vector<std::string>{"--max_steps", "10", "--resume"};
  std::vector<std::string> others = longer;
  *std::ranges::find(others, "0.6") = "0.5";
  expect_usage_error(train(others), {"num_epochs_per_decay '0.5'", "'0.6'"});
  others = longer;
  *std::ranges::find(others, "0.5") = "0.25";
  expect_usage_error(train(others), {"learning_rate_decay_factor '0.25'", "'0.5'"});
  EXPECT_EQ(train(longer).exit_code, kExitSuccess);
}

TEST(TrainCommand, FloatingEpochsSendFp32AndTelemetrySaysSo) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  // 48 examples in batches of 8: epochs of 6 steps, of which every second is floating.
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
      const double ratio = line["compression_ratio"];
      // Headers cost a little of 1, and of the 16 of two bits per element.
      EXPECT_TRUE(floating ? ratio > 0.9 && ratio < 1 : ratio > 12 && ratio < 16) << step << " " << ratio;
    } else if (line["kind"] == "tensors") {
      for (const auto& tensor : line["tensors"]) {
        EXPECT_EQ(tensor["scaler"] == 0.0, floating) << step;
        EXPECT_EQ(tensor["snr_db"].is_null(), floating) << step;  // infinite where nothing is lost
      }
    }
  }
  EXPECT_EQ(num_floating, 6);
  std::vector<std::string> others = options + std::vector<std::string>{"--max_steps", "14", "--resume"};
  others[static_cast<std::size_t>(std::ranges::find(others, "--floating_grad_epoch") - others.begin()) + 1] = "3";
  expect_usage_error(train(others), {"floating_grad_epoch '3'", "'2'"});
}

TEST(TrainCommand, ResumeInsideAFloatingEpochEndsLikeTheUninterruptedRun) {
  expect_equal_resume({"--num_nodes", "2", "--grad_bits", "1", "--floating_grad_epoch", "2", "--log_steps", "7",
                       "--telemetry_steps", "4"},
                      10);
}

TEST(TrainCommand, CodecThatNoTensorUsesIsRefusedBeforeAnyWork) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  expect_usage_error(train(mnist.options(folder / "run") +
                           std::vector<std::string>{"--grad_bits", "1", "--clip_factor", "2", "--codec_for", "*=fp32"}),
                     {"--grad_bits 1", "--net lenet"});
  EXPECT_FALSE(fs::exists(folder / "run"));
}

TEST(TrainCommand, ReadsItsOptionsFromAFile) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const fs::path file = folder.write("run.cfg", "dataset = mnist\nmax_steps = 5\n# more\ngrad_bits = 1\n");
  const CommandOutcome outcome =
      train({"--config", file.string(), "--data_dir", mnist.path().string(), "--train_dir", (folder / "run").string(),
             "--image_size", "16", "--threads", "1", "--batch_size", "8", "--max_steps", "2"});
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("codec ternary"));
  EXPECT_TRUE(fs::exists(checkpoint_path(folder / "run", 2)));
}

TEST(TrainCommand, FolderThatCannotBeMadeIsAnError) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const fs::path file = folder.write("file", "x");
  const CommandOutcome outcome = train(mnist.options(file / "run"));
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("file/run"), Not(HasSubstr("Segmentation"))));
}

}  // namespace
}  // namespace terngrad
