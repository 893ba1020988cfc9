// Factor steps between the products on a GPU against the CPU backend, bit for bit.
#include "kernels/factors/factor_steps.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/gradients.h"
#include "support/guarded_array.h"

namespace terngrad::cuda_factor_steps_test {
namespace {

using testing::bits_of;
using testing::gaussian;
using testing::GuardedArray;
using CudaFactorSteps = testing::CudaTest;

constexpr std::uint64_t kSeed = 9;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST_F(CudaFactorSteps, BeginAsOnTheCpuWithTheStepAnywhere) {
  constexpr std::int64_t kColumns = 1300;
  std::vector<float> kept = gaussian(3 * kColumns, 1);
  std::fill_n(kept.begin() + kColumns, kColumns, -0.0f);
  kept[2 * kColumns - 1] = 1e-40f;  // the only non-zero of its column
  std::fill_n(kept.begin() + 2 * kColumns, kColumns, 0.0f);
  std::vector<float> q(kept.size());
  std::vector<float> fresh(2 * 9);
  std::vector<FactorBegin> tasks = {
      {.kept = kept.data(), .q = q.data(), .rank = 3, .columns = kColumns, .draw_offset = 128},
      {.q = fresh.data(), .rank = 2, .columns = 9, .draw_offset = 640}};
  Stream cpu(Device::cpu(), 1);
  FactorSteps().begin(tasks, kSeed, {77, nullptr}, cpu);

  Stream stream(Device::cuda());
  GuardedArray<float> kept_there(kept, 1, stream);
  GuardedArray<float> q_there(std::vector<float>(q.size()), 0, stream);
  GuardedArray<float> fresh_there(std::vector<float>(fresh.size()), 1, stream);
  const std::uint64_t number = 77;
  const Buffer<std::uint64_t> step = testing::to_device<std::uint64_t>({&number, 1}, stream);
  tasks[0].kept = kept_there.data();
  tasks[0].q = q_there.data();
  tasks[1].q = fresh_there.data();
  FactorSteps steps(Device::cuda());
  for (const DeviceStep& each : {DeviceStep{77, nullptr}, DeviceStep{5, step.data()}}) {
    fill_zero(q_there.span(), stream);
    steps.begin(tasks, kSeed, each, stream);
    EXPECT_EQ(bits_of(q_there.values()), bits_of(q));
    EXPECT_EQ(bits_of(fresh_there.values()), bits_of(fresh));
  }
}

TEST_F(CudaFactorSteps, RoundsAndFlagsAsOnTheCpu) {
  Stream stream(Device::cuda());
  Stream cpu(Device::cpu(), 1);
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    std::vector<std::vector<float>> factors;
    std::vector<float> flags;
    for (const float last : {1.0f, kNan, 0x1.fep127f, 0x1.ff8p127f, -std::numeric_limits<float>::infinity()}) {
      for (const float flag : {0.0f, kNan}) {
        factors.push_back(gaussian(1100, factors.size()));
        factors.back().back() = last;
        flags.push_back(flag);
      }
    }
    for (int which = 0; which < 3; ++which) {
      const auto round = [&](FactorSteps& steps, std::span<const FactorRounding> tasks, Stream& in) {
        which == 0   ? steps.round_first(tasks, in)
        : which == 1 ? steps.round_second(tasks, in)
                     : steps.round_mean(tasks, in);
      };
      std::vector<std::vector<float>> expected = factors;
      std::vector<float> expected_flags = flags;
      std::vector<FactorRounding> tasks;
      std::vector<FactorRounding> tasks_there;
      std::vector<GuardedArray<float>> there;
      GuardedArray<float> flags_there(flags, 0, stream);
      for (const std::vector<float>& factor : factors) there.emplace_back(factor, there.size() % 3, stream);
      for (std::size_t i = 0; i < factors.size(); ++i) {
        tasks.push_back({.values = expected[i].data(), .count = 1100, .type = type, .flag = &expected_flags[i]});
        tasks_there.push_back({.values = there[i].data(), .count = 1100, .type = type, .flag = flags_there.data() + i});
      }
      FactorSteps on_cpu;
      round(on_cpu, tasks, cpu);
      FactorSteps on_gpu(Device::cuda());
      round(on_gpu, tasks_there, stream);
      EXPECT_EQ(bits_of(flags_there.values()), bits_of(expected_flags)) << which;
      for (std::size_t i = 0; i < factors.size(); ++i) {
        ASSERT_EQ(bits_of(there[i].values()), bits_of(expected[i])) << which << ", " << i;
      }
    }
  }
}

TEST_F(CudaFactorSteps, KeepsUnlessTheStepIsSkippedAndFromAGraph) {
  Stream stream(Device::cuda());
  const std::vector<float> from = gaussian(3000, 5);
  GuardedArray<float> from_there(from, 1, stream);
  GuardedArray<float> to_there(std::vector<float>(3000, 7), 2, stream);
  std::uint32_t skip = 1;
  Buffer<std::uint32_t> skip_there = testing::to_device<std::uint32_t>({&skip, 1}, stream);
  const FactorMemoryTask task{from_there.data(), to_there.data(), 3000};
  FactorSteps steps(Device::cuda());
  const auto update_memory = [&] { steps.update_memory({&task, 1}, skip_there.data(), stream); };
  EXPECT_THROW(CapturedGraph(stream, update_memory), InvalidArgument);
  update_memory();
  EXPECT_EQ(to_there.values(), std::vector<float>(3000, 7));
  CapturedGraph graph(stream, update_memory);
  skip = 0;
  copy<std::uint32_t>({&skip, 1}, skip_there.span(), stream);
  graph.launch(stream);
  EXPECT_EQ(to_there.values(), from);
}

TEST_F(CudaFactorSteps, RefusesAStreamOfAnotherDevice) {
  Stream cpu;
  EXPECT_THROW(FactorSteps(Device::cuda()).round_mean({}, cpu), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_factor_steps_test
