#include "kernels/runtime/cuda/grow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/captured_graph.h"
#include "support/cuda_device.h"

namespace terngrad::cuda_grow_test {
namespace {

using ::testing::HasSubstr;
using CudaGrow = testing::CudaTest;

TEST_F(CudaGrow, AllocatesWhereThereIsTooLittle) {
  Stream stream(Device::cuda());
  Buffer<float> buffer(0, stream.device());
  EXPECT_TRUE(cuda::grow(buffer, 100, stream));
  EXPECT_EQ(buffer.num_elements(), 100);
  const float* const memory = buffer.data();
  EXPECT_FALSE(cuda::grow(buffer, 100, stream));
  EXPECT_FALSE(cuda::grow(buffer, 7, stream));
  EXPECT_EQ(buffer.data(), memory);
  EXPECT_TRUE(cuda::grow(buffer, 101, stream));
  EXPECT_EQ(buffer.num_elements(), 101);
}

TEST_F(CudaGrow, RefusesInsideACapture) {
  Stream stream(Device::cuda());
  Buffer<float> buffer(10, stream.device());
  const auto captured = [&](std::int64_t count) {
    const CapturedGraph graph(stream, [&] {
      cuda::grow(buffer, count, stream);
      fill_zero(buffer.span(), stream);
    });
  };
  captured(10);
  try {
    captured(11);
    ADD_FAILURE() << "grew inside a capture";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("memory is missing while the stream is captured: run once before"));
  }
  EXPECT_EQ(buffer.num_elements(), 10);
  captured(10);  // the stream is not in an error state
}

}  // namespace
}  // namespace terngrad::cuda_grow_test
