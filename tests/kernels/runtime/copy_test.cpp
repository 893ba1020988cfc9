#include "kernels/runtime/copy.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/errors.h"
#include "support/cuda_device.h"

namespace terngrad::copy_test {
namespace {

std::vector<std::int32_t> numbers(std::size_t count) {
  std::vector<std::int32_t> values(count);
  std::iota(values.begin(), values.end(), 1);
  return values;
}

TEST(Copy, OnTheCpuIsDoneAtOnce) {
  Stream stream(Device::cpu(), 1);
  const std::vector<std::int32_t> from = numbers(1000);
  std::vector<std::int32_t> to(1002, -1);
  copy<std::int32_t>(from, std::span(to).subspan(1, 1000), stream);
  EXPECT_EQ(to.front(), -1);
  EXPECT_EQ(to.back(), -1);
  EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin() + 1));
}

TEST(Copy, RefusesOtherLengthsAndTouchesNothing) {
  Stream stream(Device::cpu(), 1);
  const std::vector<std::int32_t> from = numbers(3);
  std::vector<std::int32_t> to(4, -1);
  EXPECT_THROW(copy<std::int32_t>(from, std::span(to), stream), InvalidArgument);
  EXPECT_THROW(copy<std::int32_t>(to, std::span(to).first(3), stream), InvalidArgument);
  EXPECT_EQ(to, std::vector<std::int32_t>(4, -1));
}

TEST(Copy, OfNothingNeedsNoMemory) {
  Stream stream(Device::cpu(), 1);
  EXPECT_NO_THROW(copy<float>({}, std::span<float>(), stream));
  EXPECT_NO_THROW(fill_zero(std::span<float>(), stream));
}

TEST(FillZero, SetsEveryByteAndNoOther) {
  Stream stream(Device::cpu(), 1);
  std::vector<std::int32_t> values(10, -1);
  fill_zero(std::span(values).subspan(2, 5), stream);
  EXPECT_EQ(values, (std::vector<std::int32_t>{-1, -1, 0, 0, 0, 0, 0, -1, -1, -1}));
}

using CudaCopy = testing::CudaTest;

TEST_F(CudaCopy, GoesThereOnAndBack) {
  Stream stream(Device::cuda());
  for (const std::size_t count : {std::size_t{1}, std::size_t{3}, std::size_t{4096}, std::size_t{100001}}) {
    const std::vector<std::int32_t> values = numbers(count);
    const Buffer<std::int32_t> first = testing::to_device<std::int32_t>(values, stream);
    Buffer<std::int32_t> second(static_cast<std::int64_t>(count), Device::cuda());
    copy<std::int32_t>(first.span(), second.span(), stream);
    EXPECT_EQ(testing::to_host<std::int32_t>(second.span(), stream), values) << count;
  }
}

TEST_F(CudaCopy, TakesPartsAtAnyAddress) {
  Stream stream(Device::cuda());
  std::vector<std::int8_t> values(300, -1);
  Buffer<std::int8_t> on_device = testing::to_device<std::int8_t>(values, stream);
  const std::array<std::int8_t, 7> part = {1, 2, 3, 4, 5, 6, 7};
  for (const std::size_t at : {std::size_t{1}, std::size_t{130}, std::size_t{293}}) {
    copy<std::int8_t>(part, on_device.span().subspan(at, part.size()), stream);
    std::copy(part.begin(), part.end(), values.begin() + static_cast<std::ptrdiff_t>(at));
  }
  EXPECT_EQ(testing::to_host<std::int8_t>(on_device.span(), stream), values);
  std::vector<std::int8_t> back(5);
  copy<std::int8_t>(on_device.span().subspan(131, 5), std::span(back), stream);
  stream.synchronize();
  EXPECT_EQ(back, (std::vector<std::int8_t>{2, 3, 4, 5, 6}));
}

TEST_F(CudaCopy, MayReuseTheHostsMemoryAtOnce) {
  Stream stream(Device::cuda());
  constexpr std::size_t kCount = 300000;
  std::vector<std::int32_t> values = numbers(kCount);
  const std::vector<std::int32_t> expected = values;
  const Buffer<std::int32_t> on_device = testing::to_device<std::int32_t>(values, stream);
  std::fill(values.begin(), values.end(), 0);
  EXPECT_EQ(testing::to_host<std::int32_t>(on_device.span(), stream), expected);
}

TEST_F(CudaCopy, IsInTheOrderOfTheStream) {
  Stream stream(Device::cuda());
  Buffer<std::int32_t> on_device = testing::to_device<std::int32_t>(numbers(1000), stream);
  fill_zero(on_device.span().first(400), stream);
  copy<std::int32_t>(numbers(100), on_device.span().subspan(100, 100), stream);
  const std::vector<std::int32_t> found = testing::to_host<std::int32_t>(on_device.span(), stream);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::size_t expected = i >= 400 ? i + 1 : i >= 100 && i < 200 ? i - 99 : 0;
    ASSERT_EQ(found[i], static_cast<std::int32_t>(expected)) << i;
  }
}

TEST_F(CudaCopy, RefusesOtherLengths) {
  Stream stream(Device::cuda());
  Buffer<float> on_device(4, Device::cuda());
  const std::vector<float> values(5);
  EXPECT_THROW(copy<float>(values, on_device.span(), stream), InvalidArgument);
  EXPECT_NO_THROW(copy<float>({}, on_device.span().first(0), stream));
  EXPECT_NO_THROW(fill_zero(on_device.span().first(0), stream));
}

}  // namespace
}  // namespace terngrad::copy_test
