// CompressedAllReduce on a GPU against that on the CPU, bit for bit.
#include "compress/exchange/compressed_all_reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/bytes_codec.h"
#include "support/cuda_device.h"
#include "support/device_exchange.h"
#include "support/exchanges.h"

namespace terngrad::device_compressed_all_reduce_test {
namespace {

using testing::DeviceExchange;
using testing::ExchangePair;
using testing::mixed_layout;
using testing::options_with;
using testing::Tensors;
using testing::worker_gradients;
using CudaCompressedAllReduce = testing::CudaTest;

/// Compares two steps of the exchange of whole gradients with those on the CPU.
void expect_cpus_mean(const std::vector<Tensors>& workers, const CompressedAllReduceOptions& options,
                      const std::shared_ptr<const Codec>& codec = nullptr) {
  const auto num_workers = static_cast<int>(workers.size());
  ExchangePair pair(mixed_layout(), num_workers, options, {.codec = codec});
  for (const std::uint64_t step : {std::uint64_t{3}, std::uint64_t{0xff'00000001u}}) {
    const ExchangeReport report = pair.step(workers, step);
    EXPECT_EQ(report.nonfinite, "");
    EXPECT_EQ(report.gradient.sent > 0, num_workers > 1);
  }
}

TEST_F(CudaCompressedAllReduce, OfACodecWithoutKernelsGoesThroughTheHostAndSaysSo) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), 3);
  const auto codec = std::make_shared<const testing::Bytes>(testing::Bytes::Options{.draws = true});
  for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce}) {
    const CompressedAllReduceOptions options = testing::options_of(algorithm);
    DeviceExchange cuda(mixed_layout(), 3, options, {.codec = codec});
    EXPECT_EQ(cuda.exchange.codecs_through_host(whole_bucket(cuda.layout)), std::set<std::string>{"bytes"});
    expect_cpus_mean(workers, options, codec);
  }
}

TEST_F(CudaCompressedAllReduce, NeedsNoHostForCodecsWithKernels) {
  for (const char* codec : {"fp32", "ternary", "qsgd", "fp8"}) {
    CompressedAllReduceOptions options = testing::options_of(ExchangeAlgorithm::kAuto);
    options.codecs.codec = codec;
    DeviceExchange cuda(mixed_layout(), 1, options);
    EXPECT_TRUE(cuda.exchange.codecs_through_host(whole_bucket(cuda.layout)).empty()) << codec;
  }
}

TEST_F(CudaCompressedAllReduce, GivesTheCpusMeanForAnyNumberOfWorkers) {
  for (const int num_workers : {1, 2, 3, 8}) {
    expect_cpus_mean(worker_gradients(mixed_layout(), num_workers), options_with({.clip_factor = 2.5}));
  }
}

TEST_F(CudaCompressedAllReduce, GivesTheCpusMeanForEverySharingScopeAndFormat) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), 3);
  for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kMean, ScalerSharing::kNone}) {
    for (const ScalerScope scope : {ScalerScope::kLayer, ScalerScope::kBlock, ScalerScope::kModel}) {
      for (const TernaryFormat format : {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask}) {
        expect_cpus_mean(workers, options_with({.clip_factor = 2.5,
                                                .sharing = sharing,
                                                .clip_scope = ClipScope::kLocal,
                                                .scope = scope,
                                                .block_elements = format == TernaryFormat::kT2 ? 4096 : 192,
                                                .format = format}));
      }
    }
  }
}

TEST_F(CudaCompressedAllReduce, GivesTheCpusMeanOfBlocksInOnePassAndInTwo) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), 3);
  for (const std::int64_t block : {8192, 12288, 16384}) {  // the last is too large for one pass
    expect_cpus_mean(workers, options_with({.clip_factor = 2.5,
                                            .sharing = ScalerSharing::kNone,
                                            .scope = ScalerScope::kBlock,
                                            .block_elements = block}));
  }
}

TEST_F(CudaCompressedAllReduce, GivesTheCpusMeanForEveryDownlinkCodec) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), 5);
  for (const DownlinkCodec codec : testing::kDownlinkCodecs) {
    expect_cpus_mean(workers, options_with({.clip_factor = 2.5}, codec));
    expect_cpus_mean(workers, options_with({.scope = ScalerScope::kBlock, .block_elements = 64}, codec));
  }
}

TEST_F(CudaCompressedAllReduce, TakesCodecsOfOneNameWithOtherOptions) {
  CompressedAllReduceOptions options = options_with({.clip_factor = 2.5});
  options.codecs.rules = {{"conv/*", "ternary:scope=block,block=64"}, {"fc/*", "ternary:format=t5,sharing=none"}};
  expect_cpus_mean(worker_gradients(mixed_layout(), 5), options);
}

TEST_F(CudaCompressedAllReduce, GivesTheCpusMeanOfAsymmetricLevels) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), 3);
  const TernaryLevels levels = TernaryLevels::kAsymmetric;
  for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kNone}) {
    expect_cpus_mean(workers, options_with({.sharing = sharing, .format = TernaryFormat::kTMask, .levels = levels}));
    expect_cpus_mean(workers, options_with({.clip_factor = 1.5,
                                            .sharing = sharing,
                                            .clip_scope = ClipScope::kLocal,
                                            .scope = ScalerScope::kBlock,
                                            .block_elements = 192,
                                            .levels = levels},
                                           DownlinkCodec::kBfloat16));
    expect_cpus_mean(workers, options_with({.clip_factor = 1.22,
                                            .rule = ScalerRule::kOriginal,
                                            .sharing = sharing,
                                            .rounding = Rounding::kNearest,
                                            .levels = levels}));
  }
  for (const DownlinkCodec codec : {DownlinkCodec::kSums, DownlinkCodec::kTernary}) {
    EXPECT_THROW(DeviceExchange(mixed_layout(), 3, options_with({.levels = levels}, codec)), InvalidArgument);
  }
}

TEST_F(CudaCompressedAllReduce, GivesTheCpusMeanOfStratifiedDraws) {
  for (const int num_workers : {1, 2, 3, 8}) {
    for (const char* codec :
         {"ternary:rounding=stratified,clip_factor=2.5", "qsgd:rounding=stratified,sharing=max",
          "ternary:rounding=stratified,levels=asymmetric,format=t5", "qsgd:bits=2,rounding=stratified"}) {
      CompressedAllReduceOptions options = testing::options_of(ExchangeAlgorithm::kAuto);
      options.codecs.codec = codec;
      expect_cpus_mean(worker_gradients(mixed_layout(), num_workers), options);
    }
  }
}

TEST_F(CudaCompressedAllReduce, SendsNumbersSignsAndVotesIfAsked) {
  for (const char* codec :
       {"fp32", "bf16", "sign", "sign:scale=drive,zeros=plus,block=192", "sign:reduce=vote,scale=one", "onebit",
        "onebit:group=layer", "onebit:group=block,block=192", "eden:levels=2,rotate=64", "eden",
        "eden:levels=4,rotate=256", "eden:levels=16,scale=least"}) {
    CompressedAllReduceOptions options = testing::options_of(ExchangeAlgorithm::kAuto);
    options.codecs.codec = codec;
    expect_cpus_mean(worker_gradients(mixed_layout(), 3), options);
  }
}

/// Gradients of three workers with some non-finite elements.
std::vector<Tensors> damaged_gradients() {
  std::vector<Tensors> workers = worker_gradients(mixed_layout(), 3);
  workers[1].values[3][5000] = std::numeric_limits<float>::quiet_NaN();  // fc/weights
  workers[2].values[0][7] = std::numeric_limits<float>::infinity();      // conv/weights
  workers[2].values[5][7] = -std::numeric_limits<float>::infinity();     // plain, as fp32
  return workers;
}

TEST_F(CudaCompressedAllReduce, StopsOnGradientsThatAreNotFiniteWithTheCpusWords) {
  ExchangePair pair(mixed_layout(), 3, options_with({}));
  EXPECT_NE(pair.step(damaged_gradients(), 4).nonfinite, "");
  // The skip flag remains set, so that no later step is applied before the host has read it.
  pair.gpu.write(worker_gradients(mixed_layout(), 3));
  pair.gpu.submit({5, nullptr});
  EXPECT_THROW(pair.gpu.exchange.report(5), NonFiniteError);
  EXPECT_EQ(pair.gpu.skip(), 1u);
}

TEST_F(CudaCompressedAllReduce, SkipsSuchAStepAndNotTheNext) {
  CompressedAllReduceOptions options = options_with({});
  options.on_nonfinite = OnNonfinite::kSkip;
  ExchangePair pair(mixed_layout(), 3, options);
  std::vector<float> out(static_cast<std::size_t>(pair.gpu.layout.segment(0).num_elements));
  EXPECT_THROW(pair.gpu.exchange.decode_local(0, 0, out), InvalidArgument);  // before the first step
  EXPECT_TRUE(pair.step(damaged_gradients(), 4).skipped);
  EXPECT_THROW(pair.gpu.exchange.decode_local(0, 0, out), InvalidArgument);
  EXPECT_FALSE(pair.step(worker_gradients(mixed_layout(), 3), 5).skipped);
}

TEST_F(CudaCompressedAllReduce, CountsSuchTensorsAsZeroIfAsked) {
  std::vector<Tensors> workers = damaged_gradients();
  // The mean of this fp32 tensor overflows, although all gradients are finite.
  for (std::size_t w = 0; w < 3; ++w) workers[w].values[6][0] = 3e38f;
  for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kMean, ScalerSharing::kNone}) {
    for (const ScalerScope scope : {ScalerScope::kLayer, ScalerScope::kBlock}) {
      CompressedAllReduceOptions options =
          options_with({.clip_factor = 2.5, .sharing = sharing, .scope = scope, .block_elements = 4096});
      options.on_nonfinite = OnNonfinite::kZero;
      ExchangePair pair(mixed_layout(), 3, options);
      const ExchangeReport found = pair.step(workers, 4);
      EXPECT_NE(found.nonfinite, "");
      EXPECT_FALSE(found.skipped);
    }
  }
}

TEST_F(CudaCompressedAllReduce, FindsMeansThatAFactorTakesOutOfRange) {
  std::vector<Tensors> workers = worker_gradients(mixed_layout(), 3);
  // One tensor sent as codes, and one sent as floats.
  for (Tensors& worker : workers) worker.values[0][0] = 0x1p126f;
  for (Tensors& worker : workers) worker.values[6][0] = 1.1e38f;
  for (const OnNonfinite policy : {OnNonfinite::kSkip, OnNonfinite::kZero}) {
    CompressedAllReduceOptions options = options_with({});
    options.on_nonfinite = policy;
    for (const float factor : {1.0f, 3.0f, 4.0f}) {
      options.mean_factor = factor;
      ExchangePair pair(mixed_layout(), 3, options);
      EXPECT_EQ(pair.step(workers, 4).nonfinite.empty(), factor < 4);
    }
  }
}

TEST_F(CudaCompressedAllReduce, RunsFromAGraphWithTheStepOnTheDevice) {
  for (const ExchangeAlgorithm algorithm :
       {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce, ExchangeAlgorithm::kIntegerSum}) {
    for (const DownlinkCodec codec : testing::kDownlinkCodecs) {
      ExchangePair(mixed_layout(), 4, options_with({.clip_factor = 2.5}, codec, algorithm)).steps_from_a_graph(4);
    }
  }
}

TEST_F(CudaCompressedAllReduce, RefusesWhatItCannotHonour) {
  const Layout layout = mixed_layout();
  EXPECT_THROW(DeviceExchange(layout, 2, options_with({.sharing = ScalerSharing::kNone}, DownlinkCodec::kTernary)),
               InvalidArgument);
  CompressedAllReduceOptions sums = testing::options_of(ExchangeAlgorithm::kIntegerSum);
  sums.codecs.codec = "fp32";
  EXPECT_THROW(DeviceExchange(layout, 2, sums), InvalidArgument);
  CompressedAllReduceOptions sparse = testing::options_of(ExchangeAlgorithm::kScatterReduce, DownlinkCodec::kSparse);
  sparse.codecs.codec = "topk";
  EXPECT_THAT([&] { DeviceExchange(layout, 2, sparse); },
              ::testing::ThrowsMessage<InvalidArgument>(
                  ::testing::HasSubstr("downlink_codec sparse: has no kernels for GPUs")));
  for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kIntegerSum}) {
    CompressedAllReduceOptions served = options_with({}, DownlinkCodec::kFloat32, algorithm);
    served.owners = ShardOwners::kServers;
    EXPECT_THROW(DeviceExchange(layout, 2, served), InvalidArgument);
  }
  DeviceExchange cuda(layout, 2, options_with({}));
  EXPECT_THROW(cuda.exchange.exchange({cuda.tables().data(), 1}, cuda.mean_table(), 1), InvalidArgument);
  EXPECT_THROW(cuda.exchange.exchange(cuda.tables(), cuda.mean_table(), std::uint64_t{1} << 40), InvalidArgument);
  std::vector<float> out(3);
  EXPECT_THROW(cuda.exchange.decode_local(0, 0, out), InvalidArgument);
  EXPECT_THROW(cuda.exchange.decode_local(2, 0, out), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::device_compressed_all_reduce_test
