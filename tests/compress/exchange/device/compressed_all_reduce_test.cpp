// CompressedAllReduce on a GPU against that on the CPU, bit for bit.
#include "compress/exchange/compressed_all_reduce.h"

#include <gtest/gtest.h>

#include <limits>

#include "compress/codecs/ternary_spec.h"
#include "compress/exchange/round.h"
#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/errors.h"
#include "support/bytes_codec.h"
#include "support/cuda_device.h"
#include "support/device_exchange.h"
#include "support/exchanges.h"

namespace terngrad::device_compressed_all_reduce_test {
namespace {

using testing::bits_of;
using testing::blank_tensors;
using testing::mixed_layout;
using testing::Tensors;
using testing::worker_gradients;
using OnDevice = testing::DeviceExchange;
using CudaCompressedAllReduce = testing::CudaTest;

void expect_same_tensors(const Tensors& expected, const Tensors& found, const std::string& what) {
  ASSERT_TRUE(testing::same_bits(expected.values, found)) << what;
}

/// Runs two steps on both devices, and compares the means and each worker's message.
void expect_cpus_mean(const std::vector<Tensors>& workers, const CompressedAllReduceOptions& options) {
  const Layout layout = mixed_layout();
  const auto num_workers = static_cast<int>(workers.size());
  const std::string what = testing::options_text(options) + ", " + std::to_string(num_workers) + " workers";
  CompressedAllReduce cpu = testing::local_exchange(layout, num_workers, options);
  OnDevice cuda(layout, workers, options);
  for (const std::uint64_t step : {std::uint64_t{3}, std::uint64_t{0xff'00000001u}}) {
    Tensors expected = blank_tensors(layout);
    cpu.exchange(testing::tables(workers, 0, num_workers), expected.table, step);
    const ExchangeReport report = cuda.exchange.exchange(cuda.tables, cuda.mean.table, step);
    expect_same_tensors(expected, cuda.mean.read(layout, cuda.stream), what);
    EXPECT_TRUE(report.nonfinite.empty());
    EXPECT_EQ(report.gradient.sent > 0, num_workers > 1);
    EXPECT_GE(report.encode_seconds, 0);
    for (int t = 0; t < layout.num_segments(); ++t) {
      const auto n = static_cast<std::size_t>(layout.segment(t).num_elements);
      std::vector<float> sent(n);
      std::vector<float> sent_on_cpu(n);
      const float scaler = cuda.exchange.decode_local(num_workers - 1, t, sent);
      const float scaler_on_cpu = cpu.decode_local(num_workers - 1, t, sent_on_cpu);
      ASSERT_EQ(bits_of(scaler), bits_of(scaler_on_cpu)) << what << ", tensor " << t;
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(bits_of(sent[i]), bits_of(sent_on_cpu[i])) << what;
    }
  }
}

TEST_F(CudaCompressedAllReduce, OfACodecWithoutKernelsGoesThroughTheHostAndSaysSo) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, 3);
  const auto codec = std::make_shared<const testing::Bytes>(testing::Bytes::Options{.draws = true});
  for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce}) {
    const CompressedAllReduceOptions options = testing::options_of(algorithm);
    CompressedAllReduce cpu(layout, CodecPlan::with_codec(layout, codec),
                            make_worker_group(3, make_self_communicator()), options, Stream());
    OnDevice cuda(layout, workers, CodecPlan::with_codec(layout, codec), options);
    EXPECT_EQ(cuda.exchange.codecs_through_host(whole_bucket(layout)), std::set<std::string>{"bytes"});
    for (const std::uint64_t step : {std::uint64_t{3}, std::uint64_t{4}}) {
      Tensors expected = blank_tensors(layout);
      cpu.exchange(testing::tables(workers, 0, 3), expected.table, step);
      cuda.exchange.exchange(cuda.tables, cuda.mean.table, step);
      expect_same_tensors(expected, cuda.mean.read(layout, cuda.stream), word_of(algorithm));
    }
  }
}

CompressedAllReduceOptions options_with(const TernaryOptions& ternary,
                                        DownlinkCodec downlink_codec = DownlinkCodec::kFloat32) {
  CompressedAllReduceOptions options = testing::options_of(ExchangeAlgorithm::kAuto, downlink_codec);
  options.codecs.codec = ternary_spec(ternary);
  return options;
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
    EXPECT_THROW(OnDevice(mixed_layout(), workers, options_with({.levels = levels}, codec)), InvalidArgument);
  }
}

TEST_F(CudaCompressedAllReduce, SendsAllTensorsAsNumbersIfAsked) {
  for (const char* codec : {"fp32", "bf16"}) {
    CompressedAllReduceOptions options = testing::options_of(ExchangeAlgorithm::kAuto);
    options.codecs.codec = codec;
    expect_cpus_mean(worker_gradients(mixed_layout(), 3), options);
  }
}

TEST_F(CudaCompressedAllReduce, SendsSignsAndVotesIfAsked) {
  for (const char* codec : {"sign", "sign:scale=drive,zeros=plus,block=192", "sign:reduce=vote,scale=one", "onebit",
                            "onebit:group=layer", "onebit:group=block,block=192"}) {
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
  const std::vector<Tensors> workers = damaged_gradients();
  const CompressedAllReduceOptions options = options_with({});
  CompressedAllReduce cpu = testing::local_exchange(mixed_layout(), 3, options);
  OnDevice cuda(mixed_layout(), workers, options);
  Tensors mean = blank_tensors(mixed_layout());
  std::string words;
  try {
    cpu.exchange(testing::tables(workers, 0, 3), mean.table, 4);
  } catch (const NonFiniteError& error) {
    words = error.what();
  }
  ASSERT_FALSE(words.empty());
  try {
    cuda.exchange.exchange(cuda.tables, cuda.mean.table, 4);
    FAIL() << "expected NonFiniteError";
  } catch (const NonFiniteError& error) {
    EXPECT_EQ(error.what(), words);
  }
  // The skip flag remains set, so that no later step is applied before the host has read it.
  for (std::size_t w = 0; w < 3; ++w) {
    cuda.gradients[w].write(worker_gradients(mixed_layout(), 3)[w], cuda.stream);
  }
  cuda.submit({5, nullptr});
  EXPECT_THROW(cuda.exchange.report(5), NonFiniteError);
  EXPECT_EQ(testing::to_host<std::uint32_t>({cuda.exchange.skip(), 1}, cuda.stream)[0], 1u);
}

TEST_F(CudaCompressedAllReduce, SkipsSuchAStepAndNotTheNext) {
  const std::vector<Tensors> workers = damaged_gradients();
  CompressedAllReduceOptions options = options_with({});
  options.on_nonfinite = OnNonfinite::kSkip;
  CompressedAllReduce cpu = testing::local_exchange(mixed_layout(), 3, options);
  OnDevice cuda(mixed_layout(), workers, options);
  Tensors mean = blank_tensors(mixed_layout());
  const ExchangeReport expected = cpu.exchange(testing::tables(workers, 0, 3), mean.table, 4);
  const ExchangeReport found = cuda.exchange.exchange(cuda.tables, cuda.mean.table, 4);
  EXPECT_TRUE(found.skipped);
  EXPECT_EQ(found.nonfinite, expected.nonfinite);
  EXPECT_EQ(testing::to_host<std::uint32_t>({cuda.exchange.skip(), 1}, cuda.stream)[0], 1u);
  for (std::size_t w = 0; w < 3; ++w) {
    cuda.gradients[w].write(worker_gradients(mixed_layout(), 3)[w], cuda.stream);
  }
  EXPECT_FALSE(cuda.exchange.exchange(cuda.tables, cuda.mean.table, 5).skipped);
  EXPECT_EQ(testing::to_host<std::uint32_t>({cuda.exchange.skip(), 1}, cuda.stream)[0], 0u);
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
      CompressedAllReduce cpu = testing::local_exchange(mixed_layout(), 3, options);
      OnDevice cuda(mixed_layout(), workers, options);
      Tensors expected = blank_tensors(mixed_layout());
      const ExchangeReport on_cpu = cpu.exchange(testing::tables(workers, 0, 3), expected.table, 4);
      const ExchangeReport found = cuda.exchange.exchange(cuda.tables, cuda.mean.table, 4);
      EXPECT_EQ(found.nonfinite, on_cpu.nonfinite);
      EXPECT_FALSE(found.skipped);
      expect_same_tensors(expected, cuda.mean.read(mixed_layout(), cuda.stream), testing::options_text(options));
      EXPECT_EQ(testing::to_host<std::uint32_t>({cuda.exchange.skip(), 1}, cuda.stream)[0], 0u);
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
      CompressedAllReduce cpu = testing::local_exchange(mixed_layout(), 3, options);
      OnDevice cuda(mixed_layout(), workers, options);
      Tensors expected = blank_tensors(mixed_layout());
      const ExchangeReport on_cpu = cpu.exchange(testing::tables(workers, 0, 3), expected.table, 4);
      const ExchangeReport found = cuda.exchange.exchange(cuda.tables, cuda.mean.table, 4);
      EXPECT_EQ(on_cpu.nonfinite.empty(), factor < 4);
      EXPECT_EQ(found.nonfinite, on_cpu.nonfinite);
      EXPECT_EQ(found.skipped, on_cpu.skipped);
      if (found.skipped) continue;
      expect_same_tensors(expected, cuda.mean.read(mixed_layout(), cuda.stream), std::to_string(factor));
    }
  }
}

TEST_F(CudaCompressedAllReduce, DecodesNothingBeforeAStepNorAfterOneThatWasDropped) {
  const std::vector<Tensors> workers = damaged_gradients();
  CompressedAllReduceOptions options = options_with({});
  options.on_nonfinite = OnNonfinite::kSkip;
  OnDevice cuda(mixed_layout(), workers, options);
  std::vector<float> out(static_cast<std::size_t>(mixed_layout().segment(0).num_elements));
  EXPECT_THROW(cuda.exchange.decode_local(0, 0, out), InvalidArgument);
  EXPECT_TRUE(cuda.exchange.exchange(cuda.tables, cuda.mean.table, 4).skipped);
  EXPECT_THROW(cuda.exchange.decode_local(0, 0, out), InvalidArgument);
}

TEST_F(CudaCompressedAllReduce, RunsFromAGraphWithTheStepOnTheDevice) {
  const Layout layout = mixed_layout();
  for (const DownlinkCodec codec : testing::kDownlinkCodecs) {
    const CompressedAllReduceOptions options = options_with({.clip_factor = 2.5}, codec);
    const std::vector<Tensors> workers = worker_gradients(layout, 4);
    CompressedAllReduce cpu = testing::local_exchange(layout, 4, options);
    OnDevice cuda(layout, workers, options);
    Buffer<std::uint64_t> step = testing::to_device<std::uint64_t>(std::vector<std::uint64_t>{0}, cuda.stream);
    const auto submit = [&] { cuda.submit({0, step.data()}); };
    submit();
    const CapturedGraph graph(cuda.stream, submit);
    for (const std::uint64_t now : {7u, 8u}) {
      const std::vector<Tensors> gradients = worker_gradients(layout, 4, now);
      for (std::size_t w = 0; w < 4; ++w) cuda.gradients[w].write(gradients[w], cuda.stream);
      copy<std::uint64_t>(std::vector<std::uint64_t>{now}, step.span(), cuda.stream);
      graph.launch(cuda.stream);
      Tensors expected = blank_tensors(layout);
      cpu.exchange(testing::tables(gradients, 0, 4), expected.table, now);
      EXPECT_TRUE(cuda.exchange.report(now).nonfinite.empty());
      expect_same_tensors(expected, cuda.mean.read(layout, cuda.stream), word_of(codec));
    }
  }
}

TEST_F(CudaCompressedAllReduce, RefusesWhatItCannotHonour) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), 2);
  EXPECT_THROW(
      OnDevice(mixed_layout(), workers, options_with({.sharing = ScalerSharing::kNone}, DownlinkCodec::kTernary)),
      InvalidArgument);
  CompressedAllReduceOptions sums = testing::options_of(ExchangeAlgorithm::kIntegerSum);
  sums.codecs.codec = "fp32";
  EXPECT_THROW(OnDevice(mixed_layout(), workers, sums), InvalidArgument);
  OnDevice cuda(mixed_layout(), workers, options_with({}));
  EXPECT_THROW(cuda.exchange.exchange({cuda.tables.data(), 1}, cuda.mean.table, 1), InvalidArgument);
  EXPECT_THROW(cuda.exchange.exchange(cuda.tables, cuda.mean.table, std::uint64_t{1} << 40), InvalidArgument);
  std::vector<float> out(3);
  EXPECT_THROW(cuda.exchange.decode_local(0, 0, out), InvalidArgument);
  EXPECT_THROW(cuda.exchange.decode_local(2, 0, out), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::device_compressed_all_reduce_test
