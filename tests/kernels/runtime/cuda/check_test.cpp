// TERNGRAD_CUDA_CHECK.
#include "kernels/runtime/cuda/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "support/cuda_device.h"

namespace terngrad::cuda::check_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::size_t kTooManyBytes = std::size_t{1} << 50;

std::string message_of(cudaError_t result_of_call) {
  try {
    TERNGRAD_CUDA_CHECK(result_of_call);
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// Needs no GPU.
TEST(CudaCheck, NamesTheCallTheErrorAndThePlace) {
  EXPECT_EQ(message_of(cudaSuccess), "nothing was thrown");
  EXPECT_THAT(message_of(cudaErrorInvalidValue),
              AllOf(StartsWith("[cuda] result_of_call failed: cudaErrorInvalidValue (invalid argument), at "),
                    HasSubstr("check_test.cpp:")));
}

using CudaCheckOnDevice = terngrad::testing::CudaTest;

TEST_F(CudaCheckOnDevice, ClearsTheErrorForTheNextCall) {
  void* memory = nullptr;
  EXPECT_THROW(TERNGRAD_CUDA_CHECK(cudaMalloc(&memory, kTooManyBytes)), DeviceError);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_NO_THROW(TERNGRAD_CUDA_CHECK(cudaGetLastError()));
}

}  // namespace
}  // namespace terngrad::cuda::check_test
