#include "kernels/runtime/device_guard.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "kernels/runtime/cuda/check.h"
#include "support/cuda_device.h"

namespace terngrad::device_guard_test {
namespace {

using CudaDeviceGuard = terngrad::testing::CudaTest;

TEST_F(CudaDeviceGuard, PutsTheDeviceBack) {
  int before = -1;
  TERNGRAD_CUDA_CHECK(cudaGetDevice(&before));
  const Stream stream(Device::cuda(before));  // creates the device's context
  const int last = num_cuda_devices() - 1;
  {
    const DeviceGuard guard(Device::cuda(last));
    int inside = -1;
    TERNGRAD_CUDA_CHECK(cudaGetDevice(&inside));
    EXPECT_EQ(inside, last);
  }
  int after = -1;
  TERNGRAD_CUDA_CHECK(cudaGetDevice(&after));
  EXPECT_EQ(after, before);
}

TEST_F(CudaDeviceGuard, LeavesTheDeviceAloneForTheCpu) {
  int before = -1;
  TERNGRAD_CUDA_CHECK(cudaGetDevice(&before));
  const DeviceGuard guard(Device::cpu());
  int inside = -1;
  TERNGRAD_CUDA_CHECK(cudaGetDevice(&inside));
  EXPECT_EQ(inside, before);
}

}  // namespace
}  // namespace terngrad::device_guard_test
