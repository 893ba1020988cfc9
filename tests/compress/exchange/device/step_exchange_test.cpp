// Exchanges in parts that change from step to step, on a GPU against the CPU.
#include "compress/exchange/step_exchange.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/cuda_device.h"
#include "support/device_tensors.h"
#include "support/exchanges.h"
#include "support/thread_device_communicator.h"

namespace terngrad::device_step_exchange_test {
namespace {

using testing::blank_tensors;
using testing::DeviceTensors;
using testing::mixed_layout;
using testing::options_of;
using testing::Tensors;
using testing::to_host;
using testing::worker_gradients;
class CudaStepExchange : public testing::CudaTest {};

constexpr int kWorkers = 4;
constexpr std::uint64_t kSteps = 3;

/// Parts of a step: they differ between steps, in any order; the last step leaves out some tensors.
std::vector<std::vector<int>> parts_of(std::uint64_t step) {
  if (step == 0) return {{6, 5}, {4, 3}, {2, 1, 0}};
  if (step == 1) return {{0, 3}, {6, 1, 5}, {2}, {4}};
  return {{3}, {1, 0}};
}

TensorTable select(const Layout& selection, std::span<const int> segments, const TensorTable& whole) {
  std::vector<float*> tensors;
  for (const int segment : segments) tensors.push_back(whole.tensor(segment));
  return {selection, tensors};
}

/// Means of all steps, and the final memory state of each local worker and tensor.
struct Result {
  std::vector<Tensors> means;
  std::vector<std::vector<float>> states;
};

Result on_cpu(const CompressedAllReduceOptions& options, const MemoryOptions& memory) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> gradients = worker_gradients(layout, kWorkers);
  StepExchange exchange(layout, CodecPlan(layout, with_workers(options.codecs, kWorkers)),
                        make_worker_group(kWorkers, make_self_communicator()), options, memory);
  Result result;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    result.means.push_back(blank_tensors(layout));
    exchange.begin(step);
    for (const std::vector<int>& segments : parts_of(step)) {
      const Layout& selection = exchange.layout_of(segments);
      std::vector<TensorTable> local;
      for (const Tensors& worker : gradients) local.push_back(select(selection, segments, worker.table));
      exchange.exchange(segments, local, select(selection, segments, result.means.back().table));
    }
    exchange.finish();
  }
  for (int worker = 0; memory.kind != MemoryKind::kNone && worker < kWorkers; ++worker) {
    const std::span<const float> state = exchange.memory()->state(worker);
    result.states.emplace_back(state.begin(), state.end());
  }
  return result;
}

Result on_gpu(const CompressedAllReduceOptions& options, const MemoryOptions& memory,
              const std::shared_ptr<DeviceCommunicator>& communicator) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> gradients = worker_gradients(layout, kWorkers);
  const WorkerRange workers = worker_range(kWorkers, communicator->rank(), communicator->size());
  const Stream owned(Device::cuda());
  Stream stream = Stream::borrow(owned.device(), owned.native());
  StepExchange exchange(layout, CodecPlan(layout, with_workers(options.codecs, kWorkers)), {workers, communicator},
                        options, stream, memory);
  Result result;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    std::vector<DeviceTensors> local;
    for (int w = 0; w < workers.num_local_workers; ++w) {
      local.emplace_back(layout, gradients[static_cast<std::size_t>(workers.first_local_worker + w)], stream);
    }
    DeviceTensors mean(layout, blank_tensors(layout), stream);
    exchange.begin(step);
    for (const std::vector<int>& segments : parts_of(step)) {
      const Layout& selection = exchange.layout_of(segments);
      std::vector<TensorTable> tables;
      for (const DeviceTensors& worker : local) tables.push_back(select(selection, segments, worker.table));
      exchange.exchange(segments, tables, select(selection, segments, mean.table));
    }
    EXPECT_GT(exchange.finish().sent_bytes(), 0);
    EXPECT_FALSE(exchange.report().skipped);
    result.means.push_back(mean.read(layout, stream));
  }
  for (int worker = 0; memory.kind != MemoryKind::kNone && worker < workers.num_local_workers; ++worker) {
    result.states.push_back(to_host<float>(exchange.memory()->state(worker), stream));
  }
  return result;
}

// Contracts B1 and B2.
TEST_F(CudaStepExchange, HaveTheCpusBitsWhateverThePartsAreInEachStep) {
  const std::pair<const char*, const char*> cases[] = {{"ternary:clip_factor=2.5", "ef"},
                                                       {"qsgd:bits=4,sharing=max", "none"},
                                                       {"sign", "ef:decay=0.5"},
                                                       {"fp32", "none"}};
  for (const auto& [codec, memory] : cases) {
    CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAuto);
    options.codecs.codec = codec;
    const Result expected = on_cpu(options, parse_memory(memory));
    for (const int size : {1, 2}) {
      std::vector<Result> results(static_cast<std::size_t>(size));
      const auto errors = testing::run_device_ranks(size, [&](const std::shared_ptr<DeviceCommunicator>& communicator) {
        results[static_cast<std::size_t>(communicator->rank())] = on_gpu(options, parse_memory(memory), communicator);
      });
      for (const auto& error : errors) {
        if (error) std::rethrow_exception(error);
      }
      std::vector<std::vector<float>> states;
      for (const Result& of_rank : results) {
        for (std::uint64_t step = 0; step < kSteps; ++step) {
          EXPECT_TRUE(testing::same_bits(expected.means[step].values, of_rank.means[step]))
              << codec << ", step " << step << ", " << size << " ranks";
        }
        states.insert(states.end(), of_rank.states.begin(), of_rank.states.end());
      }
      EXPECT_EQ(states, expected.states) << codec << ", " << size << " ranks";
    }
  }
}

TEST_F(CudaStepExchange, WhatIsNotFiniteDropsTheStep) {
  const Layout layout = mixed_layout();
  std::vector<Tensors> gradients = worker_gradients(layout, 1);
  gradients[0].values[1][3] = std::numeric_limits<float>::infinity();
  CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAllGather);
  options.codecs.codec = "ternary:sharing=none";
  options.on_nonfinite = OnNonfinite::kSkip;
  Stream stream(Device::cuda());
  StepExchange exchange(layout, CodecPlan(layout, options.codecs),
                        {worker_range(1, 0, 1), make_self_device_communicator()}, options, stream, parse_memory("ef"));
  const DeviceTensors local(layout, gradients[0], stream);
  const DeviceTensors mean(layout, blank_tensors(layout), stream);
  exchange.begin(0);
  for (const std::vector<int>& segments : parts_of(0)) {
    const Layout& selection = exchange.layout_of(segments);
    exchange.exchange(segments, std::vector{select(selection, segments, local.table)},
                      select(selection, segments, mean.table));
  }
  exchange.finish();
  EXPECT_EQ(to_host<std::uint32_t>({exchange.skip(), 1}, stream)[0], 1u);
  const ExchangeReport report = exchange.report();
  EXPECT_TRUE(report.skipped);
  EXPECT_NE(report.nonfinite.find("'conv/biases' of worker 0"), std::string::npos) << report.nonfinite;
  for (const float value : to_host<float>(exchange.memory()->state(0), stream)) ASSERT_EQ(value, 0);
}

TEST_F(CudaStepExchange, RefuseWhatIsNoStep) {
  const Layout layout = mixed_layout();
  const CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAllGather);
  Stream stream(Device::cuda());
  StepExchange exchange(layout, CodecPlan(layout, options.codecs),
                        {worker_range(1, 0, 1), make_self_device_communicator()}, options, stream);
  const DeviceTensors local(layout, worker_gradients(layout, 1)[0], stream);
  const std::vector<int> segments = {0, 1};
  const Layout selection = exchange.layout_of(segments);
  const TensorTable table = select(selection, segments, local.table);
  const auto part = [&] { exchange.exchange(segments, std::vector{table}, table); };
  EXPECT_THROW(part(), InvalidArgument);
  EXPECT_THROW(exchange.finish(), InvalidArgument);
  exchange.begin(1);
  part();
  EXPECT_THROW(part(), InvalidArgument);  // already exchanged in this step
  exchange.finish();
  std::vector<float> sent(7);
  std::vector<float> not_sent(8193);
  EXPECT_THROW(exchange.decode_local(0, 3, not_sent), InvalidArgument);
  EXPECT_GT(exchange.decode_local(0, 1, sent), 0);
  EXPECT_THROW(exchange.begin(std::uint64_t{1} << 40), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::device_step_exchange_test
