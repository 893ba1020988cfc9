// Usage, files and folders. See also train_{events,recipe,resume,warm_start}_test.cpp.
#include "trainers/commands/train_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/trainers/train_runs.h"
#include "trainers/checkpoint/checkpoint.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::train_command_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::big_endian;
using testing::CommandOutcome;
using testing::expect_usage_error;
using ::testing::HasSubstr;
using testing::metrics_of;
using ::testing::Not;
using testing::remove_checkpoints_after;
using testing::SmallMnist;
using ::testing::StartsWith;
using testing::TemporaryDirectory;
using testing::train;
using Json = nlohmann::json;

using testing::operator+;
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
  // --help does not hide errors.
  EXPECT_EQ(train({"--help", "--max_steps", "x"}).exit_code, kExitUsage);
}

TEST(TrainCommand, ListsTheCodecs) {
  const CommandOutcome list = train({"--list_codecs"});
  EXPECT_EQ(list.exit_code, kExitSuccess);
  EXPECT_THAT(list.out, AllOf(HasSubstr("\nfp32\n"), HasSubstr("\nternary\n"), HasSubstr("clip_factor=0 ")));
  EXPECT_EQ(list.err, "");
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
  expect_usage_error(train({"--train_dir", run, "--codec", "ternary:bits=4"}),
                     {"--codec ternary:bits=4", "no key 'bits'", "clip_factor"});
  expect_usage_error(train({"--train_dir", run, "--codec", "ternary:clip_factor=1", "--clip_factor", "2"}),
                     {"--clip_factor 2", "clip_factor=1", "--codec ternary:clip_factor=1"});
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

TEST(TrainCommand, FirstLineSaysWhatTheDataAre) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const CommandOutcome outcome = train(mnist.options(folder / "run") + std::vector<std::string>{"--max_steps", "1"});
  EXPECT_THAT(
      outcome.err,
      StartsWith("data mnist: 16 x 16 x 1, 10 classes, 48 training and 20 test examples\ntraining lenet on mnist: "));
}

TEST(TrainCommand, RunsThatNeedMoreMemoryThanThereIsAreRefused) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  expect_usage_error(
      testing::run_command(
          "terngrad_train", run_train,
          {"--dataset", "mnist", "--data_dir", mnist.path().string(), "--train_dir", (folder / "run").string(),
           "--image_size", "512", "--num_nodes", "8192", "--batch_size", "8192", "--threads", "1", "--device", "cpu"}),
      {"this run needs at least ", "GB for the gradients of 8192 workers", "data set mnist in '", "lower --num_nodes"});
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

TEST(TrainCommand, ProfileSaysHowAStepIsSplit) {
  const TemporaryDirectory folder;
  const std::vector<std::string> options = {"--benchmark_mode",
                                            "--image_size",
                                            "8",
                                            "--batch_size",
                                            "4",
                                            "--threads",
                                            "1",
                                            "--device",
                                            "cpu",
                                            "--num_nodes",
                                            "2",
                                            "--max_steps",
                                            "5"};
  const CommandOutcome profiled =
      train(options + std::vector<std::string>{"--profile", "--train_dir", (folder / "profiled").string()});
  ASSERT_EQ(profiled.exit_code, kExitSuccess) << ::testing::PrintToString(profiled);
  EXPECT_THAT(profiled.out, HasSubstr(" ms per step, mean of 2 (the first 3 are left out)\n"));
  for (const char* part : {"data", "compute", "exposed exchange", "update", "the rest", "hidden exchange",
                           "- measure, encode", "- wire", "- decode"}) {
    EXPECT_THAT(profiled.out, HasSubstr("\n  " + std::string(part) + " ")) << part;
  }
  const CommandOutcome plain = train(options + std::vector<std::string>{"--train_dir", (folder / "plain").string()});
  EXPECT_THAT(plain.out, Not(HasSubstr("profile")));
  // Profiling does not change the run.
  EXPECT_TRUE(read_file_text(checkpoint_path(folder / "profiled", 5)) ==
              read_file_text(checkpoint_path(folder / "plain", 5)));
}

TEST(TrainCommand, DumpedMessagesAreThoseOfTheFirstSteps) {
  const TemporaryDirectory folder;
  const std::vector<std::string> options = {"--benchmark_mode",
                                            "--image_size",
                                            "8",
                                            "--batch_size",
                                            "4",
                                            "--threads",
                                            "1",
                                            "--device",
                                            "cpu",
                                            "--num_nodes",
                                            "2",
                                            "--max_steps",
                                            "3",
                                            "--grad_bits",
                                            "1"};
  const std::vector<std::string> dump = {"--dump_messages", (folder / "dump").string(), "--dump_steps", "2"};
  const std::vector<std::string> dumped = options + dump;
  const CommandOutcome outcome = train(dumped + std::vector<std::string>{"--train_dir", (folder / "dumped").string()});
  ASSERT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  // layout.json, and for each of two steps the scalers and the gradient of both workers.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "dump"), fs::directory_iterator()), 1 + 2 * 4);
  EXPECT_TRUE(fs::exists(folder / "dump" / "step-000001-rank-0-0003-gradient-worker-1.msg"));
  // Dumping does not change the run.
  train(options + std::vector<std::string>{"--train_dir", (folder / "plain").string()});
  EXPECT_TRUE(read_file_text(checkpoint_path(folder / "dumped", 3)) ==
              read_file_text(checkpoint_path(folder / "plain", 3)));
  expect_usage_error(train(dumped + std::vector<std::string>{"--train_dir", (folder / "again").string()}),
                     {"--dump_messages", "is not empty"});
  EXPECT_FALSE(fs::exists(folder / "again"));
  // With many workers auto chooses integer_sum, which has no messages to dump.
  expect_usage_error(train({"--benchmark_mode", "--image_size", "8", "--batch_size", "8", "--num_nodes", "8",
                            "--threads", "1", "--device", "cpu", "--grad_bits", "1", "--quantize_logits",
                            "--dump_messages", (folder / "sums").string(), "--train_dir", (folder / "again").string()}),
                     {"--dump_messages", "auto is integer_sum", "all_gather, scatter_reduce"});
  EXPECT_FALSE(fs::exists(folder / "again"));
}

TEST(TrainCommand, DumpsGradientsWithEveryStrategyAndChangesNoBit) {
  const SmallMnist mnist;
  for (const std::string strategy : {"simple", "replicated", "ps", "async"}) {
    SCOPED_TRACE(strategy);
    const TemporaryDirectory folder;
    const std::vector<std::string> options = {"--strategy",  strategy, "--num_nodes", strategy == "simple" ? "1" : "2",
                                              "--max_steps", "5"};
    const CommandOutcome dumped =
        train(mnist.options(folder / "dumped") + options + std::vector<std::string>{"--dump_gradients", "2"});
    ASSERT_EQ(dumped.exit_code, kExitSuccess) << ::testing::PrintToString(dumped);
    train(mnist.options(folder / "plain") + options);
    EXPECT_TRUE(read_file_text(checkpoint_path(folder / "dumped", 5)) ==
                read_file_text(checkpoint_path(folder / "plain", 5)));
    const fs::path gradients = folder / "dumped" / "gradients";
    EXPECT_EQ(std::distance(fs::directory_iterator(gradients), fs::directory_iterator()), 2);
    EXPECT_THAT(read_file_text(gradients / "step-0000000004.safetensors"),
                HasSubstr(strategy == "simple" ? "worker-0000/conv1/weights" : "worker-0001/conv1/weights"));
  }
}

TEST(TrainCommand, ARunThatIsResumedWritesTheSameGradients) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const std::vector<std::string> options =
      mnist.options(folder / "run") + std::vector<std::string>{"--max_steps",      "4", "--save_iter",           "2",
                                                               "--dump_gradients", "1", "--clip_by_global_norm", "1"};
  ASSERT_EQ(train(options).exit_code, kExitSuccess);
  const fs::path last = folder / "run" / "gradients" / "step-0000000004.safetensors";
  const std::string written = read_file_text(last);
  fs::remove(last);
  remove_checkpoints_after(folder / "run", 2);
  ASSERT_EQ(train(options + std::vector<std::string>{"--resume"}).exit_code, kExitSuccess);
  EXPECT_TRUE(read_file_text(last) == written);
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
}  // namespace terngrad::train_command_test
