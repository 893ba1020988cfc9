// Both rounds of low-rank exchanges on a GPU against the CPU, bit for bit.
#include "compress/exchange/low_rank_round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/stream_fork.h"
#include "support/codes/low_rank_tensors.h"
#include "support/cuda_device.h"
#include "support/device_tensors.h"
#include "support/sanitized.h"
#include "support/thread_device_communicator.h"

namespace terngrad::device_low_rank_round_test {
namespace {

using testing::bits_of;
using testing::blank_tensors;
using testing::DeviceTensors;
using testing::exchange_in;
using ::testing::HasSubstr;
using testing::kLowRankParts;
using testing::kLowRankSpecs;
using testing::kLowRankWhole;
using testing::low_rank_layout;
using testing::low_rank_options;
using testing::same_bits;
using testing::tables;
using testing::Tensors;
using testing::to_host;
using CudaLowRankRound = testing::CudaTest;

constexpr int kWorkers = 4;
constexpr std::uint64_t kSteps = 3;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<Tensors> gradients_of(std::uint64_t step) {
  return testing::worker_gradients(low_rank_layout(), kWorkers, step + 1);
}

/// An exchange with error feedback on the CPU.
class OnCpu {
 public:
  explicit OnCpu(const CompressedAllReduceOptions& options)
      : exchange(layout_, make_worker_group(kWorkers, make_self_communicator()), options, parse_memory("ef")) {}
  ExchangeReport step(const std::vector<Tensors>& gradients, std::uint64_t number) {
    mean = blank_tensors(layout_);
    return exchange.exchange(tables(gradients, 0, kWorkers), mean.table, number);
  }

 private:
  Layout layout_ = low_rank_layout();

 public:
  CompressedAllReduce exchange;
  Tensors mean = blank_tensors(layout_);
};

/// The same for a rank on a GPU, as in a replica.
class OnGpu {
 public:
  OnGpu(const CompressedAllReduceOptions& options, const Buckets& buckets, bool overlaps,
        const std::shared_ptr<DeviceCommunicator>& communicator = make_self_device_communicator())
      : buckets_(buckets),
        fork_(overlaps ? std::make_shared<StreamFork>(stream, 1) : nullptr),
        workers(worker_range(kWorkers, communicator->rank(), communicator->size())),
        exchange(layout_, {workers, communicator}, options, overlaps ? fork_->branch(0) : stream, parse_memory("ef")),
        mean_(layout_, blank_tensors(layout_), stream) {
    for (int w = 0; w < workers.num_local_workers; ++w)
      gradients_.emplace_back(layout_, blank_tensors(layout_), stream);
    for (const DeviceTensors& worker : gradients_) tables_.push_back(worker.table);
  }
  void write(const std::vector<Tensors>& of_all) {
    for (std::size_t w = 0; w < gradients_.size(); ++w) {
      gradients_[w].write(of_all[static_cast<std::size_t>(workers.first_local_worker) + w], stream);
    }
  }
  void submit(const DeviceStep& step) {
    if (fork_ != nullptr) fork_->begin();
    exchange.begin(step);
    for (const std::vector<int>& bucket : buckets_) exchange.exchange(bucket, tables_, mean_.table);
    exchange.finish();
    if (fork_ != nullptr) fork_->join();
  }
  void step(const std::vector<Tensors>& of_all, std::uint64_t number) {
    write(of_all);
    submit({number, nullptr});
  }
  Tensors mean() { return mean_.read(layout_, stream); }
  std::vector<float> factors() { return to_host<float>(exchange.factors().values(), stream); }
  std::vector<float> state(int worker) { return to_host<float>(exchange.memory()->state(worker), stream); }

 private:
  Layout layout_ = low_rank_layout();
  Buckets buckets_;

 public:
  Stream stream{Device::cuda()};

 private:
  std::shared_ptr<StreamFork> fork_;

 public:
  WorkerRange workers;
  CompressedAllReduce exchange;

 private:
  std::vector<DeviceTensors> gradients_;
  std::vector<TensorTable> tables_;
  DeviceTensors mean_;
};

void expect_same_state(OnCpu& cpu, OnGpu& gpu, const std::string& what) {
  ASSERT_EQ(bits_of(gpu.factors()),
            bits_of({cpu.exchange.factors().values().begin(), cpu.exchange.factors().values().end()}))
      << what;
  for (int w = 0; w < gpu.workers.num_local_workers; ++w) {
    const std::span<const float> expected = cpu.exchange.memory()->state(gpu.workers.first_local_worker + w);
    ASSERT_EQ(bits_of(gpu.state(w)), bits_of({expected.begin(), expected.end()})) << what << ", worker " << w;
  }
}

// Contracts B1 and B2.
TEST_F(CudaLowRankRound, HasTheCpusBitsForAnyBuckets) {
  for (const char* spec : kLowRankSpecs) {
    for (const bool overlaps : {false, true}) {
      if (testing::kIsSanitized && !overlaps) continue;
      const ExchangeAlgorithm algorithm = overlaps ? ExchangeAlgorithm::kScatterReduce : ExchangeAlgorithm::kAllGather;
      OnCpu cpu(low_rank_options(spec, algorithm));
      OnGpu gpu(low_rank_options(spec, algorithm), overlaps ? kLowRankParts : kLowRankWhole, overlaps);
      EXPECT_TRUE(gpu.exchange.codecs_through_host(kLowRankParts).empty());
      for (std::uint64_t step = 0; step < kSteps; ++step) {
        const std::string what = std::string(spec) + ", step " + std::to_string(step);
        cpu.step(gradients_of(step), step);
        gpu.step(gradients_of(step), step);
        ASSERT_TRUE(same_bits(cpu.mean.values, gpu.mean())) << what;
        expect_same_state(cpu, gpu, what);
        EXPECT_EQ(gpu.exchange.report(step).nonfinite, "");
      }
      for (const int segment : {0, 1, 4, 5}) {
        std::vector<float> sent(static_cast<std::size_t>(low_rank_layout().segment(segment).num_elements));
        std::vector<float> sent_by_cpu(sent.size());
        EXPECT_EQ(gpu.exchange.decode_local(1, segment, sent), cpu.exchange.decode_local(1, segment, sent_by_cpu));
        EXPECT_EQ(bits_of(sent), bits_of(sent_by_cpu)) << spec << ", tensor " << segment;
      }
    }
  }
}

TEST_F(CudaLowRankRound, HasTheSameBitsOnAnyNumberOfRanks) {
  for (const ExchangeAlgorithm algorithm : testing::kAlgorithms) {
    const CompressedAllReduceOptions options = low_rank_options("powersgd:rank=2", algorithm);
    OnCpu cpu(options);
    for (std::uint64_t step = 0; step < kSteps; ++step) cpu.step(gradients_of(step), step);
    std::mutex mutex;
    const auto errors = testing::run_device_ranks(3, [&](const std::shared_ptr<DeviceCommunicator>& communicator) {
      OnGpu gpu(options, kLowRankParts, /*overlaps=*/false, communicator);
      for (std::uint64_t step = 0; step < kSteps; ++step) gpu.step(gradients_of(step), step);
      const Tensors mean = gpu.mean();
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(same_bits(cpu.mean.values, mean)) << word_of(algorithm);
      expect_same_state(cpu, gpu, word_of(algorithm));
    });
    for (const auto& error : errors) {
      if (error) std::rethrow_exception(error);
    }
  }
}

TEST_F(CudaLowRankRound, RunsFromAGraphWithTheStepOnTheDevice) {
  // Without warm start, factors are drawn in each step.
  for (const char* spec : {"powersgd:rank=2", "powersgd:rank=2,warm_start=false"}) {
    OnCpu cpu(low_rank_options(spec));
    OnGpu gpu(low_rank_options(spec), kLowRankParts, /*overlaps=*/true);
    Buffer<std::uint64_t> step = testing::to_device<std::uint64_t>(std::vector<std::uint64_t>{7}, gpu.stream);
    const auto submit = [&] { gpu.submit({0, step.data()}); };
    const auto begin = [&](std::uint64_t number) {
      gpu.write(gradients_of(number));
      copy<std::uint64_t>(std::vector<std::uint64_t>{number}, step.span(), gpu.stream);
      cpu.step(gradients_of(number), number);
    };
    begin(7);
    submit();
    const CapturedGraph graph(gpu.stream, submit);
    for (const std::uint64_t number : {8u, 9u}) {
      begin(number);
      graph.launch(gpu.stream);
      ASSERT_TRUE(same_bits(cpu.mean.values, gpu.mean())) << spec;
      expect_same_state(cpu, gpu, spec);
    }
  }
}

TEST_F(CudaLowRankRound, ADroppedStepLeavesFactorsAndStates) {
  CompressedAllReduceOptions options = low_rank_options("powersgd:rank=2");
  options.on_nonfinite = OnNonfinite::kSkip;
  OnCpu cpu(options);
  OnGpu gpu(options, kLowRankParts, /*overlaps=*/false);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    std::vector<Tensors> gradients = gradients_of(step);
    if (step == 1) gradients[2].values[2][70] = kNan;
    const ExchangeReport expected = cpu.step(gradients, step);
    gpu.step(gradients, step);
    const ExchangeReport report = gpu.exchange.report(step);
    EXPECT_EQ(report.skipped, step == 1);
    EXPECT_EQ(report.nonfinite, expected.nonfinite);
    EXPECT_THAT(report.nonfinite, HasSubstr(step == 1 ? "tensor 'wide' of worker 2" : ""));
    expect_same_state(cpu, gpu, "step " + std::to_string(step));
    std::vector<float> sent(1600);
    if (step == 1) {
      EXPECT_THROW(gpu.exchange.decode_local(0, 5, sent), InvalidArgument);
    }
  }
  EXPECT_TRUE(same_bits(cpu.mean.values, gpu.mean()));
}

TEST_F(CudaLowRankRound, AWorkersTensorThatIsNotFiniteCountsAsZerosWhereTheStepGoesOn) {
  for (const char* spec : kLowRankSpecs) {
    CompressedAllReduceOptions options = low_rank_options(spec);
    options.on_nonfinite = OnNonfinite::kZero;
    OnCpu cpu(options);
    OnGpu gpu(options, kLowRankWhole, /*overlaps=*/false);
    for (std::uint64_t step = 0; step < 2; ++step) {
      std::vector<Tensors> gradients = gradients_of(step);
      gradients[1].values[0][33] = step == 0 ? kNan : std::numeric_limits<float>::infinity();
      const ExchangeReport expected = cpu.step(gradients, step);
      gpu.step(gradients, step);
      EXPECT_EQ(gpu.exchange.report(step).nonfinite, expected.nonfinite);
      ASSERT_TRUE(same_bits(cpu.mean.values, gpu.mean())) << spec;
      expect_same_state(cpu, gpu, spec);
    }
    std::vector<float> sent(4500, 1.0f);
    gpu.exchange.decode_local(1, 0, sent);
    EXPECT_EQ(sent, std::vector<float>(4500, 0.0f));
  }
}

TEST_F(CudaLowRankRound, FactorsThatLeaveTheirRangeAreSaidAsOnTheCpu) {
  // A column of 40 equal numbers: |P| is at most twice them, and |Q| sqrt(40) times: for the first case 0x1.94p127 per
  // worker, whose sum overflows; for the second it overflows in the worker itself.
  struct Case {
    float value;
    int num_workers;
    const char* words;
  };
  for (const Case& c : {Case{0x1p125f, kWorkers, "overflows"}, Case{0x1p126f, 1, "tensor 'square' of worker 0"}}) {
    for (const OnNonfinite policy : {OnNonfinite::kSkip, OnNonfinite::kZero}) {
      CompressedAllReduceOptions options = low_rank_options("powersgd:rank=1");
      options.on_nonfinite = policy;
      OnCpu cpu(options);
      OnGpu gpu(options, kLowRankParts, /*overlaps=*/false);
      std::vector<Tensors> gradients = gradients_of(0);
      for (int worker = 0; worker < kWorkers; ++worker) {
        std::vector<float>& square = gradients[static_cast<std::size_t>(worker)].values[5];
        std::fill_n(square.begin(), square.size(), 0.0f);
        for (std::size_t row = 0; worker < c.num_workers && row < 40; ++row) square[40 * row] = c.value;
      }
      const ExchangeReport expected = cpu.step(gradients, 0);
      gpu.step(gradients, 0);
      const ExchangeReport report = gpu.exchange.report(0);
      EXPECT_THAT(report.nonfinite, HasSubstr(c.words));
      EXPECT_EQ(report.nonfinite, expected.nonfinite);
      EXPECT_EQ(report.skipped, policy == OnNonfinite::kSkip);
      expect_same_state(cpu, gpu, c.words);
      EXPECT_TRUE(report.skipped || same_bits(cpu.mean.values, gpu.mean())) << c.words;
    }
  }
}

TEST_F(CudaLowRankRound, ExchangesWithAHostThatWaitsAndSaysTimes) {
  OnCpu cpu(low_rank_options("powersgd"));
  OnGpu gpu(low_rank_options("powersgd"), kLowRankParts, /*overlaps=*/false);
  gpu.write(gradients_of(0));
  cpu.step(gradients_of(0), 0);
  std::vector<DeviceTensors> gradients;
  std::vector<TensorTable> local;
  const Layout layout = low_rank_layout();
  for (const Tensors& worker : gradients_of(0)) gradients.emplace_back(layout, worker, gpu.stream);
  for (const DeviceTensors& worker : gradients) local.push_back(worker.table);
  const DeviceTensors mean(layout, blank_tensors(layout), gpu.stream);
  const ExchangeReport report = gpu.exchange.exchange(local, mean.table, 0);
  EXPECT_GE(report.encode_seconds, 0);
  EXPECT_EQ(report.sent_bytes(), gpu.exchange.bytes().sent_bytes());
  EXPECT_TRUE(same_bits(cpu.mean.values, mean.read(layout, gpu.stream)));
  EXPECT_EQ(bits_of(gpu.factors()),
            bits_of({cpu.exchange.factors().values().begin(), cpu.exchange.factors().values().end()}));
}

TEST_F(CudaLowRankRound, PartsThatAreNotKnownBeforehandHaveTheSameBits) {
  const CompressedAllReduceOptions options = low_rank_options("powersgd");
  const Layout layout = low_rank_layout();
  OnCpu cpu(options);
  Stream stream(Device::cuda());
  CompressedAllReduce exchange(layout, {worker_range(kWorkers, 0, 1), make_self_device_communicator()}, options, stream,
                               parse_memory("ef"));
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    cpu.step(gradients_of(step), step);
    std::vector<DeviceTensors> gradients;
    std::vector<TensorTable> local;
    for (const Tensors& worker : gradients_of(step)) gradients.emplace_back(layout, worker, stream);
    for (const DeviceTensors& worker : gradients) local.push_back(worker.table);
    const DeviceTensors mean(layout, blank_tensors(layout), stream);
    // Other parts in every second step.
    exchange_in(step % 2 == 0 ? kLowRankParts : Buckets{{0, 4}, {5, 3, 2}, {1}}, exchange, local, mean.table, step);
    EXPECT_EQ(exchange.report(step).nonfinite, "");
    ASSERT_TRUE(same_bits(cpu.mean.values, mean.read(layout, stream))) << step;
    EXPECT_EQ(bits_of(to_host<float>(exchange.factors().values(), stream)),
              bits_of({cpu.exchange.factors().values().begin(), cpu.exchange.factors().values().end()}));
  }
}

}  // namespace
}  // namespace terngrad::device_low_rank_round_test
