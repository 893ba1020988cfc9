// tests/trainers/commands/advise_command_test.cpp has the options beside which --cluster is refused.
#include "trainers/commands/cluster_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "kernels/runtime/errors.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/io/atomic_file.h"
#include "trainers/launch/command_main.h"

namespace terngrad::cluster_command_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TemporaryDirectory;

std::string usage_error_of(const std::string& file) {
  try {
    advise_on_cluster(file, "");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(ClusterCommand, PrintsAndWritesWhatItPredicts) {
  const TemporaryDirectory folder;
  const std::string file = (folder / "advice.json").string();
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(advise_on_cluster("experiments/clusters/paper-infiniband.json", file), kExitSuccess);
  const std::string text = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(text, StartsWith("paper-infiniband: 128 machines of 4 GPUs, 512 workers\n"));
  EXPECT_THAT(text, HasSubstr("\nFigure 5 (b) "));
  const nlohmann::json json = nlohmann::json::parse(read_file_text(file));
  EXPECT_EQ(json["cluster"]["name"], "paper-infiniband");
  EXPECT_EQ(json["nets"].size(), 3u);
  EXPECT_EQ(json["figure5"]["figure"], "b");
}

TEST(ClusterCommand, RefusesAFileByNameAndKey) {
  const TemporaryDirectory folder;
  const std::string file = (folder / "cluster.json").string();
  EXPECT_THAT(usage_error_of(file), AllOf(StartsWith("--cluster: "), HasSubstr(file), HasSubstr("No such file")));
  write_file_atomically(file, R"({"schema": 1, "name": "x", "machines": 0})");
  EXPECT_THAT(usage_error_of(file),
              AllOf(StartsWith("--cluster: "), HasSubstr(file), HasSubstr("machines must be from 1 to")));
  write_file_atomically(file, R"({"schema": 1, "name": "x", "machines": 1, "gpus_per_machine": 1,
                                  "measured_workers": 1, "links": {}})");
  EXPECT_THAT(usage_error_of(file), AllOf(StartsWith("--cluster " + file), HasSubstr("lacks the key 'nets'")));
}

}  // namespace
}  // namespace terngrad::cluster_command_test
