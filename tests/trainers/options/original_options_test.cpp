#include "trainers/options/train_option_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/trainers/checked_options.h"

namespace terngrad::original_options_test {
namespace {

using ::testing::HasSubstr;
using testing::refuse;

TEST(OriginalOptions, OptionsOfTheOriginalAreRefusedWithAReason) {
  const std::vector<std::string> names = {"subset",
                                          "log_device_placement",
                                          "pretrained_model_checkpoint_path",
                                          "use_encoding",
                                          "save_tower",
                                          "job_name",
                                          "ps_hosts",
                                          "worker_hosts",
                                          "task_id",
                                          "num_replicas_to_aggregate",
                                          "save_interval_secs",
                                          "save_summaries_secs"};
  for (const std::string& name : names) EXPECT_THAT(refuse({"--" + name, "1"}), HasSubstr("--" + name + ": refused: "));
}

}  // namespace
}  // namespace terngrad::original_options_test
