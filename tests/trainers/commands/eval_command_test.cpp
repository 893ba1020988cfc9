#include "trainers/commands/eval_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/formats/npy.h"
#include "tests/support/sanitized.h"
#include "tests/trainers/command_runs.h"
#include "tests/trainers/event_reader.h"
#include "trainers/checkpoint/checkpoint.h"
#include "trainers/evaluate/evaluate.h"
#include "trainers/io/atomic_file.h"
#include "trainers/io/safetensors.h"

namespace terngrad::eval_command_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::CommandOutcome;
using ::testing::EndsWith;
using testing::eval;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using testing::SmallMnist;
using ::testing::StartsWith;
using testing::TemporaryDirectory;
using testing::train;
using testing::operator+;

/// A finished run of three steps on a small data set, made once.
class EvalCommand : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    mnist_ = new SmallMnist;
    folder_ = new TemporaryDirectory;
    const CommandOutcome outcome =
        train(mnist_->options(run()) + std::vector<std::string>{"--max_steps", "3", "--save_iter", "2"});
    ASSERT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  }
  static void TearDownTestSuite() {
    delete folder_;
    delete mnist_;
  }
  static fs::path run() { return *folder_ / "run"; }
  static std::vector<std::string> data() { return {"--data_dir", mnist_->path().string(), "--threads", "1"}; }
  static CommandOutcome eval_file(const fs::path& file) {
    return eval(data() + std::vector<std::string>{"--checkpoint", file.string()});
  }

  static inline SmallMnist* mnist_ = nullptr;
  static inline TemporaryDirectory* folder_ = nullptr;
};

TEST_F(EvalCommand, HelpAndVersionGoToStdout) {
  const CommandOutcome help = eval({"--help"});
  EXPECT_EQ(help.exit_code, kExitSuccess);
  EXPECT_THAT(help.out, HasSubstr("--checkpoint_dir"));
  EXPECT_EQ(help.err, "");
  const CommandOutcome version = eval({"--version"});
  EXPECT_EQ(version.exit_code, kExitSuccess);
  EXPECT_THAT(version.out, StartsWith("terngrad_eval "));
}

TEST_F(EvalCommand, LastLineIsTheResult) {
  const CommandOutcome outcome = eval(data() + std::vector<std::string>{"--checkpoint_dir", run().string()});
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, MatchesRegex(".*: step 3, ema weights, mnist test, loss [0-9.]+\n"
                                        "top-1 = [01]\\.[0-9]{4} top-5 = [01]\\.[0-9]{4} \\[20 examples\\]\n"));
}

TEST_F(EvalCommand, DataIsTheRunsWhereNotGiven) {
  const CommandOutcome given = eval(data() + std::vector<std::string>{"--checkpoint_dir", run().string()});
  EXPECT_EQ(eval({"--threads", "1", "--checkpoint_dir", run().string()}).out, given.out);
  const std::string file = checkpoint_path(run(), 3).string();
  EXPECT_EQ(eval({"--threads", "1", "--checkpoint", file}).out, given.out);
  // A checkpoint outside of its run does not know the data.
  const TemporaryDirectory folder;
  fs::copy_file(file, folder / "checkpoint-3.safetensors");
  const auto refusal = [&] {
    const CommandOutcome outcome =
        eval({"--threads", "1", "--checkpoint", (folder / "checkpoint-3.safetensors").string()});
    EXPECT_EQ(outcome.exit_code, kExitUsage);
    return outcome.err;
  };
  EXPECT_THAT(refusal(), HasSubstr("--data_dir: must name the folder with the files of data set mnist\n"));
  const auto write_config = [&](const std::string& data_dir, bool shards) {
    const nlohmann::json options = {{"dataset", "mnist"}, {"data_dir", data_dir}, {"data_shards", shards}};
    folder.write("config.json", nlohmann::json{{"options", options}}.dump());
  };
  write_config("/nowhere", false);
  EXPECT_THAT(refusal(), HasSubstr("; the run's, '/nowhere', is not a folder here"));
  write_config(mnist_->path().string(), true);
  EXPECT_THAT(refusal(), HasSubstr("shards of it below '" + mnist_->path().string() + "'"));
}

TEST_F(EvalCommand, EvaluatesTheCheckpointWeightsAndSubsetAskedFor) {
  const std::string file = checkpoint_path(run(), 2).string();
  const CommandOutcome outcome =
      eval(data() + std::vector<std::string>{"--checkpoint", file, "--subset", "train", "--restore_avg_var=false"});
  EXPECT_EQ(outcome.exit_code, kExitSuccess);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("step 2, parameters weights, mnist train"), EndsWith("[48 examples]\n")));
  EXPECT_NE(outcome.out, eval(data() + std::vector<std::string>{"--checkpoint", file, "--subset", "train"}).out);
}

TEST_F(EvalCommand, WrongUsageExits2InOneLine) {
  const std::string dir = run().string();
  struct Case {
    std::vector<std::string> arguments;
    std::vector<std::string> said;
  };
  const Case cases[] = {
      {{}, {"--checkpoint_dir", "--checkpoint"}},
      {{"--checkpoint_dir", dir, "--checkpoint", "x"}, {"--checkpoint_dir", "--checkpoint"}},
      {{"--checkpoint_dir", dir, "--dataset", "npy"}, {"--data_dir", "npy"}},
      {{"--checkpoint_dir", dir, "--data_dir", "d", "--dataset", "synthetic"}, {"--data_dir", "synthetic"}},
      {{"--checkpoint_dir", dir, "--dataset", "svhn"}, {"--dataset", "svhn", "synthetic", "mnist"}},
      {{"--checkpoint_dir", dir, "--dataset_name", "svhn"}, {"svhn", "synthetic", "mnist"}},
      {{"--checkpoint_dir", dir, "--subset", "validation"}, {"--subset", "validation", "train, test"}},
      {{"--checkpoint_dir", dir, "--threads", "-1"}, {"--threads", "-1", "at least 0"}},
      {{"--checkpoint_dir", dir, "--restore_avg_var=maybe"}, {"--restore_avg_var", "maybe"}},
      {{"--checkpoint_dir", dir, "--eval_interval_secs", "5", "--run_once"}, {"--run_once", "--eval_interval_secs 5"}},
      {{"--checkpoint_dir", dir, "--run_once=false"}, {"--run_once=false", "--eval_interval_secs"}},
      {{"--checkpoint", "x", "--eval_interval_secs", "5"}, {"--eval_interval_secs", "--checkpoint_dir"}},
      {{"--checkpoint_dir", dir, "--eval_interval_secs", "-1"}, {"--eval_interval_secs", "-1", "at least 0"}},
      {{"--checkpoint_dir", dir, "--num_examples", "-1"}, {"--num_examples", "-1", "at least 0"}},
      {{"--checkpoint_dir", dir, "--data_dir", mnist_->path().string(), "--num_examples", "21"},
       {"--num_examples 21", "mnist test has 20 examples"}},
      {{"--checkpoint_dirs", dir}, {"--checkpoint_dirs", "--checkpoint_dir?"}},
  };
  for (const Case& each : cases) {
    const CommandOutcome outcome = eval(each.arguments);
    EXPECT_EQ(outcome.exit_code, kExitUsage) << ::testing::PrintToString(outcome);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, StartsWith("terngrad_eval: error: "));
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1);
    for (const std::string& words : each.said) EXPECT_THAT(outcome.err, HasSubstr(words));
  }
}

std::vector<std::int32_t> predictions_in(const fs::path& file) {
  const std::vector<std::byte> bytes = read_file_bytes(file);
  const NpyArray array = parse_npy(file.string(), {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  EXPECT_EQ(array.kind, NpyKind::kSigned);
  EXPECT_EQ(array.element_bytes, 4u);
  std::vector<std::int32_t> values(static_cast<std::size_t>(array.num_elements));
  std::memcpy(values.data(), array.data.data(), array.data.size());
  return values;
}

TEST_F(EvalCommand, PredictionsComparedWithLabelsAreTheAccuracy) {
  const TemporaryDirectory folder;
  const std::string file = (folder / "p.npy").string();
  for (const char* subset : {"train", "test"}) {
    const std::vector<std::string> options =
        data() + std::vector<std::string>{"--checkpoint_dir", run().string(), "--subset", subset};
    const CommandOutcome outcome = eval(options + std::vector<std::string>{"--predictions", file});
    ASSERT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
    EXPECT_EQ(outcome.out, eval(options).out);
    const auto set = make_dataset("mnist", {.data_dir = mnist_->path().string(),
                                            .subset = subset == std::string("test") ? Subset::kTest : Subset::kTrain,
                                            .image_size = 16});
    const std::vector<std::int32_t> predicted = predictions_in(file);
    ASSERT_EQ(static_cast<std::int64_t>(predicted.size()), set->num_examples());
    int hits = 0;
    for (std::size_t i = 0; i < predicted.size(); ++i) hits += predicted[i] == set->label(static_cast<std::int64_t>(i));
    Evaluation counted;
    counted.top1 = static_cast<double>(hits) / static_cast<double>(predicted.size());
    EXPECT_THAT(outcome.out, HasSubstr(to_string(counted).substr(0, std::string("top-1 = 0.0000").size())));
    // With fewer examples: the predictions of the first ones.
    ASSERT_EQ(eval(options + std::vector<std::string>{"--predictions", file, "--num_examples", "7"}).exit_code,
              kExitSuccess);
    EXPECT_EQ(predictions_in(file), std::vector<std::int32_t>(predicted.begin(), predicted.begin() + 7));
  }
}

TEST_F(EvalCommand, PredictionsOfAKnownResultAreComputed) {
  const TemporaryDirectory folder;
  const std::vector<std::string> options =
      data() + std::vector<std::string>{"--checkpoint_dir", run().string(), "--eval_dir", (folder / "eval").string()};
  const CommandOutcome first = eval(options);
  ASSERT_EQ(first.exit_code, kExitSuccess);
  const std::string metrics = read_file_text(folder / "eval" / "metrics.jsonl");
  const CommandOutcome again = eval(options + std::vector<std::string>{"--predictions", (folder / "p.npy").string()});
  EXPECT_EQ(again.exit_code, kExitSuccess) << ::testing::PrintToString(again);
  EXPECT_EQ(again.out, first.out);
  EXPECT_EQ(predictions_in(folder / "p.npy").size(), 20u);
  EXPECT_EQ(read_file_text(folder / "eval" / "metrics.jsonl"), metrics);
}

TEST_F(EvalCommand, PredictionsThatCannotBeWrittenAreRefusedBeforeAnythingElse) {
  const TemporaryDirectory folder;
  const std::vector<std::string> options = data() + std::vector<std::string>{"--checkpoint_dir", run().string()};
  const auto refused = [&](const std::vector<std::string>& more) {
    const CommandOutcome outcome = eval(options + more);
    EXPECT_EQ(outcome.exit_code, kExitUsage) << ::testing::PrintToString(outcome);
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  const std::string file = (folder / "p.npy").string();
  EXPECT_THAT(refused({"--predictions", file, "--eval_interval_secs", "5"}),
              AllOf(HasSubstr("--predictions " + file), HasSubstr("--eval_interval_secs 5")));
  EXPECT_FALSE(fs::exists(file));
  EXPECT_THAT(refused({"--predictions", (folder / "p.txt").string()}), HasSubstr("a file name that ends in .npy"));
  const std::string nowhere = (folder / "none" / "p.npy").string();
  EXPECT_THAT(refused({"--predictions", nowhere}), HasSubstr("--predictions " + nowhere));
}

TEST_F(EvalCommand, NumExamplesTakesTheFirst) {
  const std::vector<std::string> all = data() + std::vector<std::string>{"--checkpoint_dir", run().string()};
  const CommandOutcome some = eval(all + std::vector<std::string>{"--num_examples", "7", "--run_once"});
  EXPECT_EQ(some.exit_code, kExitSuccess);
  EXPECT_THAT(some.out, EndsWith("[7 examples]\n"));
  EXPECT_EQ(eval(all + std::vector<std::string>{"--num_examples", "20"}).out, eval(all).out);
  EXPECT_FALSE(fs::exists(run() / "eval"));
}

TEST_F(EvalCommand, EvalDirKeepsResults) {
  const TemporaryDirectory folder;
  const std::vector<std::string> options =
      data() + std::vector<std::string>{"--checkpoint_dir", run().string(), "--eval_dir", folder.path().string()};
  const CommandOutcome outcome = eval(options);
  EXPECT_EQ(outcome.exit_code, kExitSuccess);
  EXPECT_EQ(outcome.err, "");
  const std::string metrics = read_file_text(folder / "metrics.jsonl");
  EXPECT_THAT(metrics, AllOf(StartsWith("{\"step\":3,\"kind\":\"test\",\"weights\":\"ema\","),
                             HasSubstr("\"examples\":20,\"dataset\":\"mnist\",\"data_fingerprint\":\"")));
  // The second time: same result, nothing written twice.
  const CommandOutcome again = eval(options);
  EXPECT_EQ(again.out, outcome.out);
  EXPECT_THAT(again.err, HasSubstr("step 3 is evaluated already"));
  EXPECT_EQ(read_file_text(folder / "metrics.jsonl"), metrics);
  const CommandOutcome other = eval(options + std::vector<std::string>{"--subset", "train"});
  EXPECT_EQ(other.exit_code, kExitUsage);
  EXPECT_THAT(other.err, HasSubstr("--eval_dir"));
}

TEST_F(EvalCommand, AResultOnOtherDataIsNotTakenForThisOne) {
  const TemporaryDirectory folder;
  const auto eval_on = [&](const SmallMnist& mnist) {
    return eval({"--checkpoint_dir", run().string(), "--data_dir", mnist.path().string(), "--threads", "1",
                 "--eval_dir", folder.path().string()});
  };
  ASSERT_EQ(eval_on(*mnist_).exit_code, kExitSuccess);
  const std::string metrics = read_file_text(folder / "metrics.jsonl");
  // The same number and size of images, but one other label.
  const SmallMnist other;
  std::string labels = read_file_text(other.path() / "t10k-labels-idx1-ubyte");
  labels.back() = static_cast<char>(labels.back() == 0);
  other.folder().write("t10k-labels-idx1-ubyte", labels);
  const CommandOutcome outcome = eval_on(other);
  EXPECT_EQ(outcome.exit_code, kExitUsage) << ::testing::PrintToString(outcome);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("--eval_dir " + folder.path().string()), HasSubstr("(data "),
                                 HasSubstr("give these their own folder")));
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(read_file_text(folder / "metrics.jsonl"), metrics);
  // A copy of the data is the same data.
  const SmallMnist copy;
  EXPECT_THAT(eval_on(copy).err, HasSubstr("step 3 is evaluated already"));
}

/// Evaluated steps in the run's results folder.
std::vector<int> evaluated_steps(const fs::path& run) {
  std::vector<int> steps;
  if (!fs::exists(run / "eval" / "metrics.jsonl")) return steps;
  std::istringstream lines(read_file_text(run / "eval" / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) steps.push_back(nlohmann::json::parse(line)["step"].get<int>());
  return steps;
}

void wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < 6000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

TEST_F(EvalCommand, FollowsARunUntilItsLastStep) {
  const TemporaryDirectory folder;
  const fs::path followed = folder / "run";
  const std::vector<std::string> options =
      data() + std::vector<std::string>{"--checkpoint_dir", followed.string(), "--eval_interval_secs", "0.01"};
  // Simulates a run that starts after its evaluation and waits for each result.
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(fs::exists(followed)) << "a folder that exists would stop the run from beginning";
    fs::create_directory(followed);
    fs::copy_file(run() / "config.json", followed / "config.json");
    fs::copy_file(checkpoint_path(run(), 2), folder / "2");
    fs::rename(folder / "2", checkpoint_path(followed, 2));
    wait_until([&] { return evaluated_steps(followed).size() == 1; });
    fs::copy_file(checkpoint_path(run(), 3), folder / "3");
    fs::rename(folder / "3", checkpoint_path(followed, 3));
    fs::remove(checkpoint_path(followed, 2));
  });
  const CommandOutcome outcome = eval(options);
  writer.join();
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("no checkpoint in " + followed.string() + " yet"));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr(": step 2, ema"), HasSubstr(": step 3, ema"), EndsWith("[20 examples]\n")));
  EXPECT_THAT(evaluated_steps(followed), ::testing::ElementsAre(2, 3));
  const auto scalars = testing::seen_scalars(followed / "eval");
  EXPECT_EQ(std::ranges::count(scalars, "test/top1", &testing::SeenScalar::tag), 2);
  // Following a finished run ends at once, with the same result.
  const CommandOutcome again = eval(options);
  EXPECT_EQ(again.exit_code, kExitSuccess);
  EXPECT_THAT(again.out, AllOf(HasSubstr(": step 3, ema"), Not(HasSubstr(": step 2, ema"))));
  EXPECT_EQ(again.out.substr(again.out.find('\n')), outcome.out.substr(outcome.out.rfind("\ntop-1")));
  EXPECT_THAT(evaluated_steps(followed), ::testing::ElementsAre(2, 3));
}

TEST_F(EvalCommand, ASignalWhileWaitingEndsFollowingCleanly) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const TemporaryDirectory folder;
    fs::copy_file(run() / "config.json", folder / "config.json");
    fs::copy_file(checkpoint_path(run(), 2), checkpoint_path(folder.path(), 2));
    std::thread sender([&] {
      wait_until([&] { return evaluated_steps(folder.path()).size() == 1; });
      ::kill(::getpid(), signal);
    });
    const CommandOutcome outcome = eval(
        data() + std::vector<std::string>{"--checkpoint_dir", folder.path().string(), "--eval_interval_secs", "600"});
    sender.join();
    EXPECT_EQ(outcome.exit_code, kExitSignal + signal) << ::testing::PrintToString(outcome);
    EXPECT_THAT(outcome.out, EndsWith("[20 examples]\n"));
    EXPECT_THAT(outcome.err, HasSubstr("stopped before the run's last step"));
  }
}

TEST_F(EvalCommand, FolderWithoutCheckpointsExits1) {
  const TemporaryDirectory empty;
  for (const fs::path& folder : {empty.path(), empty / "none"}) {
    const CommandOutcome outcome = eval(data() + std::vector<std::string>{"--checkpoint_dir", folder.string()});
    EXPECT_EQ(outcome.exit_code, kExitFailure);
    EXPECT_THAT(outcome.err, HasSubstr("no checkpoint in " + folder.string()));
  }
}

TEST_F(EvalCommand, DamagedOrForeignFilesExit1NamingThem) {
  const TemporaryDirectory folder;
  const std::string good = read_file_text(checkpoint_path(run(), 3));
  const fs::path copy = folder.write("copy.safetensors", good);
  EXPECT_EQ(eval_file(copy).exit_code, kExitSuccess);
  const auto expect_failure = [](const fs::path& file, const char* said) {
    const CommandOutcome outcome = eval_file(file);
    EXPECT_EQ(outcome.exit_code, kExitFailure) << ::testing::PrintToString(outcome);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(file.string()), HasSubstr(said)));
  };
  testing::damage(copy);
  expect_failure(copy, "checksum");
  expect_failure(folder.write("short.safetensors", good.substr(0, good.size() / 2)), "");
  expect_failure(folder.write("empty.safetensors", ""), "");
  expect_failure(folder.write("notes.txt", "not a checkpoint at all"), "");
  expect_failure(folder / "none.safetensors", "");
  // A valid safetensors file without a checkpoint.
  write_safetensors(folder / "foreign.safetensors", {}, {{"format", "pt"}});
  expect_failure(folder / "foreign.safetensors", "format_version");
}

/// Saves a checkpoint of `layout` for the net `net`.
fs::path save_foreign(const fs::path& folder, const std::string& net, const Layout& layout) {
  const std::vector<float> values(static_cast<std::size_t>(layout.flat_elements()), 0.0f);
  CheckpointView view;
  view.layout = &layout;
  view.state.step = 5;
  view.state.net = net;
  view.state.dataset = "mnist";
  view.groups = {{"parameters", values}};
  return save_checkpoint(folder, view);
}

TEST_F(EvalCommand, CheckpointOfAnotherNetExits1) {
  const TemporaryDirectory folder;
  Layout layout;
  layout.add("conv1/weights", {3, 3});
  const CommandOutcome unknown = eval_file(save_foreign(folder.path(), "squeezenet", layout));
  EXPECT_EQ(unknown.exit_code, kExitFailure);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("squeezenet"), HasSubstr("lenet")));
  const CommandOutcome other = eval_file(save_foreign(folder.path(), "lenet", layout));
  EXPECT_EQ(other.exit_code, kExitFailure);
  EXPECT_THAT(other.err, AllOf(HasSubstr("does not fit"), HasSubstr("conv1/weights")));
}

TEST_F(EvalCommand, DamagedNewestCheckpointNamesTheOneBefore) {
  const TemporaryDirectory folder;
  for (const std::uint64_t step : {2u, 3u}) {
    fs::copy_file(checkpoint_path(run(), step), checkpoint_path(folder.path(), step));
  }
  testing::damage(checkpoint_path(folder.path(), 3));
  const CommandOutcome outcome = eval(data() + std::vector<std::string>{"--checkpoint_dir", folder.path().string()});
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_THAT(outcome.err, HasSubstr("can be used instead: '" + checkpoint_path(folder.path(), 2).string() + "'"));
}

TEST_F(EvalCommand, ARunsCheckpointsAreEvaluatedInOrderEachOnce) {
  const TemporaryDirectory folder;
  int num_signs_of_life = 0;
  const FollowedRun followed{.directory = folder.path(), .data_dir = mnist_->path().string(), .threads = 1};
  const auto problem = [](const std::string& what) { ADD_FAILURE() << what; };
  {
    RunEvaluator evaluator(followed, problem, [&] { ++num_signs_of_life; });
    EXPECT_TRUE(evaluator.look());
    EXPECT_THAT(evaluated_steps(folder.path()), ::testing::IsEmpty());
    for (const std::uint64_t step : {3u, 2u}) {
      fs::copy_file(checkpoint_path(run(), step), checkpoint_path(folder.path(), step));
    }
    EXPECT_TRUE(evaluator.look());
    EXPECT_THAT(evaluated_steps(folder.path()), ::testing::ElementsAre(2, 3));
    EXPECT_GT(num_signs_of_life, 0);
    EXPECT_TRUE(evaluator.look());
  }
  // As an evaluator that continues after a resume.
  EXPECT_TRUE(RunEvaluator(followed, problem).look());
  EXPECT_THAT(evaluated_steps(folder.path()), ::testing::ElementsAre(2, 3));
}

TEST_F(EvalCommand, EvaluatorOfARunStaysWithItsFolder) {
  const TemporaryDirectory folder;
  const fs::path followed = folder / "run";
  const auto problem = [](const std::string& what) { ADD_FAILURE() << what; };
  RunEvaluator evaluator({.directory = followed, .data_dir = mnist_->path().string(), .threads = 1}, problem);
  EXPECT_TRUE(evaluator.look());
  fs::create_directory(followed);
  EXPECT_TRUE(evaluator.look());
  fs::rename(followed, folder / "moved");
  fs::create_directory(followed);
  fs::copy_file(checkpoint_path(run(), 2), checkpoint_path(followed, 2));
  fs::copy_file(checkpoint_path(run(), 3), checkpoint_path(folder / "moved", 3));
  EXPECT_TRUE(evaluator.look());
  EXPECT_THAT(evaluated_steps(folder / "moved"), ::testing::ElementsAre(3));
  EXPECT_FALSE(fs::exists(followed / "eval"));
}

TEST_F(EvalCommand, ALookThatFailsIsToldOnceAndTheNextOnesTryAgain) {
  const TemporaryDirectory folder;
  const fs::path second = checkpoint_path(folder.path(), 2);
  fs::copy_file(checkpoint_path(run(), 2), second);
  testing::damage(second);
  std::vector<std::string> problems;
  const FollowedRun followed{.directory = folder.path(), .data_dir = mnist_->path().string(), .threads = 1};
  RunEvaluator evaluator(followed, [&](const std::string& what) { problems.push_back(what); });
  EXPECT_FALSE(evaluator.look());
  EXPECT_FALSE(evaluator.look());
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0], HasSubstr(second.string()));
  // Other checkpoints are evaluated.
  fs::copy_file(checkpoint_path(run(), 3), checkpoint_path(folder.path(), 3));
  EXPECT_FALSE(evaluator.look());
  EXPECT_THAT(evaluated_steps(folder.path()), ::testing::ElementsAre(3));
  fs::copy_file(checkpoint_path(run(), 2), second, fs::copy_options::overwrite_existing);
  EXPECT_TRUE(evaluator.look());
  EXPECT_THAT(evaluated_steps(folder.path()), ::testing::ElementsAre(3, 2));
  EXPECT_EQ(problems.size(), 1u);
}

TEST(Commands, ATinyRunOnTheBuiltInSetEvaluatesTenThousandExamples) {
  if (testing::kIsSanitized)
    GTEST_SKIP() << "draws 80,000 digits: too slow under a sanitizer; EvalCommand has the small ones";
  const TemporaryDirectory folder;
  const std::string run = (folder / "run").string();
  const CommandOutcome trained = train({"--max_steps", "20", "--num_nodes", "4", "--grad_bits", "1", "--batch_size",
                                        "16", "--image_size", "12", "--train_dir", run});
  ASSERT_EQ(trained.exit_code, kExitSuccess) << ::testing::PrintToString(trained);
  const CommandOutcome outcome = eval({"--checkpoint_dir", run});
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  const std::string last = outcome.out.substr(outcome.out.rfind('\n', outcome.out.size() - 2) + 1);
  EXPECT_THAT(last, MatchesRegex("top-1 = 0\\.[0-9]{4} top-5 = [01]\\.[0-9]{4} \\[10000 examples\\]\n"));
  // Equals the evaluation of the training command.
  EXPECT_THAT(trained.err, HasSubstr("step 20 test " + last));
}

TEST_F(EvalCommand, OptionsOfTheOriginalAreRefusedWithAReason) {
  for (const char* name : {"--num_readers", "--input_queue_memory_factor", "--tower"}) {
    const CommandOutcome outcome = eval({name, "1"});
    EXPECT_EQ(outcome.exit_code, kExitUsage);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(name), HasSubstr(": refused: ")));
  }
}

TEST_F(EvalCommand, WhatTheCheckpointSaysMayBeSaidAgain) {
  const auto with = [&](std::vector<std::string> more) {
    return eval(data() + std::vector<std::string>{"--checkpoint_dir", run().string()} + more);
  };
  const CommandOutcome without = with({});
  const CommandOutcome said = with({"--net", "lenet", "--image_size", "16", "--batch_size", "7", "--max_steps", "3",
                                    "--num_preprocess_threads", "2", "--restore_avg_var", "True"});
  EXPECT_EQ(said.exit_code, kExitSuccess) << said.err;
  EXPECT_EQ(said.out, without.out);
  const std::pair<std::vector<std::string>, std::string> refused[] = {{{"--net", "vgg_a"}, "' is of net lenet"},
                                                                      {{"--image_size", "24"}, "' are 16x16"},
                                                                      {{"--max_steps", "10000"}, "' has max_steps 3"}};
  for (const auto& [option, words] : refused) {
    const CommandOutcome outcome = with(option);
    EXPECT_EQ(outcome.exit_code, kExitUsage);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(option[0] + " " + option[1] + ": "), HasSubstr(words)));
  }
  const std::string file = (run() / "checkpoint-0000000003.safetensors").string();
  EXPECT_THAT(eval(data() + std::vector<std::string>{"--checkpoint", file, "--max_steps", "3"}).err,
              HasSubstr("--max_steps 3: needs --checkpoint_dir"));
}

}  // namespace
}  // namespace terngrad::eval_command_test
