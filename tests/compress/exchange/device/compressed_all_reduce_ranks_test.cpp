// Exchanges of several ranks with a GPU each, as threads: for every algorithm, means have the CPU's bits (contract B2)
// and ranks together report the bytes of one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <memory>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "compress/plan/codec_plan.h"
#include "compress/route/exchange_algorithm.h"
#include "compress/route/wire_bytes.h"
#include "support/cuda_device.h"
#include "support/device_exchange.h"
#include "support/device_ranks.h"
#include "support/exchanges.h"

namespace terngrad::device_compressed_all_reduce_ranks_test {
namespace {

using testing::expect_cpus_bits;
using testing::mixed_layout;
using testing::options_with;
using testing::reports_of_ranks;
using testing::Tensors;
using testing::worker_gradients;
using CudaExchangeOfRanks = testing::CudaTest;

constexpr ExchangeAlgorithm kGather = ExchangeAlgorithm::kAllGather;
constexpr ExchangeAlgorithm kScatter = ExchangeAlgorithm::kScatterReduce;
constexpr ExchangeAlgorithm kSum = ExchangeAlgorithm::kIntegerSum;
constexpr int kNumWorkers = 5;  // not a multiple of 2, 3 and 4
constexpr std::array kAllSizes = {1, 2, 3, 4};
constexpr std::array kTwoAndFour = {2, 4};
constexpr std::array kOneAndThree = {1, 3};

bool is_of_codes(DownlinkCodec codec) { return codec == DownlinkCodec::kSums || codec == DownlinkCodec::kTernary; }

TEST_F(CudaExchangeOfRanks, GatherForEverySharingFormatAndDownlinkCodec) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kMean, ScalerSharing::kNone}) {
    for (const TernaryFormat format : {TernaryFormat::kT2, TernaryFormat::kT5}) {
      const TernaryOptions ternary{.clip_factor = 2.5, .sharing = sharing, .format = format};
      expect_cpus_bits(workers, options_with(ternary, DownlinkCodec::kFloat32, kGather), kAllSizes);
    }
  }
  for (const DownlinkCodec codec : testing::kDownlinkCodecs) {
    expect_cpus_bits(workers, options_with({.clip_factor = 2.5}, codec, kGather), kAllSizes);
  }
}

TEST_F(CudaExchangeOfRanks, GatherForEveryScopeAndPayloadsOfAnySize) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  const auto expect = [&](const TernaryOptions& ternary) {
    expect_cpus_bits(workers, options_with(ternary, DownlinkCodec::kFloat32, kGather), kTwoAndFour);
  };
  for (const ScalerScope scope : {ScalerScope::kBlock, ScalerScope::kModel}) {
    // Blocks of whole chunks with unshared scalers are drawn while measuring.
    for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kNone}) {
      expect({.clip_factor = 2.5, .sharing = sharing, .scope = scope, .block_elements = 4096});
    }
  }
  expect({.clip_factor = 2.5, .format = TernaryFormat::kTMask});
}

TEST_F(CudaExchangeOfRanks, GiveTheCpusBitsWithAServerOnTheFirst) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  for (const DownlinkCodec downlink_codec : testing::kDownlinkCodecs) {
    CompressedAllReduceOptions options = options_with({.clip_factor = 2.5}, downlink_codec);
    options.owners = ShardOwners::kServers;
    expect_cpus_bits(workers, options, kOneAndThree);
  }
}

TEST_F(CudaExchangeOfRanks, WithAServerSendAllToItAndAllBack) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  CompressedAllReduceOptions options = options_with({});
  options.owners = ShardOwners::kServers;
  ExchangeReport alone;
  for (const int size : kAllSizes) {
    ExchangeReport sum;
    for (const ExchangeReport& report : reports_of_ranks(size, workers, options)) sum += report;
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

TEST_F(CudaExchangeOfRanks, ScatterForEverySharingFormatAndDownlinkCodec) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kMean, ScalerSharing::kNone}) {
    for (const DownlinkCodec codec : testing::kDownlinkCodecs) {
      if (is_of_codes(codec) && sharing == ScalerSharing::kNone) continue;
      const TernaryOptions t2{.clip_factor = 2.5, .sharing = sharing};
      expect_cpus_bits(workers, options_with(t2, codec, kScatter), kTwoAndFour);
      const TernaryOptions t5{.sharing = sharing, .format = TernaryFormat::kT5};
      expect_cpus_bits(workers, options_with(t5, codec, kScatter), kOneAndThree);
    }
  }
}

TEST_F(CudaExchangeOfRanks, ScatterBlocksThatCutsGoThroughAndOthers) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  for (const DownlinkCodec codec : testing::kDownlinkCodecs) {
    for (const std::int64_t block : {192, 4096, 8192}) {
      const TernaryOptions ternary{.scope = ScalerScope::kBlock, .block_elements = block};
      expect_cpus_bits(workers, options_with(ternary, codec, kScatter), std::array{block == 4096 ? 4 : 2});
    }
  }
  // Codes with unshared scalers are drawn while measuring, except in shards.
  const TernaryOptions unshared{.sharing = ScalerSharing::kNone, .scope = ScalerScope::kBlock, .block_elements = 4096};
  expect_cpus_bits(workers, options_with(unshared, DownlinkCodec::kFloat32, kScatter), kTwoAndFour);
}

TEST_F(CudaExchangeOfRanks, ScatterCodesOfOneScalerAndPayloadsOfAnySize) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  for (const DownlinkCodec codec : testing::kDownlinkCodecs) {
    expect_cpus_bits(workers, options_with({.scope = ScalerScope::kModel}, codec, kScatter), kOneAndThree);
    expect_cpus_bits(workers, options_with({.format = TernaryFormat::kTMask}, codec, kScatter), kTwoAndFour);
  }
}

TEST_F(CudaExchangeOfRanks, CarryNumbersAndVotesByEveryWayThatTheyHave) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  const auto expect = [&](const char* codec, DownlinkCodec downlink_codec, ExchangeAlgorithm algorithm,
                          std::span<const int> sizes) {
    CompressedAllReduceOptions options = options_with({}, downlink_codec, algorithm);
    options.codecs.codec = codec;
    expect_cpus_bits(workers, options, sizes);
  };
  for (const char* codec : {"fp32", "bf16"}) {
    expect(codec, DownlinkCodec::kFloat32, ExchangeAlgorithm::kAuto, kAllSizes);
    for (const DownlinkCodec downlink_codec : {DownlinkCodec::kFloat32, DownlinkCodec::kBfloat16}) {
      expect(codec, downlink_codec, kScatter, kAllSizes);
    }
  }
  for (const char* codec : {"sign:reduce=vote", "sign:reduce=vote,block=192"}) {
    for (const ExchangeAlgorithm algorithm : {kScatter, kSum}) {
      for (const DownlinkCodec downlink_codec : {DownlinkCodec::kFloat32, DownlinkCodec::kSums}) {
        expect(codec, downlink_codec, algorithm, kOneAndThree);
      }
    }
  }
}

TEST_F(CudaExchangeOfRanks, SumForEverySharingScopeAndDownlinkCodec) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kMean}) {
    for (const DownlinkCodec codec : testing::kDownlinkCodecs) {
      for (const ScalerScope scope : {ScalerScope::kLayer, ScalerScope::kBlock, ScalerScope::kModel}) {
        const TernaryOptions ternary{.clip_factor = 2.5,
                                     .sharing = sharing,
                                     .clip_scope = ClipScope::kLocal,
                                     .scope = scope,
                                     .block_elements = 4096};
        expect_cpus_bits(workers, options_with(ternary, codec, kSum),
                         sharing == ScalerSharing::kMax ? kTwoAndFour : kOneAndThree);
      }
    }
  }
}

TEST_F(CudaExchangeOfRanks, ServeAnyNumberOfWorkers) {
  // One worker; fewer workers than chunks; more, so that shards are empty. Lanes of 2 to 5 bits.
  for (const int num_workers : {1, 3, 12}) {
    const std::vector<Tensors> workers = worker_gradients(mixed_layout(), num_workers);
    const int most = num_workers == 1 ? 1 : 3;
    for (const ExchangeAlgorithm algorithm : {kScatter, kSum}) {
      for (const DownlinkCodec codec : {DownlinkCodec::kSums, DownlinkCodec::kTernary}) {
        const std::array sizes = {1, most};
        expect_cpus_bits(workers, options_with({.clip_factor = 2.5}, codec, algorithm), sizes);
      }
    }
  }
}

/// The last worker, which one rank has, has non-finite gradients; the mean of the last tensor overflows.
std::vector<Tensors> damaged_gradients() {
  std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  workers.back().values[3][5000] = std::numeric_limits<float>::quiet_NaN();
  for (Tensors& worker : workers) worker.values[6][0] = 3e38f;
  return workers;
}

TEST_F(CudaExchangeOfRanks, CountADamagedTensorAsZeroIfAsked) {
  for (const ExchangeAlgorithm algorithm : {kGather, kScatter, kSum}) {
    for (const DownlinkCodec codec : testing::kDownlinkCodecs) {
      CompressedAllReduceOptions options = options_with({.clip_factor = 2.5}, codec, algorithm);
      options.on_nonfinite = OnNonfinite::kZero;
      expect_cpus_bits(damaged_gradients(), options, kAllSizes);
    }
  }
}

TEST_F(CudaExchangeOfRanks, SkipADamagedStepTogether) {
  const std::vector<Tensors> workers = damaged_gradients();
  for (const ExchangeAlgorithm algorithm : {kGather, kScatter, kSum}) {
    CompressedAllReduceOptions options = options_with({}, DownlinkCodec::kTernary, algorithm);
    options.on_nonfinite = OnNonfinite::kSkip;
    expect_cpus_bits(workers, options, std::array{3});
    for (const ExchangeReport& report : reports_of_ranks(3, workers, options)) {
      EXPECT_TRUE(report.skipped);
      EXPECT_THAT(report.nonfinite, ::testing::HasSubstr("tensor 'fc/weights' of worker 4"));
    }
  }
}

/// Buffer size of payloads: a multiple of 16 bytes.
std::int64_t room(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

/// Bytes of all ranks.
ExchangeBytes legs_of(int size, const CompressedAllReduceOptions& options) {
  ExchangeBytes sum;
  for (const ExchangeReport& report : reports_of_ranks(size, worker_gradients(mixed_layout(), kNumWorkers), options)) {
    EXPECT_EQ(report.wire_seconds > 0, size > 1);
    EXPECT_GT(report.gradient.sent, 0);
    sum += report;
  }
  return sum;
}

TEST_F(CudaExchangeOfRanks, ReportTogetherTheBytesOfOne) {
  const CompressedAllReduceOptions options = options_with({.clip_factor = 2.5}, DownlinkCodec::kFloat32, kGather);
  const ExchangeBytes alone = legs_of(1, options);
  for (const int size : {2, 3, 4}) {
    const ExchangeBytes sum = legs_of(size, options);
    EXPECT_EQ(sum.scalers.sent, alone.scalers.sent);
    EXPECT_EQ(sum.scalers.received, alone.scalers.received);
    EXPECT_EQ(sum.gradient.sent, alone.gradient.sent);
    EXPECT_EQ(sum.gradient.received, alone.gradient.received);
  }
}

TEST_F(CudaExchangeOfRanks, ReportTheBytesOfScatteredShardsForAnyNumberOfRanks) {
  CompressedAllReduceOptions options = options_with({}, DownlinkCodec::kBfloat16, kScatter);
  options.codecs.rules.clear();
  std::int64_t gradient = 0;  // one worker's, all shards
  std::int64_t mean = 0;
  for (const auto& shard : shards(mixed_layout(), kNumWorkers)) {
    for (const Slice& slice : shard) {
      gradient += room(payload_bytes(TernaryFormat::kT2, slice.count, 1));
      mean += room((2 * slice.count + 3) / 4 * 4);
    }
  }
  for (const int size : kAllSizes) {
    const ExchangeBytes legs = legs_of(size, options);
    // Each worker keeps one shard, and sends each of the others to its owner.
    EXPECT_EQ(legs.gradient.sent, gradient * (kNumWorkers - 1));
    EXPECT_EQ(legs.gradient.received, legs.gradient.sent);
    EXPECT_EQ(legs.mean.sent, mean * (kNumWorkers - 1));
    EXPECT_EQ(legs.mean.received, legs.mean.sent);
    // One scaler for each tensor that is not empty.
    EXPECT_EQ(legs.scalers.sent, 6 * 4 * kNumWorkers * (kNumWorkers - 1));
    EXPECT_EQ(legs.scalers.received, legs.scalers.sent);
  }
}

TEST_F(CudaExchangeOfRanks, ReportTheBytesOfLanesForAnyNumberOfRanks) {
  // Tensors 5 and 6 are gathered, as fp32 and bf16.
  const std::int64_t gathered = room(4 * 101) + room(2 * 36);
  std::int64_t lanes = 0;  // one worker's
  for (const std::int64_t n : {4500, 7, 8193, 1}) lanes += room(payload_bytes(TernaryFormat::kLanes, n, kNumWorkers));
  for (const int size : kAllSizes) {
    const ExchangeBytes legs = legs_of(size, options_with({}, DownlinkCodec::kFloat32, kSum));
    EXPECT_EQ(legs.gradient.sent, kNumWorkers * ((kNumWorkers - 1) * gathered + all_reduce_bytes(lanes, kNumWorkers)));
    EXPECT_EQ(legs.gradient.received, legs.gradient.sent);
    EXPECT_EQ(legs.mean.sent + legs.mean.received, 0);
  }
}

TEST_F(CudaExchangeOfRanks, ChooseByThemselvesAsOnTheCpu) {
  const auto communicator =
      std::make_shared<testing::ThreadDeviceCommunicator>(std::make_shared<testing::Meeting>(2), 1);
  const auto chosen_for = [&](const char* codec, int num_workers) {
    CompressedAllReduceOptions options = options_with({});
    options.codecs.codec = codec;
    options.codecs.rules.clear();
    testing::DeviceExchange cuda(mixed_layout(), num_workers, options, {.communicator = communicator});
    const ExchangeAlgorithm chosen = testing::algorithm_of(cuda.exchange);
    const CodecPlan& plan = cuda.exchange.plan();
    EXPECT_EQ(chosen, choose_algorithm(options.algorithm, options.owners, options.downlink_codec, cuda.layout, plan,
                                       num_workers))
        << codec << ", " << num_workers;
    return chosen;
  };
  EXPECT_EQ(chosen_for("ternary", 2), ExchangeAlgorithm::kAllGather);
  EXPECT_EQ(chosen_for("ternary", 5), kSum);
  EXPECT_EQ(chosen_for("fp32", 2), ExchangeAlgorithm::kAllGather);
  EXPECT_EQ(chosen_for("fp32", 5), kScatter);
}

}  // namespace
}  // namespace terngrad::device_compressed_all_reduce_ranks_test
