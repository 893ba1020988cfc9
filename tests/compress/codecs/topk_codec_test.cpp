#include "compress/codecs/topk_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"
#include "kernels/sparse/top_k.h"
#include "support/codec_messages.h"
#include "support/exchanges.h"
#include "support/gradients.h"

namespace terngrad::topk_codec_test {
namespace {

using ::testing::ElementsAre;
using testing::send;
using testing::Sent;
using testing::Tensors;

std::vector<float> decoded(const TopKOptions& options, const std::vector<float>& values) {
  Layout layout;
  layout.add("w", {static_cast<std::int64_t>(values.size())});
  const Slice whole{0, 0, static_cast<std::int64_t>(values.size())};
  const TopKCodec codec(options);
  const Sent sent = send(codec, layout, Tensors(layout, {values}), 0, {whole});
  codec.check(sent.slices[0]);
  std::vector<float> out(values.size());
  codec.decode(sent.slices[0], out);
  return out;
}

/// |C(g)|^2 / |g|^2.
double kept_of(const TopKOptions& options, const std::vector<float>& g) {
  double kept = 0;
  double all = 0;
  const std::vector<float> values = decoded(options, g);
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (values[i] != 0) {
      EXPECT_EQ(values[i], g[i]);
    }
    kept += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    all += static_cast<double>(g[i]) * static_cast<double>(g[i]);
  }
  return kept / all;
}

TEST(TopKCodec, KeepsTheLargestElements) {
  EXPECT_THAT(decoded({.density = 0.4}, {1, -5, 2, 5, 0.5f}), ElementsAre(0, -5, 0, 5, 0));
  EXPECT_THAT(decoded({.density = 0.01}, {1, -5, 2, 5, 0.5f}), ElementsAre(0, -5, 0, 0, 0))
      << "of equal ones the first";
  EXPECT_THAT(decoded({.density = 0.4, .values = SparseValues::kBfloat16}, {1, -5.01f, 2, 5, 0.5f}),
              ElementsAre(0, -5, 0, 5, 0));
}

TEST(TopKCodec, ChoosesInEveryBlock) {
  std::vector<float> g(600, 0.25f);
  for (const std::size_t place : {10u, 11u, 300u, 599u}) g[place] = static_cast<float>(place);
  const std::vector<float> values = decoded({.density = 0.001, .scope = TopKScope::kBlock, .block_elements = 256}, g);
  std::vector<float> expected(600);
  for (const std::size_t place : {11u, 300u, 599u}) expected[place] = static_cast<float>(place);
  EXPECT_EQ(values, expected);
}

TEST(TopKCodec, SendsNothingOfATensorWithoutElements) {
  for (const TopKScope scope : {TopKScope::kLayer, TopKScope::kBlock}) {
    EXPECT_EQ(decoded({.scope = scope}, {}), std::vector<float>());
    EXPECT_EQ(TopKCodec({.scope = scope}).max_payload_bytes({0, 0, 0}, PayloadForm::kNatural), 0);
  }
}

TEST(TopKCodec, SendsEverythingWithADensityOfOne) {
  const std::vector<float> g = testing::gaussian(10000, 1);
  EXPECT_EQ(decoded({.density = 1}, g), g);
  EXPECT_EQ(decoded({.density = 1, .scope = TopKScope::kBlock}, g), g);
}

// Gaussian with threshold tau, P(|g| > tau) = density: 2 (tau phi(tau) + density / 2) of |g|^2 is kept.
TEST(TopKCodec, KeepsWhatAGaussianHasAboveTheThreshold) {
  const std::vector<float> g = testing::gaussian(1 << 20, 2);
  EXPECT_NEAR(kept_of({.density = 0.01}, g), 0.0845, 0.0008);
  EXPECT_NEAR(kept_of({.density = 0.1}, g), 0.439, 0.002);
  const double of_blocks = kept_of({.density = 0.1, .scope = TopKScope::kBlock}, g);
  EXPECT_NEAR(of_blocks, 0.439, 0.004);
  EXPECT_LE(of_blocks, kept_of({.density = static_cast<double>(top_k_count(4096, 0.1)) / 4096}, g));
}

TEST(TopKCodec, BeginsWithMoreElementsWhereItWarmsUp) {
  const TopKCodec codec({.density = 0.01, .stage_steps = 10});
  const std::pair<std::uint64_t, double> expected[] = {{0, 0.25},      {9, 0.25},  {10, 0.0625},   {19, 0.0625},
                                                       {20, 0.015625}, {30, 0.01}, {1000000, 0.01}};
  Layout layout;
  layout.add("w", {4096});
  const Tensors tensors = testing::gaussian_tensors(layout, 8);
  const Slice whole{0, 0, 4096};
  for (const auto& [step, density] : expected) {
    EXPECT_EQ(codec.density_at(step), density) << step;
    const Sent sent = send(codec, layout, tensors, 0, {whole}, {}, PayloadForm::kNatural, 1, step);
    codec.check(sent.slices[0]);
    std::vector<float> out(4096);
    codec.decode(sent.slices[0], out);
    EXPECT_EQ(4096 - std::ranges::count(out, 0.0f), top_k_count(4096, density)) << step;
    EXPECT_LE(static_cast<std::int64_t>(sent.slices[0].payload.size()),
              codec.max_payload_bytes(whole, PayloadForm::kNatural));
  }
  // A message with a density of no stage.
  const Sent other = send(TopKCodec({.density = 0.1}), layout, tensors, 0, {whole});
  EXPECT_THROW(codec.check(other.slices[0]), CommunicationError);
  EXPECT_THROW(TopKCodec({.density = 0.25, .stage_steps = 10}), InvalidArgument) << "no stage has more";
}

TEST(TopKCodec, SendsZerosOfATensorThatIsNotFinite) {
  for (const float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> g = testing::gaussian(9000, 3);
    g[8999] = value;
    for (const TopKScope scope : {TopKScope::kLayer, TopKScope::kBlock}) {
      EXPECT_EQ(decoded({.scope = scope}, g), std::vector<float>(9000));
    }
  }
  // Values that round to infinity on the wire count as non-finite.
  const float almost = std::numeric_limits<float>::max();
  EXPECT_EQ(decoded({.density = 1}, {1, almost}), (std::vector<float>{1, almost}));
  EXPECT_EQ(decoded({.density = 1, .values = SparseValues::kBfloat16}, {1, almost}), (std::vector<float>{0, 0}));
}

// Adds in order of workers, from +0; the summation tree of other codecs would give 1.
TEST(TopKCodec, AddsInOrderOfWorkers) {
  Layout layout;
  layout.add("w", {2});
  std::vector<Tensors> workers;
  for (const float value : {1.0f, 0x1p-24f, 0x1p-24f, 0x1p-24f}) {
    const std::vector<float> tensor = {value, 0.0f};
    workers.push_back(Tensors(layout, {tensor}));
  }
  CompressedAllReduceOptions options;
  options.codecs.codec = "topk:density=0.5";
  CompressedAllReduce exchange = testing::local_exchange(layout, 4, options);
  const Tensors mean = testing::blank_tensors(layout);
  exchange.exchange(testing::tables(workers, 0, 4), mean.table, 0);
  EXPECT_EQ(mean.values[0][0], 0.25f) << "each addition rounds to even";
  std::ranges::reverse(workers);
  exchange.exchange(testing::tables(workers, 0, 4), mean.table, 1);
  EXPECT_EQ(mean.values[0][0], (1 + 0x1p-22f) / 4) << "three of them are large enough together";
}

TEST(TopKCodec, HasOneMeanByEveryAlgorithmAndOnEveryDevice) {
  constexpr ExchangeAlgorithm kAlgorithms[] = {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce,
                                               ExchangeAlgorithm::kAuto};
  for (const char* spec : {"topk", "topk:density=0.1,values=bf16", "topk:scope=block", "topk:scope=block,block=8192"}) {
    testing::expect_one_mean(spec, kAlgorithms);
    testing::expect_one_mean(spec, kAlgorithms, DownlinkCodec::kBfloat16);
  }
}

TEST(TopKCodec, RefusesWhatItCannotDo) {
  for (const char* spec : {"topk:density=0", "topk:density=1.5", "topk:block=8192", "topk:scope=block,block=100",
                           "topk:scope=block,block=128", "topk:scope=block,block=131072", "topk:values=fp16",
                           "topk:scope=block,stage_steps=5", "topk:stage_steps=-1"}) {
    EXPECT_THROW(make_codec(spec, {}), InvalidArgument) << spec;
  }
  EXPECT_THROW(TopKCodec({.block_elements = 3000}), InvalidArgument);
  EXPECT_THROW(TopKCodec({.num_workers = 0}), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::topk_codec_test
