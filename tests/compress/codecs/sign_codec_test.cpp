#include "compress/codecs/sign_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"
#include "support/codec_messages.h"
#include "support/exchanges.h"
#include "support/gradients.h"

namespace terngrad::sign_codec_test {
namespace {

using reference::Bytes;
using ::testing::ElementsAre;
using testing::send;
using testing::Sent;
using testing::Tensors;

Sent sent(const SignCodecOptions& options, const std::vector<float>& values, std::uint32_t worker = 0,
          std::uint64_t step = 3, PayloadForm form = PayloadForm::kNatural) {
  Layout layout;
  layout.add("w", {static_cast<std::int64_t>(values.size())});
  const Slice whole{0, 0, static_cast<std::int64_t>(values.size())};
  return send(SignCodec(options), layout, Tensors(layout, {values}), worker, {whole}, {}, form, 1, step);
}

std::vector<float> decoded(const SignCodecOptions& options, const Sent& sent) {
  std::vector<float> values(static_cast<std::size_t>(sent.slices[0].slice.count));
  SignCodec(options).decode(sent.slices[0], values);
  return values;
}

/// Majority vote over the workers' values, with the workers in the given order.
std::vector<float> vote(const std::vector<std::vector<float>>& workers, SignCodecOptions options = {},
                        AggregateUnit unit = AggregateUnit::kMean) {
  options.votes = true;
  options.num_workers = static_cast<int>(workers.size());
  std::vector<Sent> all;
  std::vector<EncodedSlice> messages;
  for (std::uint32_t worker = 0; worker < workers.size(); ++worker)
    all.push_back(sent(options, workers[worker], worker));
  for (const Sent& one : all) messages.push_back(one.slices[0]);
  return testing::aggregated(SignCodec(options), messages, unit);
}

double squares(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

TEST(SignCodec, GoldenBytes) {
  // A = 8, n = 8. Worker 0 in step 3: bits of zeros at even positions are negative.
  const std::vector<float> g = {-1, 3, 0, 0, 0.5f, -2.5f, -1, -0.0f};
  const Sent one = sent({}, g);
  EXPECT_EQ(one.local, std::vector{1.0f});
  EXPECT_EQ(one.payload(0), (Bytes{0b01100101, 0, 0, 0}));
  EXPECT_THAT(decoded({}, one), ElementsAre(-1, 1, -1, 1, 1, -1, -1, 1));
  const SignCodecOptions plus{.scale = SignScale::kL2, .zeros = ZeroSign::kPlus};
  EXPECT_EQ(sent(plus, g).payload(0), (Bytes{0b01100001, 0, 0, 0}));
  // One worker's counts in lanes for five workers: 3 bits each.
  const SignCodecOptions votes{.votes = true, .num_workers = 5};
  const Sent lanes = sent(votes, g, 0, 3, PayloadForm::kLanes);
  EXPECT_EQ(lanes.payload(0), (Bytes{0x41, 0x80, 0x04, 0, 0, 0, 0, 0}));
  EXPECT_EQ(decoded(votes, lanes), decoded({}, one));
}

TEST(SignCodec, OfMeansErrsByWhatTheMagnitudesSay) {
  // C(g) - g|^2 = |g|^2 - A^2 / n, for a Gaussian (1 - 2 / pi) |g|^2.
  const std::vector<float> g = testing::gaussian(200000, 7);
  const std::vector<float> values = decoded({}, sent({}, g));
  double magnitudes = 0;
  std::vector<float> error;
  for (std::size_t i = 0; i < g.size(); ++i) {
    magnitudes += std::fabs(static_cast<double>(g[i]));
    error.push_back(values[i] - g[i]);
  }
  const auto n = static_cast<double>(g.size());
  EXPECT_NEAR(squares(error) / squares(g), 1 - magnitudes * magnitudes / n / squares(g), 1e-6);
  EXPECT_NEAR(squares(error) / squares(g), 1 - 2 / std::numbers::pi, 0.005);
}

TEST(SignCodec, OfOtherScalesKeepsTheNormOrTheProjection) {
  const std::vector<float> g = testing::gaussian(10000, 8);
  const SignCodecOptions l2{.scale = SignScale::kL2};
  EXPECT_NEAR(squares(decoded(l2, sent(l2, g))) / squares(g), 1, 1e-6);
  const SignCodecOptions drive{.scale = SignScale::kDrive, .block_elements = 640};
  const std::vector<float> values = decoded(drive, sent(drive, g));
  for (std::size_t begin = 0; begin < g.size(); begin += 640) {
    double product = 0;
    double square = 0;
    for (std::size_t i = begin; i < std::min(begin + 640, g.size()); ++i) {
      product += static_cast<double>(values[i]) * static_cast<double>(g[i]);
      square += static_cast<double>(g[i]) * static_cast<double>(g[i]);
    }
    EXPECT_NEAR(product / square, 1, 1e-6) << begin;
  }
}

TEST(SignCodec, VotesForTheSignThatMostHave) {
  const std::vector<std::vector<float>> workers = {{1, -1, 5, -2}, {1, -3, -1, -1}, {-9, 1, -1, -1}, {2, 2, 1, -1}};
  const SignCodecOptions one{.scale = SignScale::kOne};
  EXPECT_THAT(vote(workers, one), ElementsAre(1, 0, 0, -1));
  // The mean magnitudes are 2.25, 2.25 and 3.
  EXPECT_THAT(vote({workers[0], workers[0], workers[2]}), ElementsAre(2.5f, -2.5f, 2.5f, -2.5f));
  EXPECT_THAT(vote(workers, one, AggregateUnit::kSums), ElementsAre(1, 0, 0, -1));
  EXPECT_THAT(vote(workers, {}, AggregateUnit::kSums), ElementsAre(1, 0, 0, -1));
}

TEST(SignCodec, OfOneWorkerVotesAsItIs) {
  const std::vector<float> g = testing::gaussian(9000, 9);
  const SignCodecOptions votes{.votes = true};
  EXPECT_EQ(vote({g}), decoded(votes, sent(votes, g)));
  EXPECT_EQ(vote({g}), decoded({}, sent({}, g)));
}

TEST(SignCodec, VotesTheSameForWorkersInAnyOrder) {
  std::vector<std::vector<float>> workers;
  for (std::uint64_t w = 0; w < 6; ++w) workers.push_back(testing::gaussian(5000, w));
  const SignCodecOptions one{.scale = SignScale::kOne};
  const std::vector<float> expected = vote(workers, one);
  std::ranges::rotate(workers, workers.begin() + 2);
  std::swap(workers[0], workers[5]);
  EXPECT_EQ(vote(workers, one), expected);
}

TEST(SignCodec, VotesOfZerosTieForAnEvenNumberOfWorkersAndAlternateForAnOddOne) {
  const std::vector<float> zeros(100, 0.0f);
  const SignCodecOptions one{.scale = SignScale::kOne};
  EXPECT_THAT(vote({zeros, zeros, zeros, zeros}, one), ::testing::Each(0.0f));
  const std::vector<float> of_three = vote({zeros, zeros, zeros}, one);
  for (std::size_t i = 0; i < zeros.size(); ++i) EXPECT_EQ(of_three[i], i % 2 == 0 ? -1.0f : 1.0f) << i;
  EXPECT_THAT(vote({zeros, zeros}, {.scale = SignScale::kOne, .zeros = ZeroSign::kPlus}), ::testing::Each(1.0f));
}

TEST(SignCodec, VotesAreRightAsOftenAsTheBinomialTailSays) {
  // Seven workers have the right sign with probability 0.7 each: the majority is right with probability 0.874.
  constexpr std::size_t n = 100000;
  constexpr int kWorkers = 7;
  std::vector<std::vector<float>> workers;
  for (std::uint64_t w = 0; w < kWorkers; ++w) {
    const std::vector<float> noise = testing::gaussian(n, 50 + w, 1.0);
    workers.emplace_back();
    for (const float value : noise) workers.back().push_back(value < 0.5244005f ? 1.0f : -1.0f);  // Phi(0.5244) = 0.7
  }
  double right = 0;
  for (const float value : vote(workers, {.scale = SignScale::kOne})) right += value > 0 ? 1 : 0;
  double tail = 0;
  for (int k = 4; k <= kWorkers; ++k) {
    const double ways = k == 4 ? 35 : k == 5 ? 21 : k == 6 ? 7 : 1;
    tail += ways * std::pow(0.7, k) * std::pow(0.3, kWorkers - k);
  }
  // Five standard deviations: 6e-7 false alarms.
  EXPECT_NEAR(right / n, tail, 5 * std::sqrt(tail * (1 - tail) / n));
}

TEST(SignCodec, CountsElementsThatAreNotFiniteAsZeros) {
  std::vector<float> g(64, -1.0f);
  g[5] = std::numeric_limits<float>::quiet_NaN();
  for (const SignScale scale : {SignScale::kL1, SignScale::kOne}) {
    const Sent one = sent({.votes = true, .scale = scale, .num_workers = 2}, g);
    EXPECT_TRUE(std::isnan(one.local[0]));
    EXPECT_EQ(one.payload(0), Bytes(8, 0x55));  // step 3
  }
  EXPECT_EQ(sent({}, g).payload(0), Bytes(8, 0));
}

TEST(SignCodec, HasOneMeanByEveryAlgorithmAndOnEveryDevice) {
  constexpr ExchangeAlgorithm kOfOwnScalers[] = {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce};
  for (const char* spec : {"sign", "sign:scale=l2,block=512", "sign:scale=drive,zeros=plus"}) {
    testing::expect_one_mean(spec, kOfOwnScalers);
  }
  constexpr ExchangeAlgorithm kOfSums[] = {ExchangeAlgorithm::kScatterReduce, ExchangeAlgorithm::kIntegerSum};
  for (const char* spec : {"sign:reduce=vote", "sign:reduce=vote,scale=one", "sign:reduce=vote,block=64,zeros=plus"}) {
    for (const DownlinkCodec downlink : {DownlinkCodec::kFloat32, DownlinkCodec::kBfloat16, DownlinkCodec::kSums}) {
      const bool sums = downlink == DownlinkCodec::kSums;
      testing::expect_one_mean(
          spec,
          sums ? std::span<const ExchangeAlgorithm>(kOfSums) : std::span<const ExchangeAlgorithm>(testing::kAlgorithms),
          downlink);
    }
  }
}

TEST(SignCodec, SendsVotesBackWithoutLoss) {
  const Layout layout = testing::mixed_layout();
  const std::vector<Tensors> workers = testing::worker_gradients(layout, 4);
  for (const char* spec : {"sign:reduce=vote", "sign:reduce=vote,scale=one"}) {
    std::vector<Tensors> means;
    for (const DownlinkCodec downlink : {DownlinkCodec::kFloat32, DownlinkCodec::kSums}) {
      CompressedAllReduceOptions options = testing::options_of(ExchangeAlgorithm::kScatterReduce, downlink);
      options.codecs.codec = spec;
      means.push_back(testing::blank_tensors(layout));
      testing::local_exchange(layout, 4, options).exchange(testing::tables(workers, 0, 4), means.back().table, 1);
    }
    EXPECT_TRUE(testing::same_bits(means[0].values, means[1])) << spec;
  }
}

TEST(SignCodec, RefusesWhatItCannotDo) {
  EXPECT_THROW(make_codec("sign:scale=one", {}), InvalidArgument);
  EXPECT_THROW(make_codec("sign:reduce=vote,scale=l2", {}), InvalidArgument);
  EXPECT_THROW(make_codec("sign:reduce=vote,scale=drive", {}), InvalidArgument);
  EXPECT_THROW(make_codec("sign:reduce=vote,scale=one,block=64", {}), InvalidArgument);
  EXPECT_THROW(make_codec("sign:block=100", {}), InvalidArgument);
  EXPECT_THROW(make_codec("sign:reduce=vote", {.num_workers = 16384}), InvalidArgument);
  EXPECT_THROW(SignCodec({.num_workers = 0}), InvalidArgument);
  EXPECT_THROW(SignCodec({}).sum_form(), InvalidArgument);
  const Layout layout = testing::mixed_layout();
  CompressedAllReduceOptions options = testing::options_of(ExchangeAlgorithm::kAuto, DownlinkCodec::kTernary);
  options.codecs.codec = "sign:reduce=vote";
  EXPECT_THROW(testing::local_exchange(layout, 3, options), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::sign_codec_test
