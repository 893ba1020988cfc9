// Scatter-reduce and integer sums between ranks with a device each: means are bit-identical to CompressedAllReduce and
// for all algorithms (contract B2).
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
#include "kernels/runtime/captured_graph.h"
#include "support/cuda_device.h"
#include "support/device_exchange.h"
#include "support/device_ranks.h"
#include "support/exchanges.h"

namespace terngrad::device_compressed_all_reduce_algorithms_test {
namespace {

using testing::blank_tensors;
using testing::expect_cpus_bits;
using testing::mixed_layout;
using testing::options_with;
using testing::RankResult;
using testing::run_all;
using testing::Tensors;
using testing::worker_gradients;
using CudaExchangeAlgorithms = testing::CudaTest;

constexpr ExchangeAlgorithm kScatter = ExchangeAlgorithm::kScatterReduce;
constexpr ExchangeAlgorithm kSum = ExchangeAlgorithm::kIntegerSum;
constexpr int kNumWorkers = 5;  // not a multiple of 2, 3 and 4
constexpr std::array kAllSizes = {1, 2, 3, 4};
constexpr std::array kTwoAndFour = {2, 4};
constexpr std::array kOneAndThree = {1, 3};
constexpr std::array<std::uint64_t, 1> kStep = {1};

bool is_of_codes(DownlinkCodec codec) { return codec == DownlinkCodec::kSums || codec == DownlinkCodec::kTernary; }

TEST_F(CudaExchangeAlgorithms, ScatterForEverySharingFormatAndDownlinkCodec) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kMean, ScalerSharing::kNone}) {
    for (const DownlinkCodec codec : testing::kDownlinkCodecs) {
      if (is_of_codes(codec) && sharing == ScalerSharing::kNone) continue;
      const TernaryOptions t2{.clip_factor = 2.5, .sharing = sharing};
      expect_cpus_bits(workers, options_with(t2, codec, kScatter), kTwoAndFour);
      const TernaryOptions t5{.sharing = sharing, .format = TernaryFormat::kT5};
      expect_cpus_bits(workers, options_with(t5, codec, kScatter), kOneAndThree);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CudaExchangeAlgorithms, ScatterBlocksThatCutsGoThroughAndOthers) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  for (const DownlinkCodec codec : testing::kDownlinkCodecs) {
    for (const std::int64_t block : {192, 4096, 8192}) {
      const TernaryOptions ternary{.scope = ScalerScope::kBlock, .block_elements = block};
      expect_cpus_bits(workers, options_with(ternary, codec, kScatter), std::array{block == 4096 ? 4 : 2});
      if (HasFatalFailure()) return;
    }
  }
  // Codes with unshared scalers are drawn while measuring, except in shards.
  const TernaryOptions unshared{.sharing = ScalerSharing::kNone, .scope = ScalerScope::kBlock, .block_elements = 4096};
  expect_cpus_bits(workers, options_with(unshared, DownlinkCodec::kFloat32, kScatter), kTwoAndFour);
}

TEST_F(CudaExchangeAlgorithms, ScatterCodesOfOneScalerAndPayloadsOfAnySize) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  for (const DownlinkCodec codec : testing::kDownlinkCodecs) {
    expect_cpus_bits(workers, options_with({.scope = ScalerScope::kModel}, codec, kScatter), kOneAndThree);
    expect_cpus_bits(workers, options_with({.format = TernaryFormat::kTMask}, codec, kScatter), kTwoAndFour);
    if (HasFatalFailure()) return;
  }
}

TEST_F(CudaExchangeAlgorithms, ScatterGradientsThatTravelAsNumbers) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  for (const char* codec : {"fp32", "bf16"}) {
    for (const DownlinkCodec downlink_codec : {DownlinkCodec::kFloat32, DownlinkCodec::kBfloat16}) {
      CompressedAllReduceOptions options = options_with({}, downlink_codec, kScatter);
      options.codecs.codec = codec;
      expect_cpus_bits(workers, options, kAllSizes);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CudaExchangeAlgorithms, CarryVotesByEveryWayThatTheyHave) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  for (const char* codec : {"sign:reduce=vote", "sign:reduce=vote,block=192"}) {
    for (const ExchangeAlgorithm algorithm : {kScatter, kSum}) {
      for (const DownlinkCodec downlink_codec : {DownlinkCodec::kFloat32, DownlinkCodec::kSums}) {
        CompressedAllReduceOptions options = options_with({}, downlink_codec, algorithm);
        options.codecs.codec = codec;
        expect_cpus_bits(workers, options, kOneAndThree);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(CudaExchangeAlgorithms, SumForEverySharingScopeAndDownlinkCodec) {
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
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(CudaExchangeAlgorithms, ServeAnyNumberOfWorkers) {
  // One worker; fewer workers than chunks; more, so that shards are empty. Lanes of 2 to 5 bits.
  for (const int num_workers : {1, 3, 12}) {
    const std::vector<Tensors> workers = worker_gradients(mixed_layout(), num_workers);
    const int most = num_workers == 1 ? 1 : 3;
    for (const ExchangeAlgorithm algorithm : {kScatter, kSum}) {
      for (const DownlinkCodec codec : {DownlinkCodec::kSums, DownlinkCodec::kTernary}) {
        const std::array sizes = {1, most};
        expect_cpus_bits(workers, options_with({.clip_factor = 2.5}, codec, algorithm), sizes);
        if (HasFatalFailure()) return;
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

TEST_F(CudaExchangeAlgorithms, CountADamagedTensorAsZeroIfAsked) {
  for (const ExchangeAlgorithm algorithm : {kScatter, kSum}) {
    for (const DownlinkCodec codec : testing::kDownlinkCodecs) {
      CompressedAllReduceOptions options = options_with({.clip_factor = 2.5}, codec, algorithm);
      options.on_nonfinite = OnNonfinite::kZero;
      expect_cpus_bits(damaged_gradients(), options, kAllSizes);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CudaExchangeAlgorithms, SkipADamagedStepTogether) {
  for (const ExchangeAlgorithm algorithm : {kScatter, kSum}) {
    CompressedAllReduceOptions options = options_with({}, DownlinkCodec::kTernary, algorithm);
    options.on_nonfinite = OnNonfinite::kSkip;
    for (const RankResult& result : run_all(3, damaged_gradients(), options, kStep)) {
      EXPECT_TRUE(result.report.skipped);
      EXPECT_THAT(result.report.nonfinite, ::testing::HasSubstr("tensor 'fc/weights' of worker 4"));
      EXPECT_EQ(result.skip, 1u);
    }
  }
}

/// Buffer size of payloads: a multiple of 16 bytes.
std::int64_t room(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

/// Bytes of a report, summed over ranks.
struct Legs {
  LegBytes scalers, gradient, mean;
};
Legs legs_of(int size, const CompressedAllReduceOptions& options) {
  Legs sum;
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), kNumWorkers);
  for (const RankResult& result : run_all(size, workers, options, kStep)) {
    const auto add = [](LegBytes& to, const LegBytes& from) {
      to.sent += from.sent;
      to.received += from.received;
    };
    add(sum.scalers, result.report.scalers);
    add(sum.gradient, result.report.gradient);
    add(sum.mean, result.report.mean);
  }
  return sum;
}

TEST_F(CudaExchangeAlgorithms, ReportTheBytesOfScatteredShardsForAnyNumberOfRanks) {
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
    const Legs legs = legs_of(size, options);
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

TEST_F(CudaExchangeAlgorithms, ReportTheBytesOfLanesForAnyNumberOfRanks) {
  // Tensors 5 and 6 are gathered, as fp32 and bf16.
  const std::int64_t gathered = room(4 * 101) + room(2 * 36);
  std::int64_t lanes = 0;  // one worker's
  for (const std::int64_t n : {4500, 7, 8193, 1}) lanes += room(payload_bytes(TernaryFormat::kLanes, n, kNumWorkers));
  for (const int size : kAllSizes) {
    const Legs legs = legs_of(size, options_with({}, DownlinkCodec::kFloat32, kSum));
    EXPECT_EQ(legs.gradient.sent, kNumWorkers * ((kNumWorkers - 1) * gathered + all_reduce_bytes(lanes, kNumWorkers)));
    EXPECT_EQ(legs.gradient.received, legs.gradient.sent);
    EXPECT_EQ(legs.mean.sent + legs.mean.received, 0);
  }
}

TEST_F(CudaExchangeAlgorithms, ChooseByThemselvesAsOnTheCpu) {
  Stream stream(Device::cuda());
  const auto meeting = std::make_shared<testing::Meeting>(2);
  const auto communicator = std::make_shared<testing::ThreadDeviceCommunicator>(meeting, 1);
  const auto chosen_for = [&](const char* codec, int num_workers) {
    CompressedAllReduceOptions options = options_with({}, DownlinkCodec::kFloat32, ExchangeAlgorithm::kAuto);
    options.codecs.codec = codec;
    options.codecs.rules.clear();
    CompressedAllReduce exchange(mixed_layout(), {worker_range(num_workers, 1, 2), communicator}, options, stream);
    const ExchangeAlgorithm chosen = testing::algorithm_of(exchange);
    const Layout layout = mixed_layout();
    const CodecPlan plan(layout, with_workers(options.codecs, num_workers));
    EXPECT_EQ(chosen,
              choose_algorithm(options.algorithm, options.owners, options.downlink_codec, layout, plan, num_workers))
        << codec << ", " << num_workers;
    return chosen;
  };
  EXPECT_EQ(chosen_for("ternary", 2), ExchangeAlgorithm::kAllGather);
  EXPECT_EQ(chosen_for("ternary", 5), kSum);
  EXPECT_EQ(chosen_for("fp32", 2), ExchangeAlgorithm::kAllGather);
  EXPECT_EQ(chosen_for("fp32", 5), kScatter);
}

TEST_F(CudaExchangeAlgorithms, RunFromAGraph) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, 4);
  for (const ExchangeAlgorithm algorithm : {kScatter, kSum}) {
    for (const DownlinkCodec codec : testing::kDownlinkCodecs) {
      const CompressedAllReduceOptions options = options_with({.clip_factor = 2.5}, codec, algorithm);
      CompressedAllReduce cpu = testing::local_exchange(layout, 4, options);
      testing::DeviceExchange cuda(layout, workers, options);
      Buffer<std::uint64_t> step = testing::to_device<std::uint64_t>(std::vector<std::uint64_t>{0}, cuda.stream);
      const auto submit = [&] { cuda.submit({0, step.data()}); };
      submit();
      const CapturedGraph graph(cuda.stream, submit);
      for (const std::uint64_t now : {7u, 8u}) {
        copy<std::uint64_t>(std::vector<std::uint64_t>{now}, step.span(), cuda.stream);
        graph.launch(cuda.stream);
        Tensors expected = blank_tensors(layout);
        cpu.exchange(testing::tables(workers, 0, 4), expected.table, now);
        ASSERT_TRUE(testing::same_bits(expected.values, cuda.mean.read(layout, cuda.stream)))
            << testing::options_text(options);
      }
    }
  }
}

}  // namespace
}  // namespace terngrad::device_compressed_all_reduce_algorithms_test
