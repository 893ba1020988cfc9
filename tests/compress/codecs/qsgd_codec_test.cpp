#include "compress/codecs/qsgd_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/codec_messages.h"
#include "support/exchanges.h"
#include "support/gradients.h"

namespace terngrad::qsgd_codec_test {
namespace {

using reference::Bytes;
using testing::bits_of;
using testing::gaussian_tensors;
using ::testing::HasSubstr;
using testing::send;
using testing::Sent;
using testing::Tensors;

Layout one_tensor(std::int64_t n) {
  Layout layout;
  layout.add("w", {n});
  return layout;
}

/// One worker's message of one tensor.
Sent sent(const QsgdOptions& options, const std::vector<float>& values, std::uint64_t step = 3) {
  const Layout layout = one_tensor(static_cast<std::int64_t>(values.size()));
  const Slice whole{0, 0, static_cast<std::int64_t>(values.size())};
  return send(QsgdCodec(options), layout, Tensors(layout, {values}), 0, {whole}, {}, PayloadForm::kNatural, 1, step);
}

std::vector<float> decoded(const QsgdOptions& options, const Sent& sent) {
  std::vector<float> values(static_cast<std::size_t>(sent.slices[0].slice.count));
  QsgdCodec(options).decode(sent.slices[0], values);
  return values;
}

double squares(const std::vector<float>& values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * static_cast<double>(v);
  return sum;
}

TEST(QsgdCodec, GoldenBytes) {
  // s = 1. 4 bits, L = 7: t = 0, 3.5, 7, 1.75 round to the codes 0, 4, -7, 2, which are packed with 7 added.
  const std::vector<float> g = {0.0f, 0.5f, -1.0f, 0.25f};
  const QsgdOptions nearest{.bits = 4, .rounding = Rounding::kNearest};
  const Sent four = sent(nearest, g);
  EXPECT_EQ(four.payload(0), (Bytes{0xb7, 0x90, 0, 0}));
  EXPECT_THAT(decoded(nearest, four), ::testing::ElementsAre(0.0f, 4 * (1 / 7.0f), -7 * (1 / 7.0f), 2 * (1 / 7.0f)));
  // 8 bits, L = 127: t = 0, 63.5, 127, 31.75; ties go to the even 64.
  EXPECT_EQ(sent({.bits = 8, .rounding = Rounding::kNearest}, g).payload(0), (Bytes{127, 127 + 64, 0, 127 + 32}));
  // 2 bits, L = 1: format t2, in which 0.5 ties and rounds to 0; minus one is 11.
  EXPECT_EQ(sent({.bits = 2, .rounding = Rounding::kNearest}, g).payload(0), (Bytes{0x30, 0, 0, 0}));
}

TEST(QsgdCodec, ScalersAreTheNorms) {
  const std::vector<float> g = {3.0f, -4.0f, 0.0f, 0.0f};
  const auto scaler = [&](LevelNorm norm) { return sent({.norm = norm, .clip = 2}, g).local.at(0); };
  EXPECT_EQ(scaler(LevelNorm::kMax), 4.0f);
  EXPECT_EQ(scaler(LevelNorm::kPowerOfTwo), 4.0f);  // a power of two itself
  EXPECT_EQ(scaler(LevelNorm::kL2), 5.0f);
  EXPECT_EQ(scaler(LevelNorm::kRms), 5.0f);  // 2 sqrt(25 / 4)
  EXPECT_EQ(sent({.norm = LevelNorm::kPowerOfTwo}, {3.0f, -4.0000005f}).local.at(0), 8.0f);
  EXPECT_EQ(sent({.norm = LevelNorm::kL2}, {0x1p-100f}).local.at(0), 0.0f);
}

TEST(QsgdCodec, EveryBlockHasItsOwnScaler) {
  std::vector<float> g(200, 0.001f);
  g[10] = 1;
  g[130] = -8;
  EXPECT_THAT(sent({.block_elements = 64}, g).local, ::testing::ElementsAre(1.0f, 0.001f, 8.0f, 0.001f));
  EXPECT_THAT(sent({.block_elements = 0}, g).local, ::testing::ElementsAre(8.0f));
}

TEST(QsgdCodec, MeanAndVarianceAreThoseOfTheRoundingRule) {
  const std::vector<float> g = testing::gaussian(512, 5);
  constexpr int kDraws = 2000;
  for (const int bits : {2, 4}) {
    const QsgdOptions options{.bits = bits};
    std::vector<double> sum(g.size(), 0.0);
    std::vector<double> sum_squares(g.size(), 0.0);
    double scaler = 0;
    for (std::uint64_t step = 0; step < kDraws; ++step) {
      const Sent one = sent(options, g, step);
      scaler = static_cast<double>(one.local.at(0));
      const std::vector<float> values = decoded(options, one);
      for (std::size_t i = 0; i < g.size(); ++i) {
        const auto error = static_cast<double>(values[i]) - static_cast<double>(g[i]);
        sum[i] += error;
        sum_squares[i] += error * error;
      }
    }
    const double unit = scaler / num_levels(bits);
    double expected = 0;
    double found = 0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      const double t = std::fabs(static_cast<double>(g[i])) / unit;
      const double f = t - std::floor(t);
      const double variance = unit * unit * f * (1 - f);
      EXPECT_LT(std::fabs(sum[i] / kDraws), 6 * std::sqrt(variance / kDraws) + 1e-6 * unit) << bits << " " << i;
      expected += variance;
      found += sum_squares[i] / kDraws;
    }
    EXPECT_NEAR(found / expected, 1, 0.02) << bits;
  }
}

TEST(QsgdCodec, ErrorOfTheL2NormIsBelowThePapersBound) {
  // Lemma 3.1: E|Q(g) - g|^2 <= min(B / L^2, sqrt(B) / L) |g|^2 for each block of B elements.
  for (const int bits : {2, 4, 8}) {
    const QsgdOptions options{.bits = bits, .norm = LevelNorm::kL2, .block_elements = 512};
    const std::vector<float> g = testing::gaussian(512, 9);
    double error = 0;
    constexpr int kDraws = 200;
    for (std::uint64_t step = 0; step < kDraws; ++step) {
      std::vector<float> values = decoded(options, sent(options, g, step));
      std::ranges::transform(values, g, values.begin(), std::minus{});
      error += squares(values) / kDraws;
    }
    const double levels = num_levels(bits);
    EXPECT_LT(error / squares(g), std::min(512 / (levels * levels), std::sqrt(512) / levels)) << bits;
    EXPECT_GT(error, 0);
  }
}

TEST(QsgdCodec, NearestIsWithinHalfALevel) {
  const std::vector<float> g = testing::gaussian(5000, 2);
  for (const int bits : {4, 8}) {
    const QsgdOptions options{.bits = bits, .block_elements = 0, .rounding = Rounding::kNearest};
    const Sent one = sent(options, g);
    const std::vector<float> values = decoded(options, one);
    const float half = one.local[0] / static_cast<float>(num_levels(bits)) / 2;
    for (std::size_t i = 0; i < g.size(); ++i) EXPECT_LE(std::fabs(values[i] - g[i]), half * 1.0001f) << i;
  }
}

TEST(QsgdCodec, SharedCodesHaveOneMeanByEveryAlgorithmAndOnEveryDevice) {
  for (const char* spec : {"qsgd:sharing=max,bits=2", "qsgd:sharing=max,bits=4,block=64", "qsgd:sharing=max,bits=8"}) {
    for (const DownlinkCodec downlink : testing::kDownlinkCodecs) {
      testing::expect_one_mean(spec, testing::kAlgorithms, downlink);
    }
  }
}

TEST(QsgdCodec, MeansOfItsOwnScalersAreTheTreeSum) {
  const Layout layout = one_tensor(5000);
  std::vector<Tensors> workers;
  for (std::uint64_t w = 0; w < 5; ++w) workers.push_back(gaussian_tensors(layout, 30 + w, std::pow(3.0, w)));
  for (const std::string spec : {"qsgd:bits=2", "qsgd", "qsgd:bits=8,norm=l2"}) {
    CompressedAllReduceOptions options;
    options.codecs.codec = spec;
    CompressedAllReduce exchange(layout, make_worker_group(5, make_self_communicator()), options);
    Tensors mean = testing::blank_tensors(layout);
    exchange.exchange(testing::tables(workers, 0, 5), mean.table, 5);
    std::vector<std::vector<float>> each(5, std::vector<float>(5000));
    for (int w = 0; w < 5; ++w) exchange.decode_local(w, 0, each[static_cast<std::size_t>(w)]);
    std::vector<float> expected(5000);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      std::vector<float> column;
      for (const auto& values : each) column.push_back(values[i]);
      expected[i] = reference::tree_sum(column) * (1.0f / 5.0f);
    }
    EXPECT_EQ(bits_of(mean.values[0]), bits_of(expected)) << spec;
  }
}

TEST(QsgdCodec, RefusesWhatItCannotDo) {
  const auto refusal = [](const std::string& spec, int num_workers = 1) -> std::string {
    try {
      make_codec(spec, {.num_workers = num_workers});
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal("qsgd:bits=3"), HasSubstr("2, 4, 8"));
  EXPECT_THAT(refusal("qsgd:block=100"), HasSubstr("64"));
  EXPECT_THAT(refusal("qsgd:clip=2"), HasSubstr("norm=rms"));
  EXPECT_THAT(refusal("qsgd:clip=0,norm=rms"), HasSubstr("clip"));
  EXPECT_THAT(refusal("qsgd:bits=8,sharing=max", 200000), HasSubstr("too many"));
  EXPECT_EQ(refusal("qsgd:bits=8", 200000), "");
}

}  // namespace
}  // namespace terngrad::qsgd_codec_test
