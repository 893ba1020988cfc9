// Low-rank products on a GPU against the CPU backend, bit for bit.
#include "kernels/factors/low_rank.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/gradients.h"
#include "support/guarded_array.h"
#include "support/sanitized.h"

namespace terngrad::cuda_low_rank_test {
namespace {

using testing::bits_of;
using testing::gaussian;
using testing::GuardedArray;
using CudaLowRank = testing::CudaTest;

/// Sizes below and above blocks of rows, chunks of columns, a thread block's share of either, and the number of slots.
std::vector<FactorSizes> sizes_of_tests() {
  std::vector<FactorSizes> all = {{1, 1, 1},    {25, 20, 4},  {65, 17, 3},  {63, 15, 5},   {300, 10, 8},
                                  {33, 128, 2}, {34, 129, 1}, {3, 4097, 2}, {130, 257, 9}, {5, 5, 5}};
  if (!testing::kIsSanitized) all.insert(all.end(), {{16384 + 70, 5, 2}, {2, 8200, 3}, {200, 130, 32}});
  return all;
}

struct Case {
  FactorSizes sizes;
  std::vector<float> m, p, q;

  explicit Case(const FactorSizes& of, std::uint64_t seed)
      : sizes(of),
        m(gaussian(static_cast<std::size_t>(of.rows * of.columns), seed)),
        p(gaussian(static_cast<std::size_t>(of.rank * of.rows), seed + 1)),
        q(gaussian(static_cast<std::size_t>(of.rank * of.columns), seed + 2)) {}
  FactorTask task(float* own_m, float* own_p, float* own_q) const {
    return {.m = {own_m, sizes.rows, sizes.columns}, .rank = sizes.rank, .p = own_p, .q = own_q};
  }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const FactorSizes& sizes : sizes_of_tests()) all.emplace_back(sizes, 10 * all.size());
  return all;
}

/// The same tasks in device memory.
struct Uploaded {
  std::vector<GuardedArray<float>> ms, ps, qs;
  std::vector<FactorTask> tasks;
  Uploaded(const std::vector<Case>& all, Stream& stream) {
    for (const Case& c : all) {
      ms.emplace_back(c.m, ms.size() % 4, stream);
      ps.emplace_back(c.p, ms.size() % 3, stream);
      qs.emplace_back(c.q, ms.size() % 2, stream);
    }
    for (std::size_t i = 0; i < all.size(); ++i) tasks.push_back(all[i].task(ms[i].data(), ps[i].data(), qs[i].data()));
  }
};

template <class Run>
void run_on_cpu(std::vector<Case>& all, const Run& run) {
  std::vector<FactorTask> tasks;
  tasks.reserve(all.size());
  for (Case& c : all) tasks.push_back(c.task(c.m.data(), c.p.data(), c.q.data()));
  Stream stream(Device::cpu(), 1);
  LowRankProducts products;
  run(products, tasks, stream);
}

template <class Run>
void expect_the_cpus(const Run& run) {
  std::vector<Case> all = cases();
  Stream stream(Device::cuda());
  Uploaded there(all, stream);
  LowRankProducts products(Device::cuda());
  run(products, there.tasks, stream);
  run_on_cpu(all, run);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(bits_of(there.ps[i].values()), bits_of(all[i].p)) << i;
    ASSERT_EQ(bits_of(there.qs[i].values()), bits_of(all[i].q)) << i;
  }
}

TEST_F(CudaLowRank, ColumnsAreTheCpus) {
  expect_the_cpus([](auto& products, auto& tasks, auto& stream) { products.times_columns(tasks, stream); });
}

TEST_F(CudaLowRank, RowsAreTheCpus) {
  expect_the_cpus([](auto& products, auto& tasks, auto& stream) { products.times_rows(tasks, stream); });
}

TEST_F(CudaLowRank, RowsOfManyTasksShareTheMemoryOfTheirSums) {
  // 4.9 million slot sums in all; memory holds 4.2 million at a time.
  std::vector<Case> all;
  for (std::uint64_t i = 0; i < 3; ++i) all.emplace_back(FactorSizes{64 * 100, 1024, 16}, 10 * i);
  all.emplace_back(FactorSizes{70, 9, 2}, 50);
  if (testing::kIsSanitized) all.erase(all.begin() + 1, all.end());
  Stream stream(Device::cuda());
  Uploaded there(all, stream);
  LowRankProducts products(Device::cuda());
  products.times_rows(there.tasks, stream);
  run_on_cpu(all, [](auto& on_cpu, auto& tasks, auto& cpu) { on_cpu.times_rows(tasks, cpu); });
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(bits_of(there.qs[i].values()), bits_of(all[i].q)) << i;
}

TEST_F(CudaLowRank, OrthonormalColumnsAreTheCpus) {
  expect_the_cpus([](auto& products, auto& tasks, auto& stream) { products.orthonormalize(tasks, stream); });
}

TEST_F(CudaLowRank, ColumnsThatVanishBecomeZeros) {
  constexpr std::size_t kRows = 140000;  // more chunks than a block processes at once
  std::vector<Case> all;
  all.emplace_back(FactorSizes{kRows, 1, 4}, 3);
  std::vector<float>& p = all[0].p;
  for (std::size_t i = 0; i < kRows; ++i) p[kRows + i] = 4 * p[i];
  p[3 * kRows + 7] = std::numeric_limits<float>::infinity();
  Stream stream(Device::cuda());
  Uploaded there(all, stream);
  LowRankProducts products(Device::cuda());
  products.orthonormalize(there.tasks, stream);
  run_on_cpu(all, [](auto& on_cpu, auto& tasks, auto& cpu) { on_cpu.orthonormalize(tasks, cpu); });
  EXPECT_EQ(bits_of(there.ps[0].values()), bits_of(p));
  EXPECT_EQ(p[kRows], 0);
  EXPECT_EQ(p[3 * kRows], 0);
}

TEST_F(CudaLowRank, ProductsAreTheCpusUnlessFlaggedOrSkipped) {
  std::vector<Case> all = cases();
  Stream stream(Device::cuda());
  const std::vector<float> flags = {0, std::numeric_limits<float>::quiet_NaN()};
  const Buffer<float> flags_there = testing::to_device<float>(flags, stream);
  for (const std::uint32_t skip : {0u, 1u}) {
    const Buffer<std::uint32_t> skip_there = testing::to_device<std::uint32_t>({&skip, 1}, stream);
    for (const bool subtracts : {false, true}) {
      Uploaded there(all, stream);
      std::vector<GuardedArray<float>> outs;
      for (const Case& c : all) outs.emplace_back(std::vector<float>(c.m.size(), 5), outs.size() % 3, stream);
      std::vector<LowRankTask> tasks;
      for (std::size_t i = 0; i < all.size(); ++i) {
        tasks.push_back({.sizes = all[i].sizes,
                         .p = there.ps[i].data(),
                         .q = there.qs[i].data(),
                         .from = subtracts ? there.ms[i].data() : nullptr,
                         .flag = flags_there.data() + (i % 4 == 3 ? 1 : 0),
                         .out = outs[i].data()});
      }
      LowRankProducts(Device::cuda()).write_products(tasks, skip_there.data(), stream);
      for (std::size_t i = 0; i < all.size(); ++i) {
        const Case& c = all[i];
        std::vector<float> expected(c.m.size(), 5);
        const LowRankTask task{.sizes = c.sizes,
                               .p = c.p.data(),
                               .q = c.q.data(),
                               .from = subtracts ? c.m.data() : nullptr,
                               .flag = &flags[i % 4 == 3 ? 1 : 0],
                               .out = expected.data()};
        Stream cpu(Device::cpu(), 1);
        LowRankProducts().write_products({&task, 1}, &skip, cpu);
        ASSERT_EQ(bits_of(outs[i].values()), bits_of(expected)) << i;
      }
    }
  }
}

TEST_F(CudaLowRank, RunsFromAGraph) {
  std::vector<Case> all = {Case({130, 70, 4}, 1), Case({20, 300, 2}, 2)};
  Stream stream(Device::cuda());
  Uploaded there(all, stream);
  LowRankProducts products(Device::cuda());
  const auto step = [&] {
    products.times_columns(there.tasks, stream);
    products.orthonormalize(there.tasks, stream);
    products.times_rows(there.tasks, stream);
  };
  EXPECT_THROW(CapturedGraph(stream, step), InvalidArgument) << "tables and memory are missing";
  step();
  CapturedGraph graph(stream, step);
  graph.launch(stream);
  run_on_cpu(all, [](auto& on_cpu, auto& tasks, auto& cpu) {
    for (int time = 0; time < 2; ++time) {
      on_cpu.times_columns(tasks, cpu);
      on_cpu.orthonormalize(tasks, cpu);
      on_cpu.times_rows(tasks, cpu);
    }
  });
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(bits_of(there.qs[i].values()), bits_of(all[i].q)) << i;
}

TEST_F(CudaLowRank, RefusesAStreamOfAnotherDevice) {
  Stream cpu;
  EXPECT_THROW(LowRankProducts(Device::cuda()).times_columns({}, cpu), InvalidArgument);
  EXPECT_THROW(LowRankProducts(Device::cuda()).write_products({}, nullptr, cpu), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_low_rank_test
