// Library handles, on a GPU and with the emulation's stand-in.
#include "nets/cuda/libraries.h"

#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "support/cuda_device.h"

namespace terngrad::cuda::libraries_test {
namespace {

using CudaLibraries = testing::CudaTest;

TEST(LibrariesTest, NeedAStreamOfAGpu) { EXPECT_THROW(Libraries{Stream()}, InvalidArgument); }

TEST_F(CudaLibraries, CopiesHaveTheSameHandles) {
  const Stream stream(Device::cuda());
  const Libraries libraries(stream);
  const Libraries copy = libraries;
  EXPECT_EQ(&copy.handles(), &libraries.handles());
  EXPECT_EQ(copy.stream().native(), stream.native());
  EXPECT_NE(&Libraries(stream).handles(), &libraries.handles());
}

}  // namespace
}  // namespace terngrad::cuda::libraries_test
