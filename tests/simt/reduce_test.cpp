// Reductions of kernels/tensor/cuda/reduce.cuh, in their documented order of additions.
#include "kernels/tensor/cuda/reduce.cuh"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/runtime/cuda/launch.cuh"
#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/gradients.h"

namespace terngrad::cuda::reduce_test {
namespace {

constexpr unsigned kThreads = 256;

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};

template <unsigned Threads>
__global__ void reduce_kernel(const float* in, float* of_warps, float* of_blocks) {
  const unsigned i = blockIdx.x * Threads + threadIdx.x;
  of_warps[i] = warp_reduce(in[i], Add());
  const float once = block_reduce<Threads>(in[i], Add());
  const float again = block_reduce<Threads>(2 * in[i], Add());
  if (threadIdx.x == 0) {
    of_blocks[2 * blockIdx.x] = once;
    of_blocks[2 * blockIdx.x + 1] = again;
  }
}

/// Sum by halves.
float tree_sum(std::span<const float> values) {
  std::vector<float> sums(values.begin(), values.end());
  for (std::size_t distance = sums.size() / 2; distance > 0; distance /= 2) {
    for (std::size_t i = 0; i < distance; ++i) sums[i] += sums[i + distance];
  }
  return sums[0];
}

template <unsigned Threads>
void expect_reductions() {
  constexpr std::size_t kBlocks = 3;
  Stream stream(Device::cuda());
  const std::vector<float> values = terngrad::testing::gaussian(kBlocks * Threads, 1);
  const Buffer<float> in = terngrad::testing::to_device<float>(values, stream);
  Buffer<float> of_warps(kBlocks * Threads, Device::cuda());
  Buffer<float> of_blocks(2 * kBlocks, Device::cuda());
  launch(reduce_kernel<Threads>, dim3(kBlocks), dim3(Threads), 0, stream, in.data(), of_warps.data(), of_blocks.data());
  const std::vector<float> warps = terngrad::testing::to_host<float>(of_warps.span(), stream);
  const std::vector<float> blocks = terngrad::testing::to_host<float>(of_blocks.span(), stream);
  for (std::size_t block = 0; block < kBlocks; ++block) {
    float sum = 0;
    for (std::size_t warp = 0; warp < Threads / 32; ++warp) {
      const float of_warp = tree_sum(std::span(values).subspan(block * Threads + warp * 32, 32));
      for (std::size_t lane = 0; lane < 32; ++lane) {
        ASSERT_EQ(terngrad::testing::bits_of(warps[block * Threads + warp * 32 + lane]),
                  terngrad::testing::bits_of(of_warp));
      }
      sum = warp == 0 ? of_warp : sum + of_warp;
    }
    EXPECT_EQ(terngrad::testing::bits_of(blocks[2 * block]), terngrad::testing::bits_of(sum)) << block;
    EXPECT_EQ(terngrad::testing::bits_of(blocks[2 * block + 1]), terngrad::testing::bits_of(2 * sum)) << block;
  }
}

TEST(Reductions, OfWarpsAndBlocksAreInOneOrder) {
  expect_reductions<32>();
  expect_reductions<96>();
  expect_reductions<256>();
  expect_reductions<1024>();
}

__global__ void exclusive_sum_kernel(const unsigned* in, unsigned* sums, unsigned* totals) {
  unsigned total = 0;
  sums[threadIdx.x] = block_exclusive_sum<kThreads>(in[threadIdx.x], total);
  totals[threadIdx.x] = total;
  sums[threadIdx.x] += block_exclusive_sum<kThreads>(3 * in[threadIdx.x], total);
  totals[threadIdx.x] += total;
}

TEST(ExclusiveSum, IsTheSumOverTheThreadsBefore) {
  Stream stream(Device::cuda());
  std::vector<unsigned> values(kThreads);
  for (unsigned i = 0; i < kThreads; ++i) values[i] = i * 2654435761u >> 20;
  const Buffer<unsigned> in = terngrad::testing::to_device<unsigned>(values, stream);
  Buffer<unsigned> sums(kThreads, Device::cuda());
  Buffer<unsigned> totals(kThreads, Device::cuda());
  launch(exclusive_sum_kernel, dim3(1), dim3(kThreads), 0, stream, in.data(), sums.data(), totals.data());
  const std::vector<unsigned> found = terngrad::testing::to_host<unsigned>(sums.span(), stream);
  const std::vector<unsigned> total = terngrad::testing::to_host<unsigned>(totals.span(), stream);
  unsigned before = 0;
  for (unsigned i = 0; i < kThreads; ++i) {
    EXPECT_EQ(found[i], 4 * before) << i;
    before += values[i];
  }
  for (unsigned i = 0; i < kThreads; ++i) EXPECT_EQ(total[i], 4 * before) << i;
}

}  // namespace
}  // namespace terngrad::cuda::reduce_test
