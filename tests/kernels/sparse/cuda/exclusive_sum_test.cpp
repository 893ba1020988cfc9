#include "kernels/sparse/cuda/exclusive_sum.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/runtime/captured_graph.h"
#include "support/cuda_device.h"

namespace terngrad::cuda_exclusive_sum_test {
namespace {

using CudaExclusiveSum = testing::CudaTest;

std::vector<std::uint64_t> sums_of(const std::vector<std::uint64_t>& values) {
  std::vector<std::uint64_t> sums;
  std::uint64_t sum = 0;
  for (const std::uint64_t value : values) {
    sums.push_back(sum);
    sum += value;
  }
  return sums;
}

TEST_F(CudaExclusiveSum, AddsWhatCameBefore) {
  Stream stream(Device::cuda());
  cuda::ExclusiveSum sum(stream.device());
  for (const std::size_t count : {1u, 2u, 1000u, 3u, 100000u}) {
    std::vector<std::uint64_t> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = i * i * 0x1'0000'0001u + 7;  // both halves
    const Buffer<std::uint64_t> in = testing::to_device<std::uint64_t>(values, stream);
    Buffer<std::uint64_t> out(static_cast<std::int64_t>(count), stream.device());
    const auto work = [&] { sum.run(in.data(), out.data(), static_cast<std::int64_t>(count), stream); };
    work();
    EXPECT_EQ(testing::to_host<std::uint64_t>(out.span(), stream), sums_of(values)) << count;
    fill_zero(out.span(), stream);
    const CapturedGraph graph(stream, work);
    graph.launch(stream);
    EXPECT_EQ(testing::to_host<std::uint64_t>(out.span(), stream), sums_of(values)) << count << ", from a graph";
  }
  sum.run(nullptr, nullptr, 0, stream);
}

}  // namespace
}  // namespace terngrad::cuda_exclusive_sum_test
