#include "kernels/runtime/pinned_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/cuda_device.h"

namespace terngrad::pinned_buffer_test {
namespace {

TEST(PinnedBuffer, IsForGpusOnly) {
  EXPECT_THROW(PinnedBuffer<float>(1, Device::cpu()), InvalidArgument);
  EXPECT_TRUE(PinnedBuffer<float>().span().empty());
}

TEST(Upload, OnTheCpuIsDoneAtOnce) {
  const Stream stream;
  const std::vector<float> from = {1, 2, 3};
  std::vector<float> to(4, -1.0f);
  upload<float>(from, std::span(to).first(3), stream);
  EXPECT_EQ(to, (std::vector<float>{1, 2, 3, -1}));
  EXPECT_THROW(upload<float>(from, std::span(to), stream), InvalidArgument);
  EXPECT_NO_THROW(upload<float>({}, std::span<float>(), stream));
}

using CudaPinnedBuffer = testing::CudaTest;

TEST_F(CudaPinnedBuffer, GoesToAGpuAndBack) {
  Stream stream(Device::cuda());
  PinnedBuffer<std::int32_t> from(1000, Device::cuda());
  std::iota(from.span().begin(), from.span().end(), 1);
  Buffer<std::int32_t> on_device(1000, Device::cuda());
  copy<std::int32_t>(from.span(), on_device.span(), stream);
  PinnedBuffer<std::int32_t> to(1000, Device::cuda());
  copy<std::int32_t>(on_device.span(), to.span(), stream);
  stream.synchronize();
  EXPECT_TRUE(std::ranges::equal(from.span(), to.span()));
}

TEST_F(CudaPinnedBuffer, MayBeWrittenAtOnceWhenItWasTheSource) {
  Stream stream(Device::cuda());
  PinnedBuffer<std::int32_t> from(1 << 16, Device::cuda());
  std::ranges::fill(from.span(), 7);
  Buffer<std::int32_t> on_device(from.num_elements(), Device::cuda());
  copy<std::int32_t>(from.span(), on_device.span(), stream);
  std::ranges::fill(from.span(), -1);
  EXPECT_EQ(testing::to_host<std::int32_t>(on_device.span(), stream), std::vector<std::int32_t>(1 << 16, 7));
}

TEST_F(CudaPinnedBuffer, KeepsItsMemoryWhenItMoves) {
  PinnedBuffer<float> first(10, Device::cuda());
  float* const data = first.data();
  PinnedBuffer<float> second = std::move(first);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(second.num_elements(), 10);
  PinnedBuffer<float> third;
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.span().size(), 10u);
}

TEST_F(CudaPinnedBuffer, RefusesImpossibleSizes) {
  EXPECT_EQ(PinnedBuffer<float>(0, Device::cuda()).data(), nullptr);
  EXPECT_THROW(PinnedBuffer<float>(-1, Device::cuda()), std::bad_alloc);
  EXPECT_THROW(PinnedBuffer<double>(std::int64_t{1} << 62, Device::cuda()), std::bad_alloc);
}

}  // namespace
}  // namespace terngrad::pinned_buffer_test
