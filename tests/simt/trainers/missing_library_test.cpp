// Error messages on a machine with a GPU but without a library that nets need.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "tests/simt/nets/stand_in.h"
#include "trainers/options/train_devices.h"

namespace terngrad::missing_library_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class MissingLibrary : public ::testing::Test {
 protected:
  void SetUp() override { testing::missing_library = "cannot load libcublasLt.so.0"; }
  void TearDown() override { testing::missing_library.clear(); }
};

TEST_F(MissingLibrary, AutoTakesTheCpuAndSaysWhy) {
  const TrainDevices choice = choose_devices("auto", {}, "tf32");
  EXPECT_TRUE(choice.is_cpu());
  EXPECT_EQ(choice.note, "no GPU: cannot load libcublasLt.so.0");
}

TEST_F(MissingLibrary, AGpuThatIsAskedForIsRefused) {
  try {
    choose_devices("cuda", {}, "tf32");
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("--device cuda: cannot load libcublasLt.so.0"), HasSubstr("accepted: auto, cpu")));
  }
}

TEST_F(MissingLibrary, WithItTheGpuIsTaken) {
  testing::missing_library.clear();
  EXPECT_FALSE(choose_devices("auto", {}, "tf32").is_cpu());
}

}  // namespace
}  // namespace terngrad::missing_library_test
