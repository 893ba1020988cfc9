#include "kernels/runtime/machine.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/runtime/cpu/simd.h"

namespace terngrad::machine_test {
namespace {

TEST(Machine, SimdInstructionsAreTheBestTarget) { EXPECT_EQ(simd_instructions(), cpu::simd_targets().front().name); }

TEST(Machine, ADriverIsKnownByItsFiles) {
  std::string root = (std::filesystem::temp_directory_path() / "terngrad_machine_XXXXXX").string();
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  EXPECT_FALSE(has_gpu_driver(root));
  for (const char* const path : {"/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg"}) {
    const std::filesystem::path file = root + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << "x";
    EXPECT_TRUE(has_gpu_driver(root)) << path;
    std::filesystem::remove(file);
  }
  std::filesystem::remove_all(root);
}

TEST(Machine, ThePeakOfMemoryOutlivesIt) {
  const double more = peak_resident_bytes() + 64e6;
  { const std::vector<char> touched(static_cast<std::size_t>(more), 1); }
  EXPECT_GE(peak_resident_bytes(), more);
}

}  // namespace
}  // namespace terngrad::machine_test
