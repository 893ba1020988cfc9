// Averaged residuals on a GPU against the CPU backend, bit for bit.
#include "kernels/tensor/averaged_residual.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kernels/tensor/bfloat16.h"
#include "support/bits.h"
#include "support/codes/averaged_residuals.h"
#include "support/cuda_device.h"
#include "support/gradients.h"
#include "support/guarded_array.h"

namespace terngrad::cuda_averaged_residual_test {
namespace {

using testing::bits_of;
using testing::GuardedArray;
using testing::residual_after;
using testing::ResidualSteps;
using CudaAveragedResidual = testing::CudaTest;

TEST_F(CudaAveragedResidual, MatchesTheCpu) {
  Stream cpu;
  Stream cuda(Device::cuda());
  for (const std::size_t n : {1u, 63u, 64u, 65u, 1000u, 4099u}) {
    for (const int exponent : {-125, 0, 125}) {
      const ResidualSteps steps = testing::residual_steps(n, 4, exponent);
      const ResidualAverage average{.decay = 0.8f, .weight = 0.2f, .reset = 3, .step = {.step = 1}};
      ASSERT_EQ(bits_of(residual_after(steps, average, cuda)), bits_of(residual_after(steps, average, cpu)))
          << n << ' ' << exponent;
    }
  }
}

TEST_F(CudaAveragedResidual, CompensatesNarrowGradientsAndResetsByTheStepOnTheDevice) {
  Stream cpu;
  Stream cuda(Device::cuda());
  constexpr std::size_t kCount = 1003;
  const std::vector<float> words = residual_after(testing::residual_steps(kCount, 2, 0), {.weight = 1}, cpu);
  std::vector<std::uint16_t> gradient(kCount);
  encode_bfloat16(testing::gaussian(kCount, 9), gradient, cpu);
  GuardedArray<float> words_there(words, 1, cuda);
  GuardedArray<std::uint16_t> gradient_there(gradient, 1, cuda);
  for (const std::uint64_t step : {7u, 8u}) {
    std::vector<float> expected(kCount);
    compensate({.state = words.data(),
                .gradient = gradient.data(),
                .type = ElementType::kBfloat16,
                .compensated = expected.data(),
                .count = kCount},
               {.reset = 4, .step = {.step = step}}, cpu);
    GuardedArray<float> found(std::vector<float>(kCount, 7.0f), 1, cuda);
    const Buffer<std::uint64_t> step_there = testing::to_device<std::uint64_t>(std::vector{step}, cuda);
    compensate({.state = words_there.span().data(),
                .gradient = gradient_there.span().data(),
                .type = ElementType::kBfloat16,
                .compensated = found.span().data(),
                .count = kCount},
               {.reset = 4, .step = {.step = 1, .on_device = step_there.data()}}, cuda);
    EXPECT_EQ(bits_of(found.values()), bits_of(expected)) << step;
  }
}

TEST_F(CudaAveragedResidual, IsResetByTheStepOnTheDevice) {
  Stream cuda(Device::cuda());
  const ResidualSteps steps = testing::residual_steps(200, 2, 0);
  const auto after = [&](std::uint64_t on_host, std::uint64_t on_device) {
    const Buffer<std::uint64_t> there = testing::to_device<std::uint64_t>(std::vector{on_device}, cuda);
    const DeviceStep step{.step = on_host, .on_device = on_device == 0 ? nullptr : there.data()};
    return residual_after(steps, {.decay = 0.5f, .weight = 0.5f, .reset = 3, .step = step}, cuda);
  };
  EXPECT_EQ(bits_of(after(3, 1)), bits_of(after(1, 0)));
  EXPECT_NE(bits_of(after(1, 3)), bits_of(after(1, 0)));
}

TEST_F(CudaAveragedResidual, WritesNoFurtherAndNothingOfADroppedStep) {
  Stream cpu;
  Stream cuda(Device::cuda());
  constexpr std::size_t kCount = 100;
  const ResidualSteps steps = testing::residual_steps(kCount, 1, 0);
  GuardedArray<float> encoded(steps.encoded[0], 1, cuda);
  GuardedArray<float> sent(steps.sent[0], 2, cuda);
  const std::vector<float> before(static_cast<std::size_t>(residual_words(kCount)), 3.0f);
  for (const std::uint32_t skip : {0u, 1u}) {
    for (const float flag : {0.5f, std::numeric_limits<float>::quiet_NaN()}) {
      GuardedArray<float> state(before, 1, cuda);
      const Buffer<float> flag_there = testing::to_device<float>(std::vector{flag}, cuda);
      const Buffer<std::uint32_t> skip_there = testing::to_device<std::uint32_t>(std::vector{skip}, cuda);
      update_residual({.encoded = encoded.span().data(),
                       .sent = sent.span().data(),
                       .state = state.span().data(),
                       .count = kCount,
                       .flag = flag_there.data(),
                       .skip = skip_there.data()},
                      {.decay = 0.5f, .weight = 0.5f}, cuda);
      EXPECT_EQ(bits_of(state.values()) == bits_of(before), skip != 0 || flag != flag);
    }
  }
}

}  // namespace
}  // namespace terngrad::cuda_averaged_residual_test
