#include "trainers/checkpoint/run_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "tests/trainers/expected_identity.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/checkpoint/checkpoint.h"

namespace terngrad::run_identity_test {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

std::string refusal(const RunIdentity& expected, const RecordedIdentity& recorded) {
  return message_of<UsageError>([&] { check_same_run(expected, recorded, "there"); });
}

TEST(RunIdentity, IsTheStateWithoutItsStep) {
  CheckpointState state;
  state.net = "lenet";
  state.seed = 7;
  state.extra_metadata["codec"] = "ternary";
  const RecordedIdentity identity = recorded_identity(state);
  EXPECT_EQ(identity.at("net"), "lenet");
  EXPECT_EQ(identity.at("seed"), "7");
  EXPECT_EQ(identity.at("codec"), "ternary");
  state.step = 9;
  EXPECT_EQ(recorded_identity(state), identity);
  EXPECT_EQ(recorded_identity(testing::expected_identity(state)), identity);
}

TEST(RunIdentity, TheFirstDifferenceIsNamedWithBothValues) {
  const RunIdentity expected = {{.key = "num_workers", .value = "2", .name = "--num_nodes"},
                                {.key = "clip_factor", .value = "2", .name = "--clip_factor"}};
  EXPECT_NO_THROW(check_same_run(expected, {{"num_workers", "2"}, {"clip_factor", "2"}, {"more", "3"}}, "there"));
  EXPECT_EQ(refusal(expected, {{"num_workers", "4"}, {"clip_factor", "0"}}),
            "cannot continue from there: this run has --num_nodes '2', there it is '4'");
  EXPECT_EQ(refusal(expected, {{"num_workers", "2"}, {"clip_factor", "0"}}),
            "cannot continue from there: this run has --clip_factor '2', there it is '0'");
}

TEST(RunIdentity, AnEntryThatWasNotRecordedDiffers) {
  EXPECT_THAT(refusal({{.key = "scaler", .value = "paper", .name = "--scaler"}}, {}), HasSubstr("(none)"));
}

TEST(RunIdentity, EntriesSayWhatIsTheSameAndHowTheyAreShown) {
  IdentityEntry entry{.key = "strategy", .value = "b", .name = "--strategy"};
  entry.is_same = [](const std::string& ours, const std::string& recorded) { return ours == "b" && recorded == "c"; };
  entry.shown = [](const std::string& value) { return "<" + value + ">"; };
  entry.advice = [](const std::string& recorded) { return "--strategy " + recorded; };
  EXPECT_NO_THROW(check_same_run({entry}, {{"strategy", "c"}}, "there"));
  EXPECT_EQ(refusal({entry}, {{"strategy", "d"}}),
            "cannot continue from there: this run has --strategy '<b>', there it is '<d>'; to continue the run, give "
            "--strategy d");
}

TEST(RunIdentity, AnotherNumberOfStepsMustBeAskedFor) {
  const RecordedIdentity recorded = {{"max_steps", "20"}};
  EXPECT_EQ(check_max_steps(recorded, 20, false), "");
  EXPECT_EQ(check_max_steps({}, 30, false), "");
  EXPECT_EQ(check_max_steps(recorded, 30, true),
            "--max_steps was 20 and is 30 now: the learning-rate schedule goes by the new number");
  EXPECT_THAT(message_of<UsageError>([&] { check_max_steps(recorded, 30, false); }),
              HasSubstr("--max_steps: the run had 20; give it again, or another number"));
}

}  // namespace
}  // namespace terngrad::run_identity_test
