// Exchanges of several ranks with a device each, as threads: the bits and bytes are CompressedAllReduce's (contract
// B2).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "compress/device_all_reduce.h"
#include "kernels/errors.h"
#include "support/cuda_device.h"
#include "support/device_tensors.h"
#include "support/exchanges.h"
#include "support/thread_device_communicator.h"

namespace terngrad {
namespace {

using testing::bits_of;
using testing::blank_tensors;
using testing::DeviceTensors;
using testing::local_exchange;
using testing::mixed_layout;
using testing::options_text;
using testing::tables;
using testing::Tensors;
using testing::worker_gradients;
using CudaDeviceAllReduceOfRanks = testing::CudaTest;

constexpr int kNumWorkers = 5;  // does not divide by 2, 3 and 4

/// What one rank found.
struct RankResult {
  Tensors mean = blank_tensors(mixed_layout());
  ExchangeReport report;
  std::vector<float> sent;  // tensor 0 of its last worker
  float scaler = 0;
  std::uint32_t skip = 0;
};

RankResult exchange_of_rank(const std::shared_ptr<DeviceCommunicator>& communicator,
                            const std::vector<Tensors>& workers, const CompressedAllReduceOptions& options,
                            std::span<const std::uint64_t> steps) {
  const Layout layout = mixed_layout();
  const WorkerRange range = worker_range(static_cast<int>(workers.size()), communicator->rank(), communicator->size());
  Stream stream(Device::cuda());
  DeviceAllReduce exchange(layout, range, options, stream, communicator);
  std::vector<DeviceTensors> gradients;
  std::vector<TensorTable> local;
  for (int w = range.first_local_worker; w < range.first_local_worker + range.num_local_workers; ++w) {
    gradients.emplace_back(layout, workers[static_cast<std::size_t>(w)], stream);
    local.push_back(gradients.back().table);
  }
  const DeviceTensors mean(layout, blank_tensors(layout), stream);
  RankResult result;
  for (const std::uint64_t step : steps) result.report = exchange.exchange(local, mean.table, step);
  result.mean = mean.read(layout, stream);
  result.sent.resize(static_cast<std::size_t>(layout.segment(0).num_elements));
  result.scaler = exchange.decode_local(range.num_local_workers - 1, 0, result.sent);
  result.skip = testing::to_host<std::uint32_t>({exchange.skip(), 1}, stream)[0];
  return result;
}

/// Each rank's result. Fails the test if a rank threw.
std::vector<RankResult> run_all(int size, const std::vector<Tensors>& workers,
                                const CompressedAllReduceOptions& options, std::span<const std::uint64_t> steps) {
  std::vector<RankResult> results(static_cast<std::size_t>(size));
  const auto errors = testing::run_device_ranks(size, [&](std::shared_ptr<DeviceCommunicator> communicator) {
    results[static_cast<std::size_t>(communicator->rank())] = exchange_of_rank(communicator, workers, options, steps);
  });
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return results;
}

void expect_cpus_bits(const std::vector<Tensors>& workers, const CompressedAllReduceOptions& options,
                      std::span<const int> sizes) {
  constexpr std::array<std::uint64_t, 2> kSteps = {3, 4};
  const Layout layout = mixed_layout();
  const auto num_workers = static_cast<int>(workers.size());
  CompressedAllReduce cpu = local_exchange(layout, num_workers, options);
  Tensors expected = blank_tensors(layout);
  ExchangeReport on_cpu;
  for (const std::uint64_t step : kSteps) on_cpu = cpu.exchange(tables(workers, 0, num_workers), expected.table, step);
  for (const int size : sizes) {
    const std::string what = options_text(options) + ", " + std::to_string(size) + " ranks";
    const std::vector<RankResult> results = run_all(size, workers, options, kSteps);
    for (int rank = 0; rank < size; ++rank) {
      const RankResult& found = results[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(testing::same_bits(expected.values, found.mean)) << what << ", rank " << rank;
      EXPECT_EQ(found.report.nonfinite, on_cpu.nonfinite) << what;
      const WorkerRange range = worker_range(num_workers, rank, size);
      std::vector<float> sent(found.sent.size());
      const float scaler = cpu.decode_local(range.first_local_worker + range.num_local_workers - 1, 0, sent);
      ASSERT_EQ(bits_of(scaler), bits_of(found.scaler)) << what;
      ASSERT_EQ(sent, found.sent) << what << ", rank " << rank;
    }
  }
}

CompressedAllReduceOptions options_with(const TernaryOptions& ternary,
                                        ReturnCodec return_codec = ReturnCodec::kFloat32,
                                        ExchangeAlgorithm algorithm = ExchangeAlgorithm::kAllGather) {
  CompressedAllReduceOptions options = testing::options_of(algorithm, return_codec);
  options.codecs.codec_options.ternary = ternary;
  return options;
}

constexpr std::array kAllSizes = {1, 2, 3, 4};

TEST_F(CudaDeviceAllReduceOfRanks, GiveTheCpusBitsForEverySharingAndFormat) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kMean, ScalerSharing::kNone}) {
    for (const TernaryFormat format : {TernaryFormat::kT2, TernaryFormat::kT5}) {
      expect_cpus_bits(workers, options_with({.clip_factor = 2.5, .sharing = sharing, .format = format}), kAllSizes);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CudaDeviceAllReduceOfRanks, GiveTheCpusBitsForEveryReturnCodec) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  for (const ReturnCodec codec : testing::kReturns) {
    expect_cpus_bits(workers, options_with({.clip_factor = 2.5}, codec), kAllSizes);
    if (HasFatalFailure()) return;
  }
}

TEST_F(CudaDeviceAllReduceOfRanks, GiveTheCpusBitsForEveryScopeAndPayloadsOfAnySize) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  constexpr std::array kSizes = {2, 4};
  for (const ScalerScope scope : {ScalerScope::kBlock, ScalerScope::kModel}) {
    // Blocks of whole chunks with scalers of their own are drawn while they are measured.
    for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kNone}) {
      expect_cpus_bits(workers,
                       options_with({.clip_factor = 2.5, .sharing = sharing, .scope = scope, .block_elements = 4096}),
                       kSizes);
      if (HasFatalFailure()) return;
    }
  }
  expect_cpus_bits(workers, options_with({.clip_factor = 2.5, .format = TernaryFormat::kTMask}), kSizes);
}

TEST_F(CudaDeviceAllReduceOfRanks, GiveTheCpusBitsWhereGradientsTravelAsNumbers) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  for (const char* codec : {"fp32", "bf16"}) {
    CompressedAllReduceOptions options = testing::options_of(ExchangeAlgorithm::kAuto);
    options.codecs.codec = codec;
    expect_cpus_bits(workers, options, kAllSizes);
    if (HasFatalFailure()) return;
  }
}

TEST_F(CudaDeviceAllReduceOfRanks, ReportTogetherTheBytesOfOne) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  const CompressedAllReduceOptions options = options_with({.clip_factor = 2.5});
  constexpr std::array<std::uint64_t, 1> kStep = {1};
  const ExchangeReport alone = run_all(1, workers, options, kStep)[0].report;
  EXPECT_EQ(alone.wire_seconds, 0);
  for (const int size : {2, 3, 4}) {
    ExchangeReport sum;
    for (const RankResult& result : run_all(size, workers, options, kStep)) {
      EXPECT_GT(result.report.gradient.sent, 0);
      EXPECT_GT(result.report.wire_seconds, 0);
      sum.scalers.sent += result.report.scalers.sent;
      sum.scalers.received += result.report.scalers.received;
      sum.gradient.sent += result.report.gradient.sent;
      sum.gradient.received += result.report.gradient.received;
    }
    EXPECT_EQ(sum.scalers.sent, alone.scalers.sent);
    EXPECT_EQ(sum.scalers.received, alone.scalers.received);
    EXPECT_EQ(sum.gradient.sent, alone.gradient.sent);
    EXPECT_EQ(sum.gradient.received, alone.gradient.received);
  }
}

/// Gradients that are not finite, of the last worker, which only one rank has.
std::vector<Tensors> damaged_gradients() {
  std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  workers.back().values[3][5000] = std::numeric_limits<float>::quiet_NaN();
  return workers;
}

TEST_F(CudaDeviceAllReduceOfRanks, AllSkipAStepThatOneOfThemCannotHave) {
  const std::vector<Tensors> workers = damaged_gradients();
  CompressedAllReduceOptions options = options_with({});
  options.on_nonfinite = OnNonfinite::kSkip;
  Tensors unused = blank_tensors(mixed_layout());
  const ExchangeReport on_cpu =
      local_exchange(mixed_layout(), kNumWorkers, options).exchange(tables(workers, 0, kNumWorkers), unused.table, 4);
  constexpr std::array<std::uint64_t, 1> kStep = {4};
  for (const int size : {2, 4}) {
    for (const RankResult& result : run_all(size, workers, options, kStep)) {
      EXPECT_TRUE(result.report.skipped);
      EXPECT_EQ(result.report.nonfinite, on_cpu.nonfinite);
      EXPECT_EQ(result.skip, 1u);
    }
  }
}

TEST_F(CudaDeviceAllReduceOfRanks, CountADamagedTensorAsZeroIfAsked) {
  CompressedAllReduceOptions options = options_with({.clip_factor = 2.5});
  options.on_nonfinite = OnNonfinite::kZero;
  expect_cpus_bits(damaged_gradients(), options, kAllSizes);
}

TEST_F(CudaDeviceAllReduceOfRanks, RefuseWorkersOfAnotherRank) {
  Stream stream(Device::cuda());
  const auto meeting = std::make_shared<testing::Meeting>(2);
  const auto second = std::make_shared<testing::ThreadDeviceCommunicator>(meeting, 1);
  EXPECT_NO_THROW(DeviceAllReduce(mixed_layout(), worker_range(5, 1, 2), options_with({}), stream, second));
  EXPECT_THROW(DeviceAllReduce(mixed_layout(), worker_range(5, 0, 2), options_with({}), stream, second),
               InvalidArgument);
  EXPECT_THROW(DeviceAllReduce(mixed_layout(), worker_range(1, 0, 1), options_with({}), stream, second),
               InvalidArgument);
  // Without a communicator there is one rank.
  EXPECT_THROW(DeviceAllReduce(mixed_layout(), worker_range(5, 1, 2), options_with({}), stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad
