#include "compress/codecs/fp8_codec.h"

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

namespace terngrad::fp8_codec_test {
namespace {

using reference::Bytes;
using testing::send;
using testing::Sent;
using testing::Tensors;

Sent sent(const Fp8CodecOptions& options, const std::vector<float>& values, std::uint64_t step = 3) {
  Layout layout;
  layout.add("w", {static_cast<std::int64_t>(values.size())});
  const Slice whole{0, 0, static_cast<std::int64_t>(values.size())};
  return send(Fp8Codec(options), layout, Tensors(layout, {values}), 0, {whole}, {}, PayloadForm::kNatural, 1, step);
}

std::vector<float> decoded(const Fp8CodecOptions& options, const Sent& sent) {
  std::vector<float> values(static_cast<std::size_t>(sent.slices[0].slice.count));
  Fp8Codec(options).decode(sent.slices[0], values);
  return values;
}

TEST(Fp8Codec, GoldenBytes) {
  // The largest magnitude is 448, so s = 1 and elements are not scaled. 1 is 8 * 2^-3: exponent 7, fraction 0. 17 is a
  // tie between 16 (exponent 11, fraction 0) and 18 (fraction 1), and rounds to the even code; -0.001 rounds to -1 *
  // 2^-9.
  const Sent one = sent({}, {448.0f, 1.0f, 17.0f, -0.001f, 0.0f});
  EXPECT_EQ(one.local, std::vector{1.0f});
  EXPECT_EQ(one.payload(0), (Bytes{0x7e, 7 << 3, 11 << 3, 0x81, 0, 0, 0, 0}));
  EXPECT_THAT(decoded({}, one), ::testing::ElementsAre(448.0f, 1.0f, 16.0f, -0x1p-9f, 0.0f));
}

TEST(Fp8Codec, NearestIsWithinASixteenth) {
  const std::vector<float> g = testing::gaussian(20000, 3);
  const Sent one = sent({}, g);
  const std::vector<float> values = decoded({}, one);
  int num_normal = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const float s = one.local[i / 128];
    if (std::fabs(g[i]) < 0x1p-6f * s) continue;
    ++num_normal;
    EXPECT_LE(std::fabs(values[i] - g[i]), std::fabs(g[i]) * 0x1.0001p-4f) << i;
  }
  EXPECT_GT(num_normal, 19000);
}

TEST(Fp8Codec, HasOneMeanByEveryAlgorithmAndOnEveryDevice) {
  constexpr ExchangeAlgorithm kOfOwnScalers[] = {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce};
  for (const char* spec : {"fp8", "fp8:rounding=stochastic,block=0"}) testing::expect_one_mean(spec, kOfOwnScalers);
}

TEST(Fp8Codec, RefusesWhatItCannotDo) {
  EXPECT_THROW(make_codec("fp8:block=100", {}), InvalidArgument);
  EXPECT_THROW(make_codec("fp8:sharing=max", {}), InvalidArgument);
  EXPECT_THROW(Fp8Codec({.num_workers = 0}), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::fp8_codec_test
