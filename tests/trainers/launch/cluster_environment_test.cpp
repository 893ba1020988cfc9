#include "trainers/launch/cluster_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "kernels/runtime/errors.h"

namespace terngrad::cluster_environment_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

/// Checks under these variables. @returns the text of the refusal; empty if there was none
std::string refusal(const Variables& variables, int rank = 0, int size = 1) {
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  std::string text;
  try {
    check_cluster_environment(rank, size);
  } catch (const UsageError& error) {
    text = error.what();
  }
  for (const auto& [name, value] : variables) ::unsetenv(name.c_str());
  return text;
}

Variables hosts(const std::string& job, const std::string& index) {
  return {{"PS_HOSTS", "a:2222"}, {"WORKER_HOSTS", "b:2222,c:2222,b:2223"}, {"JOB_NAME", job}, {"TASK_INDEX", index}};
}

Variables config(const std::string& text) { return {{"TF_CONFIG", text}}; }

Variables task(const std::string& type, int index) {
  return config(R"({"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}, "task": {"type": ")" +
                type + R"(", "index": )" + std::to_string(index) + "}}");
}

TEST(ClusterEnvironment, IsNotThereOrOneProcess) {
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({{"JOB_NAME", "nightly build"}, {"TASK_INDEX", "x"}}), "") << "as batch systems set it";
  EXPECT_EQ(refusal({{"WORKER_HOSTS", "a:2222"}, {"JOB_NAME", "worker"}, {"TASK_INDEX", "0"}}), "");
  EXPECT_EQ(refusal({{"WORKER_HOSTS", "a:2222"}}, 2, 4), "");
  EXPECT_EQ(refusal(config("{}")), "");
  EXPECT_EQ(refusal(config(R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})")), "");
}

TEST(ClusterEnvironment, OfAProcessStartedAloneIsRefusedWithTheCommand) {
  EXPECT_THAT(
      refusal(hosts("ps", "0")),
      AllOf(HasSubstr("PS_HOSTS, WORKER_HOSTS: name a cluster of 4 processes, and this one was started alone"),
            HasSubstr("mpirun -np 4 --host b:2,c,a terngrad_train --num_nodes 3 --strategy ps --num_servers 1 "),
            HasSubstr("unset PS_HOSTS, WORKER_HOSTS")));
  EXPECT_THAT(refusal({{"WORKER_HOSTS", "a:2222,b"}}),
              HasSubstr("mpirun -np 2 --host a,b terngrad_train --num_nodes 2 (with"));
  EXPECT_THAT(refusal(task("worker", 1)), HasSubstr("mpirun -np 4 --host a,b,c,d terngrad_train --num_nodes 3 "));
}

TEST(ClusterEnvironment, AgreesWithTheLaunch) {
  for (int worker = 0; worker < 3; ++worker) {
    EXPECT_EQ(refusal(hosts("worker", std::to_string(worker)), worker, 4), "");
  }
  EXPECT_EQ(refusal(hosts("ps", "0"), 3, 4), "");
  EXPECT_EQ(refusal({{"WORKER_HOSTS", "a,b"}}, 1, 2), "") << "no job is said";
  EXPECT_EQ(refusal(task("chief", 0), 0, 4), "");
  EXPECT_EQ(refusal(task("worker", 1), 2, 4), "");
  EXPECT_EQ(refusal(task("ps", 0), 3, 4), "");
}

TEST(ClusterEnvironment, ThatDisagreesWithTheLaunchIsRefused) {
  EXPECT_THAT(refusal(hosts("worker", "0"), 0, 3), HasSubstr("name a cluster of 4 processes, this launch has 3"));
  EXPECT_THAT(refusal(hosts("ps", "0"), 0, 4),
              HasSubstr("make this process ps 0, rank 3 of a launch, which gave it rank 0"));
  EXPECT_THAT(refusal(task("worker", 0), 0, 4), HasSubstr("TF_CONFIG: make this process worker 0, rank 1 of a launch"));
}

TEST(ClusterEnvironment, ThatCannotBeReadIsRefused) {
  EXPECT_THAT(refusal(hosts("worker", "first")), HasSubstr("TASK_INDEX: 'first' is refused"));
  for (const char* text : {"{", "[]", R"({"cluster": {"worker": "a:1"}})", R"({"task": {"index": "0"}})"}) {
    EXPECT_THAT(refusal(config(text)), HasSubstr("TF_CONFIG: is not a JSON object")) << text;
  }
}

}  // namespace
}  // namespace terngrad::cluster_environment_test
