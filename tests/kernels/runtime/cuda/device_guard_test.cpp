#include "kernels/runtime/cuda/device_guard.h"

#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "support/cuda_device.h"

namespace terngrad::cuda::device_guard_test {
namespace {

using ::testing::HasSubstr;

using CudaDeviceGuard = terngrad::testing::CudaTest;

TEST_F(CudaDeviceGuard, PutsTheDeviceBack) {
  int before = -1;
  TERNGRAD_CUDA_CHECK(cudaGetDevice(&before));
  const Stream stream(Device::cuda(before));  // which gives it a context
  const int last = num_cuda_devices() - 1;
  {
    const DeviceGuard guard(last);
    int inside = -1;
    TERNGRAD_CUDA_CHECK(cudaGetDevice(&inside));
    EXPECT_EQ(inside, last);
  }
  int after = -1;
  TERNGRAD_CUDA_CHECK(cudaGetDevice(&after));
  EXPECT_EQ(after, before);
}

TEST_F(CudaDeviceGuard, RefusesADeviceThatDoesNotExist) {
  try {
    const DeviceGuard guard(num_cuda_devices());
    FAIL() << "nothing was thrown";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cudaSetDevice(device) failed: cudaErrorInvalidDevice"));
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(CudaDeviceGuard, DeletersSayNoErrors) {
  EXPECT_NO_THROW(on_device(num_cuda_devices(), [] { FAIL() << "there is no such device"; }));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace terngrad::cuda::device_guard_test
