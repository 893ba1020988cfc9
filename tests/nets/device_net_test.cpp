#include "nets/device_net.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "nets/models/lenet.h"

namespace terngrad::device_net_test {
namespace {

using ::testing::HasSubstr;

TEST(DeviceNet, RefusesTheCpu) {
  const Stream cpu(Device::cpu());
  try {
    make_device_net("lenet", {12, 12, 1}, 10, {}, MathMode::kFp32, cpu);
    FAIL() << "no error";
  } catch (const NotSupported& error) {
    EXPECT_THAT(error.what(), HasSubstr("make_net"));
  }
  EXPECT_THROW(make_device_net(lenet(), {12, 12, 1}, 10, {}, MathMode::kTf32, cpu), NotSupported);
  EXPECT_THROW(make_device_net("none", {12, 12, 1}, 10, {}, MathMode::kFp32, cpu), InvalidArgument);
}

TEST(DeviceNet, SaysWhetherTheBuildHasThem) {
  // A build without device nets says how to enable them; a build with them names its libraries.
  if (device_nets_unavailable_reason().empty()) {
    // Libraries are identified by major version.
    EXPECT_NE(device_net_libraries_of_build(), "");
    EXPECT_TRUE(device_net_libraries().starts_with(device_net_libraries_of_build() + "."));
  } else {
    EXPECT_THAT(device_nets_unavailable_reason(), HasSubstr("TERNGRAD_CUDNN"));
    EXPECT_EQ(device_net_libraries() + device_net_libraries_of_build(), "");
  }
}

}  // namespace
}  // namespace terngrad::device_net_test
