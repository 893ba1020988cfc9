// Sums of sparse messages on a GPU against the CPU backend, bit for bit.
#include "kernels/sparse/sparse_sum.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/codes/sparse_cases.h"
#include "support/cuda_device.h"
#include "support/guarded_array.h"
#include "support/sanitized.h"

namespace terngrad::cuda_sparse_sum_test {
namespace {

using testing::GuardedArray;
using testing::SparseCase;
using CudaSparseSum = testing::CudaTest;
using Payload = std::vector<std::uint8_t>;

/// A payload in a buffer of the maximum size of its shape.
std::vector<std::uint64_t> in_its_room(const SparseShape& shape, const Payload& payload) {
  std::vector<std::uint64_t> words(static_cast<std::size_t>((max_sparse_bytes(shape) + 7) / 8), ~std::uint64_t{0});
  std::memcpy(words.data(), payload.data(), payload.size());
  return words;
}

void expect_the_cpus(const std::vector<std::vector<SparseCase>>& slices) {
  constexpr float kScale = 1.0f / 3;
  Stream stream(Device::cuda());
  std::vector<Buffer<std::uint64_t>> payloads;
  std::vector<std::vector<SparseMessage>> messages;
  std::vector<GuardedArray<float>> sums;
  std::vector<std::vector<float>> expected;
  for (const std::vector<SparseCase>& workers : slices) {
    std::vector<Payload> sent;
    std::vector<SparseMessage> on_cpu;
    messages.emplace_back();
    for (const SparseCase& c : workers) {
      sent.push_back(testing::encoded_on_cpu(c));
      payloads.push_back(testing::to_device<std::uint64_t>(in_its_room(c.shape, sent.back()), stream));
      const auto bytes = static_cast<std::size_t>(8 * payloads.back().num_elements());
      messages.back().push_back({c.shape, {reinterpret_cast<const std::uint8_t*>(payloads.back().data()), bytes}});
    }
    for (std::size_t i = 0; i < workers.size(); ++i) on_cpu.push_back({workers[i].shape, sent[i]});
    expected.emplace_back(workers[0].values.size());
    const SparseSumTask task{.workers = on_cpu, .scale = kScale, .out = expected.back().data()};
    Stream cpu(Device::cpu(), 1);
    SparseSummer().run({&task, 1}, cpu);
    sums.emplace_back(std::vector<float>(expected.back().size()), 1, stream);
  }
  std::vector<SparseSumTask> tasks;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    tasks.push_back({.workers = messages[i], .scale = kScale, .out = sums[i].data()});
  }
  SparseSummer summer(Device::cuda());
  const auto work = [&] { summer.run(tasks, stream); };
  work();
  const CapturedGraph graph(stream, work);
  for (std::size_t i = 0; i < slices.size(); ++i) {
    ASSERT_EQ(testing::bits_of(sums[i].values()), testing::bits_of(expected[i])) << slices[i][0].name;
    copy<float>(std::vector<float>(expected[i].size()), sums[i].span(), stream);
  }
  graph.launch(stream);
  for (std::size_t i = 0; i < slices.size(); ++i) {
    ASSERT_EQ(testing::bits_of(sums[i].values()), testing::bits_of(expected[i])) << slices[i][0].name << ", a graph";
  }
}

/// Three workers for each case, with different gradients.
std::vector<std::vector<SparseCase>> of_three_workers(const std::vector<SparseCase>& cases) {
  std::vector<std::vector<SparseCase>> slices;
  for (const SparseCase& c : cases) {
    slices.push_back({c, c, c});
    slices.back()[1].values = testing::gaussian(c.values.size(), 77);
    slices.back()[1].is_finite = true;
    slices.back()[2].values = testing::gaussian(c.values.size(), 78);
  }
  return slices;
}

TEST_F(CudaSparseSum, AddsAsTheCpuDoes) {
  for (const SparseValues sent : {SparseValues::kFloat32, SparseValues::kBfloat16}) {
    for (const std::int64_t block : {0, 256, 16384}) {
      expect_the_cpus(of_three_workers(testing::sparse_cases(block, sent)));
    }
  }
}

// The search for a chunk's first group needs several rounds.
TEST_F(CudaSparseSum, AddsManyWorkers) {
  std::vector<SparseCase> workers;
  for (std::uint64_t worker = 0; worker < 300; ++worker) {
    workers.push_back(testing::sparse_case("many", testing::gaussian(5000, worker), SparseFormat::kRuns, 0.1));
  }
  expect_the_cpus({workers});
}

TEST_F(CudaSparseSum, ReadsAnythingWithinBounds) {
  if (testing::kIsThreadSanitized) {
    GTEST_SKIP() << "a damaged message says places twice, to which threads add at once: only the bounds are promised";
  }
  Stream stream(Device::cuda());
  for (const std::int64_t block : {0, 256}) {
    const SparseFormat format = block == 0 ? SparseFormat::kRuns : SparseFormat::kLocal;
    for (const std::uint64_t word : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{0x7fffffff'0000003fu}}) {
      const SparseShape shape = {format, SparseValues::kFloat32, 9000, 0.05, block};
      const std::vector<std::uint64_t> words(static_cast<std::size_t>(max_sparse_bytes(shape) / 8), word);
      GuardedArray<std::uint64_t> payload(words, 0, stream);
      GuardedArray<float> sum(std::vector<float>(9000), 0, stream);
      const SparseMessage message{shape, {reinterpret_cast<const std::uint8_t*>(payload.data()), 8 * words.size() + 7}};
      const SparseSumTask task{.workers = {&message, 1}, .out = sum.data()};
      SparseSummer(Device::cuda()).run({&task, 1}, stream);
      EXPECT_EQ(sum.values().size(), 9000u);
    }
  }
}

TEST_F(CudaSparseSum, RefusesDifferentShapesAndTooLittleRoom) {
  Stream stream(Device::cuda());
  Buffer<float> out(100, Device::cuda());
  Buffer<std::uint64_t> payload(1000, Device::cuda());
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(payload.data());
  const SparseShape shape{.num_elements = 100, .density = 0.1};
  const SparseShape denser{.num_elements = 100, .density = 0.2};
  const std::vector<SparseMessage> different = {{shape, {bytes, 8000}}, {denser, {bytes, 8000}}};
  const std::vector<SparseMessage> short_ones = {
      {shape, {bytes, static_cast<std::size_t>(max_sparse_bytes(shape)) - 1}}};
  for (const std::vector<SparseMessage>& messages : {different, short_ones}) {
    const SparseSumTask task{.workers = messages, .out = out.data()};
    EXPECT_THROW(SparseSummer(Device::cuda()).run({&task, 1}, stream), InvalidArgument);
  }
}

}  // namespace
}  // namespace terngrad::cuda_sparse_sum_test
