// --init_from of terngrad_train.
#include "trainers/commands/train_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "tests/trainers/train_runs.h"
#include "trainers/checkpoint/checkpoint.h"

namespace terngrad::train_warm_start_test {
namespace {

namespace fs = std::filesystem;
using testing::CommandOutcome;
using testing::expect_usage_error;
using testing::group_of;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::remove_checkpoints_after;
using testing::SmallMnist;
using testing::TemporaryDirectory;
using testing::train;

using testing::operator+;
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
  // Step 0 is saved, because it cannot be recomputed without the other run.
  EXPECT_EQ(group_of(checkpoint_path(folder / "again", 0), "parameters"), group_of(from, "parameters"));
  EXPECT_EQ(group_of(checkpoint_path(folder / "again", 0), "ema"), group_of(from, "parameters"));
  ASSERT_EQ(start("tuned", {"--fine_tune", "--seed", "2"}).exit_code, kExitSuccess);
  const std::vector<float> tuned = group_of(checkpoint_path(folder / "tuned", 0), "parameters");
  const std::vector<float> source = group_of(from, "parameters");
  ASSERT_EQ(tuned.size(), source.size());
  const std::size_t num_different = static_cast<std::size_t>(std::inner_product(
      tuned.begin(), tuned.end(), source.begin(), 0, std::plus<>(), [](float a, float b) { return a != b ? 1 : 0; }));
  // LeNet's logits have 500 x 10 weights and 10 biases; biases start at zero and had changed in the other run.
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

}  // namespace
}  // namespace terngrad::train_warm_start_test
