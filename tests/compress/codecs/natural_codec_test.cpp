#include "compress/codecs/natural_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"
#include "support/codec_messages.h"
#include "support/exchanges.h"
#include "support/gradients.h"

namespace terngrad::natural_codec_test {
namespace {

using reference::Bytes;
using testing::send;
using testing::Sent;
using testing::Tensors;

Sent sent(const NaturalOptions& options, const std::vector<float>& values, std::uint64_t step = 3) {
  Layout layout;
  layout.add("w", {static_cast<std::int64_t>(values.size())});
  const Slice whole{0, 0, static_cast<std::int64_t>(values.size())};
  return send(NaturalCodec(options), layout, Tensors(layout, {values}), 0, {whole}, {}, PayloadForm::kNatural, 1, step);
}

std::vector<float> decoded(const NaturalOptions& options, const Sent& sent) {
  std::vector<float> values(static_cast<std::size_t>(sent.slices[0].slice.count));
  NaturalCodec(options).decode(sent.slices[0], values);
  return values;
}

TEST(NaturalCodec, GoldenBytes) {
  // Powers of two do not depend on draws. s = 4: 4 / s = 1 has exponent field 127; -1 / s = -2^-2 has 125 and the sign;
  // 2^-6 / s = 2^-8 has 119.
  const std::vector<float> g = {4.0f, -1.0f, 0.0f, 0x1p-6f};
  const Sent eight = sent({}, g);
  EXPECT_EQ(eight.local, std::vector{4.0f});
  EXPECT_EQ(eight.payload(0), (Bytes{127, 0x80 | 125, 0, 119}));
  EXPECT_EQ(decoded({}, eight), g);
  // 4 bits: 1 is e = 7, 2^-2 is e = 5; 2^-6, the smallest level, is e = 1.
  const std::vector<float> h = {4.0f, -1.0f, 0.0f, 0x1p-4f};
  const Sent four = sent({.bits = 4}, h);
  EXPECT_EQ(four.payload(0), (Bytes{0xd7, 0x10, 0, 0}));
  EXPECT_EQ(decoded({.bits = 4}, four), h);
}

TEST(NaturalCodec, VarianceIsThatOfTheTwoPowersAround) {
  const std::vector<float> g = testing::gaussian(512, 5);
  constexpr int kDraws = 2000;
  double expected = 0;
  double found = 0;
  double squares = 0;
  std::vector<double> sum(g.size(), 0.0);
  for (std::uint64_t step = 0; step < kDraws; ++step) {
    const std::vector<float> values = decoded({}, sent({}, g, step));
    for (std::size_t i = 0; i < g.size(); ++i) {
      const auto error = static_cast<double>(values[i]) - static_cast<double>(g[i]);
      sum[i] += error;
      found += error * error / kDraws;
    }
  }
  for (std::size_t i = 0; i < g.size(); ++i) {
    const auto magnitude = std::fabs(static_cast<double>(g[i]));
    const double below = std::exp2(std::floor(std::log2(magnitude)));
    const double f = magnitude / below - 1;
    const double variance = below * below * f * (1 - f);
    EXPECT_LE(variance, magnitude * magnitude / 8 * (1 + 1e-12));
    EXPECT_LT(std::fabs(sum[i] / kDraws), 6 * std::sqrt(variance / kDraws) + 1e-6 * magnitude) << i;
    expected += variance;
    squares += magnitude * magnitude;
  }
  EXPECT_NEAR(found / expected, 1, 0.02);
  EXPECT_NEAR(found / squares, 0.0818, 0.01);  // Gaussian elements
}

TEST(NaturalCodec, HasOneMeanByEveryAlgorithmAndOnEveryDevice) {
  constexpr ExchangeAlgorithm kOfOwnScalers[] = {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce};
  for (const char* spec : {"natural", "natural:bits=4,norm=l2,block=512"})
    testing::expect_one_mean(spec, kOfOwnScalers);
}

TEST(NaturalCodec, RefusesWhatItCannotDo) {
  EXPECT_THROW(make_codec("natural:bits=2", {}), InvalidArgument);
  EXPECT_THROW(make_codec("natural:norm=l2", {}), InvalidArgument);  // needs bits=4
  EXPECT_THROW(make_codec("natural:block=100", {}), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::natural_codec_test
