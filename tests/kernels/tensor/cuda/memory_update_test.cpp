// Error feedback and momentum on a GPU against the CPU backend, bit for bit.
#include "kernels/tensor/memory_update.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"
#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/gradients.h"
#include "support/guarded_array.h"

namespace terngrad::cuda_memory_update_test {
namespace {

using testing::bits_of;
using testing::GuardedArray;
using CudaMemoryUpdate = testing::CudaTest;

TEST_F(CudaMemoryUpdate, CompensatesAsTheCpuDoes) {
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  for (const std::size_t n : {0u, 1u, 5u, 2047u, 4099u}) {
    for (const std::size_t start : {0u, 1u, 2u, 3u}) {
      const std::vector<float> state = testing::gaussian(n, 1);
      const std::vector<float> gradient = testing::gaussian(n, 2);
      std::vector<float> expected(n);
      const auto count = static_cast<std::int64_t>(n);
      compensate({.state = state.data(), .gradient = gradient.data(), .compensated = expected.data(), .count = count},
                 0.9f, 0.1f, cpu);
      GuardedArray<float> state_there(state, start, cuda);
      GuardedArray<float> gradient_there(gradient, 0, cuda);
      GuardedArray<float> found(std::vector<float>(n, 7.0f), start, cuda);
      compensate({.state = state_there.span().data(),
                  .gradient = gradient_there.span().data(),
                  .compensated = found.span().data(),
                  .count = count},
                 0.9f, 0.1f, cuda);
      ASSERT_EQ(bits_of(found.values()), bits_of(expected)) << n << ' ' << start;
    }
  }
}

TEST_F(CudaMemoryUpdate, KeepsAsTheCpuDoes) {
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr std::size_t kCount = 4099;
  const std::vector<float> encoded = testing::gaussian(kCount, 1);
  const std::vector<float> sent = testing::gaussian(kCount, 2);
  GuardedArray<float> encoded_there(encoded, 1, cuda);
  for (const bool subtracts : {true, false}) {
    for (const bool in_place : {true, false}) {
      for (const float flag : {0.5f, nan}) {
        for (const std::uint32_t skip : {0u, 1u}) {
          std::vector<float> expected = in_place ? sent : testing::gaussian(kCount, 3);
          GuardedArray<float> kept(expected, 1, cuda);
          GuardedArray<float> sent_there(sent, 1, cuda);
          const Buffer<float> flag_there = testing::to_device<float>(std::vector<float>{flag}, cuda);
          const Buffer<std::uint32_t> skip_there = testing::to_device<std::uint32_t>(std::vector{skip}, cuda);
          MemoryUpdateTask task{
              .encoded = encoded.data(), .kept = expected.data(), .count = kCount, .flag = &flag, .skip = &skip};
          if (subtracts) task.sent = in_place ? expected.data() : sent.data();
          update_memory(task, cpu);
          task = {.encoded = encoded_there.span().data(),
                  .kept = kept.span().data(),
                  .count = kCount,
                  .flag = flag_there.data(),
                  .skip = skip_there.data()};
          if (subtracts) task.sent = in_place ? kept.span().data() : sent_there.span().data();
          update_memory(task, cuda);
          ASSERT_EQ(bits_of(kept.values()), bits_of(expected)) << subtracts << in_place << flag << skip;
        }
      }
    }
  }
}

TEST_F(CudaMemoryUpdate, AccumulatesAndMasksAsTheCpuDoes) {
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  for (const std::size_t n : {0u, 1u, 5u, 2047u, 4099u}) {
    for (const bool nesterov : {false, true}) {
      const auto count = static_cast<std::int64_t>(n);
      std::vector<std::vector<float>> values;
      std::vector<GuardedArray<float>> there;
      for (std::uint64_t seed = 1; seed < 4; ++seed) values.push_back(testing::gaussian(n, seed));
      for (std::size_t i = 0; i < n; i += 3) values[0][i] = 0;  // entries that were not sent
      there.reserve(values.size());
      for (const std::vector<float>& of : values) there.emplace_back(of, n % 4, cuda);
      std::vector<float> next(n);
      std::vector<float> out(n);
      accumulate({.residual = values[0].data(),
                  .velocity = values[1].data(),
                  .gradient = values[2].data(),
                  .next_velocity = next.data(),
                  .compensated = out.data(),
                  .count = count},
                 0.9f, nesterov, cpu);
      GuardedArray<float> next_there(std::vector<float>(n, 7.0f), 1, cuda);
      GuardedArray<float> out_there(std::vector<float>(n, 7.0f), 2, cuda);
      accumulate({.residual = there[0].span().data(),
                  .velocity = there[1].span().data(),
                  .gradient = there[2].span().data(),
                  .next_velocity = next_there.span().data(),
                  .compensated = out_there.span().data(),
                  .count = count},
                 0.9f, nesterov, cuda);
      ASSERT_EQ(bits_of(next_there.values()), bits_of(next)) << n;
      ASSERT_EQ(bits_of(out_there.values()), bits_of(out)) << n;
      for (const auto rule : {MemoryUpdateTask::Rule::kMask, MemoryUpdateTask::Rule::kAdd}) {
        std::vector<float> kept = next;
        update_memory(
            {.encoded = kept.data(), .sent = values[0].data(), .kept = kept.data(), .count = count, .rule = rule}, cpu);
        GuardedArray<float> kept_there(next, 3, cuda);
        update_memory({.encoded = kept_there.span().data(),
                       .sent = there[0].span().data(),
                       .kept = kept_there.span().data(),
                       .count = count,
                       .rule = rule},
                      cuda);
        ASSERT_EQ(bits_of(kept_there.values()), bits_of(kept)) << n;
      }
    }
  }
}

TEST_F(CudaMemoryUpdate, TakesNarrowGradientsAsTheCpuDoes) {
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  for (const ElementType type : {ElementType::kBfloat16, ElementType::kFloat16}) {
    for (const std::size_t n : {1u, 2047u, 4099u}) {
      const std::vector<float> residual = testing::gaussian(n, 1);
      const std::vector<float> velocity = testing::gaussian(n, 2);
      std::vector<std::uint16_t> gradient(n);
      (type == ElementType::kBfloat16 ? encode_bfloat16 : encode_float16)(testing::gaussian(n, 3), gradient, cpu);
      GuardedArray<float> residual_there(residual, 1, cuda);
      GuardedArray<float> velocity_there(velocity, 2, cuda);
      GuardedArray<std::uint16_t> gradient_there(gradient, n % 2, cuda);
      for (const bool with_residual : {false, true}) {
        AccumulateTask task{.residual = with_residual ? residual.data() : nullptr,
                            .velocity = velocity.data(),
                            .gradient = gradient.data(),
                            .type = type,
                            .count = static_cast<std::int64_t>(n)};
        std::vector<float> next(n);
        std::vector<float> out(n);
        task.next_velocity = next.data();
        task.compensated = out.data();
        accumulate(task, 0.9f, with_residual, cpu);
        GuardedArray<float> next_there(std::vector<float>(n, 7.0f), 0, cuda);
        GuardedArray<float> out_there(std::vector<float>(n, 7.0f), 0, cuda);
        task.residual = with_residual ? residual_there.span().data() : nullptr;
        task.velocity = velocity_there.span().data();
        task.gradient = gradient_there.span().data();
        task.next_velocity = next_there.span().data();
        task.compensated = out_there.span().data();
        accumulate(task, 0.9f, with_residual, cuda);
        ASSERT_EQ(bits_of(next_there.values()), bits_of(next)) << n;
        ASSERT_EQ(bits_of(out_there.values()), bits_of(out)) << n;
        compensate({.state = residual.data(),
                    .gradient = gradient.data(),
                    .type = type,
                    .compensated = out.data(),
                    .count = task.count},
                   0.9f, 0.1f, cpu);
        compensate({.state = residual_there.span().data(),
                    .gradient = task.gradient,
                    .type = type,
                    .compensated = out_there.span().data(),
                    .count = task.count},
                   0.9f, 0.1f, cuda);
        ASSERT_EQ(bits_of(out_there.values()), bits_of(out)) << n;
      }
    }
  }
}

}  // namespace
}  // namespace terngrad::cuda_memory_update_test
