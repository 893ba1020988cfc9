// Exchanges of several ranks with a device each, as threads: means and bytes equal those of CompressedAllReduce
// (contract B2).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "kernels/runtime/errors.h"
#include "support/cuda_device.h"
#include "support/device_ranks.h"
#include "support/exchanges.h"
#include "support/thread_device_communicator.h"

namespace terngrad::device_compressed_all_reduce_ranks_test {
namespace {

using testing::blank_tensors;
using testing::expect_cpus_bits;
using testing::local_exchange;
using testing::mixed_layout;
using testing::options_with;
using testing::RankResult;
using testing::run_all;
using testing::tables;
using testing::Tensors;
using testing::worker_gradients;
using CudaCompressedAllReduceOfRanks = testing::CudaTest;

constexpr int kNumWorkers = 5;  // not a multiple of 2, 3 and 4

constexpr std::array kAllSizes = {1, 2, 3, 4};

TEST_F(CudaCompressedAllReduceOfRanks, GiveTheCpusBitsForEverySharingAndFormat) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kMean, ScalerSharing::kNone}) {
    for (const TernaryFormat format : {TernaryFormat::kT2, TernaryFormat::kT5}) {
      expect_cpus_bits(workers, options_with({.clip_factor = 2.5, .sharing = sharing, .format = format}), kAllSizes);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CudaCompressedAllReduceOfRanks, GiveTheCpusBitsForEveryDownlinkCodec) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  for (const DownlinkCodec codec : testing::kDownlinkCodecs) {
    expect_cpus_bits(workers, options_with({.clip_factor = 2.5}, codec), kAllSizes);
    if (HasFatalFailure()) return;
  }
}

TEST_F(CudaCompressedAllReduceOfRanks, GiveTheCpusBitsWithAServerOnTheFirst) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  constexpr std::array kSizes = {1, 3};
  for (const DownlinkCodec downlink_codec : testing::kDownlinkCodecs) {
    CompressedAllReduceOptions options = options_with({.clip_factor = 2.5}, downlink_codec, ExchangeAlgorithm::kAuto);
    options.owners = ShardOwners::kServers;
    expect_cpus_bits(workers, options, kSizes);
    if (HasFatalFailure()) return;
  }
}

TEST_F(CudaCompressedAllReduceOfRanks, WithAServerSendAllToItAndAllBack) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  CompressedAllReduceOptions options = options_with({}, DownlinkCodec::kFloat32, ExchangeAlgorithm::kAuto);
  options.owners = ShardOwners::kServers;
  constexpr std::array<std::uint64_t, 1> kSteps = {1};
  ExchangeReport alone;
  for (const int size : kAllSizes) {
    ExchangeReport sum;
    for (const RankResult& result : run_all(size, workers, options, kSteps)) sum += result.report;
    // Except for scalers, all traffic is between the server (with worker 0) and the other workers.
    EXPECT_EQ(sum.servers.received - sum.scalers.sent / (kNumWorkers - 1), sum.gradient.sent) << size;
    EXPECT_EQ(sum.servers.sent - sum.scalers.sent / (kNumWorkers - 1), sum.mean.received) << size;
    EXPECT_EQ(sum.mean.sent + sum.gradient.received, 0) << size;
    if (size == 1) alone = sum;
    EXPECT_GT(sum.gradient.sent, 0);
    EXPECT_EQ(sum.sent_bytes(), alone.sent_bytes()) << size;
    EXPECT_EQ(sum.received_bytes(), alone.received_bytes()) << size;
  }
}

TEST_F(CudaCompressedAllReduceOfRanks, RefuseServersWithAnotherAlgorithm) {
  Stream stream(Device::cuda());
  CompressedAllReduceOptions options = options_with({});
  options.owners = ShardOwners::kServers;
  for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kIntegerSum}) {
    options.algorithm = algorithm;
    EXPECT_THROW(
        CompressedAllReduce(mixed_layout(), {worker_range(2, 0, 1), make_self_device_communicator()}, options, stream),
        InvalidArgument);
  }
}

TEST_F(CudaCompressedAllReduceOfRanks, GiveTheCpusBitsForEveryScopeAndPayloadsOfAnySize) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  constexpr std::array kSizes = {2, 4};
  for (const ScalerScope scope : {ScalerScope::kBlock, ScalerScope::kModel}) {
    // Blocks of whole chunks with unshared scalers are drawn while measuring.
    for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kNone}) {
      expect_cpus_bits(workers,
                       options_with({.clip_factor = 2.5, .sharing = sharing, .scope = scope, .block_elements = 4096}),
                       kSizes);
      if (HasFatalFailure()) return;
    }
  }
  expect_cpus_bits(workers, options_with({.clip_factor = 2.5, .format = TernaryFormat::kTMask}), kSizes);
}

TEST_F(CudaCompressedAllReduceOfRanks, GiveTheCpusBitsWhereGradientsTravelAsNumbers) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  for (const char* codec : {"fp32", "bf16"}) {
    CompressedAllReduceOptions options = testing::options_of(ExchangeAlgorithm::kAuto);
    options.codecs.codec = codec;
    expect_cpus_bits(workers, options, kAllSizes);
    if (HasFatalFailure()) return;
  }
}

TEST_F(CudaCompressedAllReduceOfRanks, ReportTogetherTheBytesOfOne) {
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

/// Non-finite gradients of the last worker, which only one rank has.
std::vector<Tensors> damaged_gradients() {
  std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  workers.back().values[3][5000] = std::numeric_limits<float>::quiet_NaN();
  return workers;
}

TEST_F(CudaCompressedAllReduceOfRanks, AllSkipAStepThatOneOfThemCannotHave) {
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

TEST_F(CudaCompressedAllReduceOfRanks, CountADamagedTensorAsZeroIfAsked) {
  CompressedAllReduceOptions options = options_with({.clip_factor = 2.5});
  options.on_nonfinite = OnNonfinite::kZero;
  expect_cpus_bits(damaged_gradients(), options, kAllSizes);
}

}  // namespace
}  // namespace terngrad::device_compressed_all_reduce_ranks_test
