#include "kernels/runtime/device.h"

#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"

namespace terngrad::device_test {
namespace {

TEST(Device, CpuIsCalledCpu) {
  EXPECT_EQ(Device::cpu().name(), "cpu");
  EXPECT_TRUE(Device::cpu().is_cpu());
  EXPECT_EQ(Device::cpu(), Device::cpu());
}

TEST(HardwareThreads, AreAtLeastOne) { EXPECT_GE(num_hardware_threads(), 1); }

TEST(Stream, IsNotBorrowedOfTheCpu) {
  int native = 0;
  EXPECT_THROW(Stream::borrow(Device::cpu(), &native), InvalidArgument);
}

TEST(Stream, KeepsItsNumberOfThreads) { EXPECT_EQ(Stream(Device::cpu(), 3).num_threads(), 3); }

TEST(Stream, RefusesFewerThanOneThread) {
  EXPECT_THROW(Stream(Device::cpu(), 0), InvalidArgument);
  EXPECT_THROW(Stream(Device::cpu(), -2), InvalidArgument);
}

TEST(NoGpu, IsNoErrorUntilOneIsAskedFor) {
  EXPECT_TRUE(num_cuda_devices() > 0 || !cuda_unavailable_reason().empty());
  if (num_cuda_devices() > 0) GTEST_SKIP() << "there is a GPU";
  try {
    Device::cuda();
    FAIL() << "no error";
  } catch (const NotSupported& error) {
    EXPECT_EQ(error.what(), "[Device] no GPU to use: " + cuda_unavailable_reason());
  }
}

}  // namespace
}  // namespace terngrad::device_test
