#include "trainers/options/train_option_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "tests/trainers/checked_options.h"
#include "tests/trainers/identity_entries.h"

namespace terngrad::run_options_test {
namespace {

using testing::accept;
using testing::expect_refused;
using ::testing::HasSubstr;
using testing::identity_entry;
using testing::refuse;

TEST(RunOptions, OptionsWithoutEffectAreRefused) {
  expect_refused({
      {{"--data_dir", "d"}, {"--data_dir", "synthetic is built in"}},
  });
}

TEST(RunOptions, OptionsOfRecordsNeedRecords) {
  const TrainOptions o = accept({"--dataset", "records", "--data_dir", "d", "--shuffle", "window", "--num_readers", "8",
                                 "--input_queue_memory_factor", "2", "--label_offset", "-1"});
  EXPECT_EQ(shuffle_of(o).kind, ShuffleOptions::Kind::kWindow);
  EXPECT_EQ(shuffle_of(o).num_readers, 8);
  EXPECT_EQ(shuffle_of(o).window, 2048);
  EXPECT_EQ(shuffle_of(accept({"--dataset", "records", "--data_dir", "d"})).kind, ShuffleOptions::Kind::kExact);
  EXPECT_THAT(refuse({"--dataset", "records", "--data_dir", "d", "--num_readers", "8"}),
              HasSubstr("needs --shuffle window"));
  EXPECT_THAT(refuse({"--dataset", "mnist", "--data_dir", "d", "--shuffle", "window"}),
              HasSubstr("--shuffle window: needs --dataset imagenet, flowers or records"));
  EXPECT_THAT(refuse({"--dataset", "mnist", "--data_dir", "d", "--label_offset", "-1"}),
              HasSubstr("needs --dataset imagenet, flowers or records"));
}

TEST(RunOptions, BenchmarkModeAndWarmStartsRefuseWhatTheyWouldIgnore) {
  EXPECT_THAT(refuse({"--benchmark_mode", "--data_dir", "d"}), HasSubstr("--data_dir"));
  EXPECT_THAT(refuse({"--benchmark_mode", "--eval_steps", "2"}), HasSubstr("--eval_steps"));
  EXPECT_THAT(refuse({"--benchmark_mode", "--eval_at", "2"}), HasSubstr("--eval_at"));
  EXPECT_THAT(refuse({"--fine_tune"}), HasSubstr("--init_from"));
  EXPECT_THAT(refuse({"--init_from", "c", "--resume", "--train_dir", "r"}), HasSubstr("--resume"));
  EXPECT_THAT(refuse({"--on_save_error", "ignore"}), AllOf(HasSubstr("stop"), HasSubstr("continue")));
  EXPECT_THAT(refuse({"--stop_after_secs", "-1"}), HasSubstr("--stop_after_secs"));
  EXPECT_TRUE(accept({"--dataset", "mnist", "--benchmark_mode"}).benchmark_mode);
}

TEST(RunOptions, AnotherNumberOfWorkersIsNamedBeforeTheThreadsThatItBrings) {
  EXPECT_THAT(testing::resume_refusal({"--device", "cpu", "--threads", "4", "--num_nodes", "2"},
                                      {"--device", "cpu", "--threads", "4"}),
              HasSubstr("this run has --num_nodes '2', there it is '1'"));
}

TEST(RunOptions, ARunMayContinueOnTheOtherKindOfDevice) {
  RunIdentity expected = testing::identity_of({"--device", "cpu", "--threads", "4"});
  RecordedIdentity recorded = recorded_identity(expected);
  recorded["threads_per_worker"] = "3";
  EXPECT_THROW(check_same_run(expected, recorded, "there"), UsageError);
  recorded.erase("threads_per_worker");
  EXPECT_NO_THROW(check_same_run(expected, recorded, "there"));
}

TEST(RunOptions, TheIdentityHasTheDataAndHowItIsRead) {
  EXPECT_EQ(identity_entry({"--benchmark_mode"}, "dataset"), "synthetic (constant images)");
  EXPECT_EQ(identity_entry({}, "shuffle"), "exact");
  EXPECT_EQ(identity_entry({}, "num_readers"), "(none)");
  EXPECT_EQ(identity_entry({"--dataset", "records", "--data_dir", "d", "--shuffle", "window"}, "num_readers"), "4");
  // A run may continue on the other kind of device.
  EXPECT_EQ(identity_entry({"--device", "cpu", "--threads", "2", "--threads_per_worker", "2"}, "threads_per_worker"),
            "2");
  EXPECT_EQ(identity_entry({"--device", "cpu"}, "math"), "(none)");
  for (const char* name : {"data_dir", "train_dir", "threads", "device", "num_gpus", "resume", "init_from"}) {
    EXPECT_EQ(identity_entry({}, name), "(none)") << name;
  }
}

}  // namespace
}  // namespace terngrad::run_options_test
