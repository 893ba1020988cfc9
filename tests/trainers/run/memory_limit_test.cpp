#include "trainers/run/memory_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "tests/trainers/temporary_directory.h"

namespace terngrad::memory_limit_test {
namespace {

using testing::TemporaryDirectory;

/// Simulated system files below a folder.
class MemoryLimitTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root_.path() / name).parent_path());
    root_.write(name, text);
  }
  MemoryLimit limit(std::uint64_t address_space = RLIM_INFINITY) const {
    return memory_limit(root_.path(), address_space);
  }
  void write_machine() const { write("proc/meminfo", "MemTotal:       1000 kB\nMemFree:        10 kB\n"); }

  TemporaryDirectory root_;
};

TEST_F(MemoryLimitTest, IsTheMachinesUnlessSomethingAllowsLess) {
  EXPECT_TRUE(std::isinf(limit().bytes));
  write_machine();
  EXPECT_EQ(limit().bytes, 1000 * 1024);
  EXPECT_EQ(limit().subject, "this machine");
  EXPECT_EQ(limit(5000).bytes, 5000);
  EXPECT_EQ(limit(5000).subject, "the address space of this process (ulimit -v)");
  EXPECT_EQ(limit(2'000'000).subject, "this machine");
}

TEST_F(MemoryLimitTest, ControlGroupsAndThoseAroundThemCount) {
  write_machine();
  write("proc/self/cgroup", "0::/user/job/step\n");
  write("sys/fs/cgroup/user/job/step/memory.max", "max\n");
  EXPECT_EQ(limit().subject, "this machine");
  write("sys/fs/cgroup/user/memory.max", "9000\n");
  EXPECT_EQ(limit().bytes, 9000);
  EXPECT_EQ(limit().subject, "the control group of this process");
  write("sys/fs/cgroup/user/job/memory.max", "7000\n");
  EXPECT_EQ(limit().bytes, 7000);
  // In a container, the mounted directory may be the group itself.
  write("sys/fs/cgroup/memory.max", "6000\n");
  EXPECT_EQ(limit().bytes, 6000);
  EXPECT_EQ(limit(5000).bytes, 5000);
}

TEST_F(MemoryLimitTest, ControlGroupsOfVersion1AreFoundByTheirController) {
  write_machine();
  write("proc/self/cgroup", "4:cpu,cpuacct:/a\n3:hugetlb,memory:/job\n1:name=systemd:/b\n");
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "8000\n");
  EXPECT_EQ(limit().bytes, 8000);
}

TEST(OwnMemoryLimit, IsThatOfAMachine) {
  EXPECT_GT(memory_limit().bytes, 1e8);
  EXPECT_TRUE(std::isfinite(memory_limit().bytes));
}

}  // namespace
}  // namespace terngrad::memory_limit_test
