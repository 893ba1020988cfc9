#include "nets/cuda/moving_statistics.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "nets/cpu/moving_statistics.h"
#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/guarded_array.h"
#include "tests/nets/reference_net.h"

namespace terngrad::cuda::moving_statistics_test {
namespace {

using terngrad::testing::bits_of;
using terngrad::testing::GuardedArray;
using CudaMovingStatistics = terngrad::testing::CudaTest;

constexpr std::size_t kWorkers = 3;

/// State of several workers: mean, variance, weight, and elements that do not belong to the layer.
std::vector<float> initial_states(std::size_t channels) {
  std::vector<float> states;
  for (std::size_t w = 0; w < kWorkers; ++w) {
    states.insert(states.end(), channels, 0.0f);
    states.insert(states.end(), channels, 1.0f);
    states.insert(states.end(), {0.0f, 77.0f});
  }
  return states;
}

void update_on_cpu(float decay, const std::vector<float>& mean, const std::vector<float>& variance,
                   std::vector<float>& states) {
  const std::size_t channels = mean.size() / kWorkers;
  for (std::size_t w = 0; w < kWorkers; ++w) {
    const std::span<float> state = std::span(states).subspan(w * (2 * channels + 2), 2 * channels + 2);
    cpu::update_moving_statistics(
        decay, std::span(mean).subspan(w * channels, channels), std::span(variance).subspan(w * channels, channels),
        {.mean = state.first(channels), .variance = state.subspan(channels, channels), .weight = &state[2 * channels]});
  }
}

void update_on_device(float decay, const std::vector<float>& mean, const std::vector<float>& variance,
                      GuardedArray<float>& states, Stream& stream) {
  const auto channels = static_cast<int>(mean.size() / kWorkers);
  GuardedArray<float> mean_there(mean, 1, stream);
  GuardedArray<float> variance_there(variance, 1, stream);
  const WorkerBuffers<float> all{states.data(), 2 * channels + 2};
  update_moving_statistics(decay, mean_there.data(), variance_there.data(), channels, static_cast<int>(kWorkers),
                           {.mean = all, .variance = all.from(channels), .weight = all.from(2 * channels)}, stream);
  stream.synchronize();
}

TEST_F(CudaMovingStatistics, EveryWorkerHasTheCpusBits) {
  Stream stream(Device::cuda());
  for (const float decay : {0.0f, 0.9f, 0.9997f}) {
    for (const std::size_t channels : {1u, 5u, 64u, 300u}) {
      std::vector<float> expected = initial_states(channels);
      GuardedArray<float> found(expected, 1, stream);
      for (std::uint32_t step = 0; step < 4; ++step) {
        const std::vector<float> mean = test::random_floats(kWorkers * channels, 2 * step);
        std::vector<float> variance = test::random_floats(kWorkers * channels, 2 * step + 1);
        // Far from the earlier ones: a decay of 0 must take them exactly.
        for (float& value : variance) value *= value * (step % 2 == 0 ? 1e3f : 1e-15f);
        update_on_cpu(decay, mean, variance, expected);
        update_on_device(decay, mean, variance, found, stream);
        ASSERT_EQ(bits_of(found.values()), bits_of(expected)) << channels << " channels, step " << step;
      }
    }
  }
}

TEST_F(CudaMovingStatistics, AWorkerWhoseBatchIsNotFiniteKeepsItsState) {
  Stream stream(Device::cuda());
  constexpr std::size_t kChannels = 300;
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::size_t place : {0u, 299u}) {
      for (const bool in_mean : {false, true}) {
        std::vector<float> mean = test::random_floats(kWorkers * kChannels, 1);
        std::vector<float> variance = test::random_floats(kWorkers * kChannels, 2);
        (in_mean ? mean : variance)[kChannels + place] = bad;  // worker 1
        std::vector<float> expected = initial_states(kChannels);
        GuardedArray<float> found(expected, 0, stream);
        update_on_cpu(0.5f, mean, variance, expected);
        update_on_device(0.5f, mean, variance, found, stream);
        ASSERT_EQ(bits_of(found.values()), bits_of(expected));
        ASSERT_EQ(expected[2 * kChannels + 2], 0.0f) << "worker 1 kept its mean";
        ASSERT_EQ(expected[2 * kChannels], 0.5f) << "worker 0 moved on";
      }
    }
  }
}

}  // namespace
}  // namespace terngrad::cuda::moving_statistics_test
