// Intrinsics of the emulation, compared with the CUDA C++ Programming Guide, and its error messages.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "kernels/runtime/cuda/launch.cuh"
#include "support/cuda_device.h"

namespace terngrad::cuda::intrinsics_test {
namespace {

constexpr unsigned kAll = ~0u;

/// Results of the 32 lanes of a warp.
template <class Compute>
std::vector<int> by_lane(Compute compute) {
  std::vector<int> result(32);
  simt::launch(dim3(1), dim3(32), 0, [&] { result[threadIdx.x] = static_cast<int>(compute(int(threadIdx.x))); });
  return result;
}

TEST(Shuffles, ReadTheLaneThatTheGuideNames) {
  struct Case {
    std::function<int(int lane)> shuffle;
    std::function<int(int lane)> source;
  };
  const Case cases[] = {
      {[](int i) { return __shfl_sync(kAll, i, 5); }, [](int) { return 5; }},
      {[](int i) { return __shfl_sync(kAll, i, 37); }, [](int) { return 5; }},
      {[](int i) { return __shfl_sync(kAll, i, i + 1, 8); }, [](int i) { return i / 8 * 8 + (i + 1) % 8; }},
      {[](int i) { return __shfl_xor_sync(kAll, i, 9); }, [](int i) { return i ^ 9; }},
      // Earlier groups can be read, later ones not.
      {[](int i) { return __shfl_xor_sync(kAll, i, 8, 8); }, [](int i) { return i & 8 ? i ^ 8 : i; }},
      {[](int i) { return __shfl_down_sync(kAll, i, 3); }, [](int i) { return i + 3 < 32 ? i + 3 : i; }},
      {[](int i) { return __shfl_down_sync(kAll, i, 3, 16); }, [](int i) { return i % 16 + 3 < 16 ? i + 3 : i; }},
      {[](int i) { return __shfl_up_sync(kAll, i, 3); }, [](int i) { return i >= 3 ? i - 3 : i; }},
      {[](int i) { return __shfl_up_sync(kAll, i, 3, 16); }, [](int i) { return i % 16 >= 3 ? i - 3 : i; }},
  };
  for (std::size_t c = 0; c < std::size(cases); ++c) {
    const std::vector<int> found = by_lane(cases[c].shuffle);
    for (int lane = 0; lane < 32; ++lane) {
      EXPECT_EQ(found[static_cast<std::size_t>(lane)], cases[c].source(lane)) << "case " << c << " lane " << lane;
    }
  }
}

TEST(Shuffles, MoveValuesOfEverySize) {
  const std::vector<int> found = by_lane([](int lane) {
    const auto byte = __shfl_xor_sync(kAll, static_cast<signed char>(-lane), 1);
    const auto wide = __shfl_xor_sync(kAll, static_cast<long long>(lane) << 40, 1);
    const auto real = __shfl_xor_sync(kAll, 0.5 * lane, 1);
    return byte == -(lane ^ 1) && wide >> 40 == (lane ^ 1) && real == 0.5 * (lane ^ 1);
  });
  EXPECT_EQ(found, std::vector<int>(32, 1));
}

TEST(Votes, CountTheLanesOfTheMask) {
  EXPECT_EQ(by_lane([](int lane) { return __ballot_sync(kAll, lane % 3 == 0) == 0x49249249u; }),
            std::vector<int>(32, 1));
  EXPECT_EQ(by_lane([](int lane) { return lane < 8 ? __ballot_sync(0xffu, lane % 2) == 0xaau : 1; }),
            std::vector<int>(32, 1));
  EXPECT_EQ(by_lane([](int lane) { return __any_sync(kAll, lane == 7) + 2 * __all_sync(kAll, lane == 7); }),
            std::vector<int>(32, 1));
  EXPECT_EQ(by_lane([](int lane) { return __all_sync(kAll, lane < 32); }), std::vector<int>(32, 1));
  EXPECT_EQ(
      by_lane([](int lane) { return __match_any_sync(kAll, lane % 2) == (lane % 2 ? 0xaaaaaaaau : 0x55555555u); }),
      std::vector<int>(32, 1));
}

TEST(WarpReductions, CombineTheLanesOfTheMask) {
  EXPECT_EQ(by_lane([](int lane) { return __reduce_add_sync(kAll, lane); }), std::vector<int>(32, 496));
  EXPECT_EQ(by_lane([](int lane) { return __reduce_min_sync(kAll, 5 - lane); }), std::vector<int>(32, -26));
  EXPECT_EQ(by_lane([](int lane) { return __reduce_max_sync(kAll, static_cast<unsigned>(5 - lane)) == ~0u; }),
            std::vector<int>(32, 1));
  EXPECT_EQ(by_lane([](int lane) { return __reduce_or_sync(kAll, 1u << lane) == ~0u; }), std::vector<int>(32, 1));
  EXPECT_EQ(by_lane([](int lane) { return __reduce_xor_sync(kAll, 1u << lane / 2); }), std::vector<int>(32, 0));
  EXPECT_EQ(by_lane([](int lane) { return __reduce_and_sync(kAll, ~(1u << lane)); }), std::vector<int>(32, 0));
}

TEST(Barriers, CountPredicatesOfThreadsThatHaveNotEnded) {
  std::vector<int> result(96);
  simt::launch(dim3(1), dim3(96), 0, [&] {
    const auto i = static_cast<int>(threadIdx.x);
    const int count = __syncthreads_count(i < 40);
    if (i >= 64) return;
    result[threadIdx.x] = count + 100 * __syncthreads_or(i == 63) + 1000 * __syncthreads_and(i < 64);
  });
  for (std::size_t i = 0; i < 96; ++i) EXPECT_EQ(result[i], i < 64 ? 1140 : 0) << i;
}

TEST(Indices, CoverAGridOfThreeDimensions) {
  std::vector<int> hits(2 * 3 * 4 * 8 * 2 * 4);
  simt::launch(dim3(2, 3, 4), dim3(8, 2, 4), 0, [&] {
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    ++hits[block * 64 + thread];
  });
  EXPECT_EQ(hits, std::vector<int>(hits.size(), 1));
}

TEST(Atomics, ReturnTheValueBefore) {
  int value = std::numeric_limits<int>::max();
  EXPECT_EQ(atomicAdd(&value, 1), std::numeric_limits<int>::max());
  EXPECT_EQ(atomicSub(&value, 1), std::numeric_limits<int>::min());  // both wrap
  EXPECT_EQ(atomicExch(&value, 6), std::numeric_limits<int>::max());
  EXPECT_EQ(atomicMax(&value, 9), 6);
  EXPECT_EQ(atomicMin(&value, 10), 9);
  EXPECT_EQ(atomicAnd(&value, 12), 9);
  EXPECT_EQ(atomicOr(&value, 3), 8);
  EXPECT_EQ(atomicXor(&value, 1), 11);
  EXPECT_EQ(atomicCAS(&value, 11, 7), 10);
  EXPECT_EQ(atomicCAS(&value, 10, 7), 10);
  EXPECT_EQ(value, 7);
  unsigned count = 1;
  EXPECT_EQ(atomicInc(&count, 2), 1u);
  EXPECT_EQ(atomicInc(&count, 2), 2u);
  EXPECT_EQ(count, 0u);
  double sum = 0.5;
  EXPECT_EQ(atomicAdd(&sum, 2.0), 0.5);
  EXPECT_EQ(sum, 2.5);
}

TEST(Arithmetic, TakesTheLargerAndSmallerAsAGpuDoes) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(max(nan, 1.0f), 1.0f);
  EXPECT_EQ(min(1.0f, nan), 1.0f);
  EXPECT_FALSE(std::signbit(max(-0.0f, 0.0f)));
  EXPECT_FALSE(std::signbit(max(0.0f, -0.0f)));
  EXPECT_TRUE(std::signbit(min(-0.0f, 0.0f)));
  EXPECT_TRUE(std::signbit(min(0.0f, -0.0f)));
  EXPECT_EQ(max(-1, 2), 2);
}

TEST(Arithmetic, RoundsSumsTowardsZero) {
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(__fadd_rz(1.0f, 0x1.8p-24f), 1.0f);
  EXPECT_EQ(__fadd_rz(1.0f, -0x1p-60f), 0x1.fffffep-1f);
  EXPECT_EQ(__fadd_rz(-1.0f, -0x1.8p-24f), -1.0f);
  EXPECT_EQ(__fadd_rz(-1.0f, 0x1p-60f), -0x1.fffffep-1f);
  EXPECT_EQ(__fadd_rz(1.0f, 0x1p-23f), 0x1.000002p0f);
  EXPECT_EQ(__fadd_rz(largest, largest), largest);
  EXPECT_EQ(__fadd_rz(std::numeric_limits<float>::infinity(), 1.0f), std::numeric_limits<float>::infinity());
}

TEST(Arithmetic, RoundsRootsToNearest) {
  EXPECT_EQ(__fsqrt_rn(2.0f), 0x1.6a09e6p0f);
  EXPECT_EQ(__dsqrt_rn(2.0), 0x1.6a09e667f3bcdp0);
  EXPECT_TRUE(std::isnan(__dsqrt_rn(-1.0)));
}

TEST(Arithmetic, MovesBits) {
  EXPECT_EQ(__umulhi(0xffffffffu, 0xffffffffu), 0xfffffffeu);
  EXPECT_EQ(__popc(0xf0f0u), 8);
  EXPECT_EQ(__clz(0), 32);
  EXPECT_EQ(__clz(1), 31);
  EXPECT_EQ(__ffs(0), 0);
  EXPECT_EQ(__ffs(8), 4);
  EXPECT_EQ(__brev(1u), 0x80000000u);
  EXPECT_EQ(__funnelshift_l(0x80000000u, 1u, 1), 3u);
  EXPECT_EQ(__funnelshift_r(0x80000000u, 1u, 31), 3u);
  EXPECT_EQ(__funnelshift_r(0x12345678u, 1u, 32), 0x12345678u);
  EXPECT_EQ(__byte_perm(0x33221100u, 0x77665544u, 0x7250u), 0x77225500u);
  EXPECT_EQ(__float_as_uint(1.0f), 0x3f800000u);
  EXPECT_EQ(__uint_as_float(0xbf800000u), -1.0f);
}

__global__ void do_nothing() {}

TEST(Launches, OfShapesThatNoGpuTakesAreErrors) {
  const Stream stream(Device::cuda());
  for (const dim3 block : {dim3(0), dim3(1025), dim3(64, 32), dim3(1, 1, 65)}) {
    EXPECT_THROW(launch(do_nothing, dim3(1), block, 0, stream), DeviceError) << block.x << ' ' << block.y;
  }
  EXPECT_THROW(launch(do_nothing, dim3(1, 65536), dim3(32), 0, stream), DeviceError);
  EXPECT_THROW(launch(do_nothing, dim3(1, 1, 65536), dim3(32), 0, stream), DeviceError);
  EXPECT_THROW(launch(do_nothing, dim3(1), dim3(32), (48 << 10) + 1, stream), DeviceError);
  EXPECT_NO_THROW(launch(do_nothing, dim3(1), dim3(1024), 48 << 10, stream));
  EXPECT_NO_THROW(launch(do_nothing, dim3(1, 0), dim3(32), 0, stream));  // an empty grid launches nothing
}

TEST(NumBlocks, RoundUpAndStayWithinAGrid) {
  EXPECT_EQ(num_blocks_for(0, 256), 0u);
  EXPECT_EQ(num_blocks_for(1, 256), 1u);
  EXPECT_EQ(num_blocks_for(256, 256), 1u);
  EXPECT_EQ(num_blocks_for(257, 256), 2u);
  EXPECT_EQ(num_blocks_for(std::int64_t{0x7fffffff} * 256, 256), 0x7fffffffu);
  EXPECT_THROW(num_blocks_for(std::int64_t{0x7fffffff} * 256 + 1, 256), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda::intrinsics_test
