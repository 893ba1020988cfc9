#include "compress/codecs/onebit_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "compress/plan/codec_plan.h"
#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"
#include "support/codec_messages.h"
#include "support/exchanges.h"
#include "support/gradients.h"

namespace terngrad::onebit_codec_test {
namespace {

using reference::Bytes;
using ::testing::ElementsAre;
using testing::send;
using testing::Sent;
using testing::Tensors;

Sent sent(const OnebitOptions& options, const std::vector<float>& values) {
  Layout layout;
  layout.add("w", {static_cast<std::int64_t>(values.size())});
  const Slice whole{0, 0, static_cast<std::int64_t>(values.size())};
  return send(OnebitCodec(options), layout, Tensors(layout, {values}), 0, {whole});
}

std::vector<float> decoded(const OnebitOptions& options, const Sent& sent) {
  std::vector<float> values(static_cast<std::size_t>(sent.slices[0].slice.count));
  OnebitCodec(options).decode(sent.slices[0], values);
  return values;
}

TEST(OnebitCodec, GoldenBytes) {
  const std::vector<float> g = {1, -2, 3, -4, -5, 6, -0.0f, 0};
  const OnebitOptions layer{.group = OnebitGroup::kLayer};
  const Sent whole = sent(layer, g);
  EXPECT_THAT(whole.local, ElementsAre(2.75f, 2.5f));
  EXPECT_EQ(whole.payload(0), (Bytes{0b01011010, 0, 0, 0}));
  EXPECT_THAT(decoded(layer, whole), ElementsAre(2.5f, -2.75f, 2.5f, -2.75f, -2.75f, 2.5f, -2.75f, 2.5f));
  const OnebitOptions columns{.columns = 2};
  const Sent of_columns = sent(columns, g);
  EXPECT_THAT(of_columns.local, ElementsAre(2.5f, 2.0f, 3.0f, 3.0f));
  EXPECT_EQ(of_columns.payload(0), whole.payload(0));
  EXPECT_THAT(decoded(columns, of_columns), ElementsAre(2, -3, 2, -3, -2.5f, 3, -2.5f, 3));
}

TEST(OnebitCodec, WritesPlusWhereAGroupHasNoScalers) {
  // The values of the second column are below the smallest scaler.
  const float tiny = -0x1p-100f;
  const Sent one = sent({.columns = 2}, {-1, tiny, 1, tiny, -3, -0.0f});
  EXPECT_THAT(one.local, ElementsAre(2, 1, 0, 0));
  EXPECT_EQ(one.payload(0), (Bytes{0b00010001, 0, 0, 0}));
}

TEST(OnebitCodec, ErrsByWhatItsSidesSay) {
  // The error on a Gaussian is (1 - 2 / pi) |g|^2.
  const std::vector<float> g = testing::gaussian(200000, 7);
  for (const OnebitOptions& options : {OnebitOptions{.columns = 100}, OnebitOptions{.group = OnebitGroup::kLayer},
                                       OnebitOptions{.group = OnebitGroup::kBlock, .block_elements = 4096}}) {
    const std::vector<float> values = decoded(options, sent(options, g));
    double error = 0;
    double squares = 0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      const double e = static_cast<double>(values[i]) - static_cast<double>(g[i]);
      error += e * e;
      squares += static_cast<double>(g[i]) * static_cast<double>(g[i]);
    }
    EXPECT_NEAR(error / squares, 1 - 2 / std::numbers::pi, 0.005) << OnebitCodec(options).options_text();
  }
}

TEST(OnebitCodec, FlagsAWholeTensor) {
  std::vector<float> g(300, -1.0f);
  g[5] = std::numeric_limits<float>::infinity();
  const Sent one = sent({.columns = 100}, g);
  for (const float scaler : one.local) EXPECT_TRUE(std::isnan(scaler));
  EXPECT_EQ(one.payload(0), Bytes(40, 0));
  for (const float value : decoded({.columns = 100}, one)) EXPECT_EQ(value, 0.0f);
}

TEST(OnebitCodec, IsOneForTensorsOfEachLastDimension) {
  Layout layout;
  layout.add("a", {20, 5});
  layout.add("b", {7});
  layout.add("c", {3, 3, 5});
  layout.add("d", {5, 20});
  CodecPlanOptions options;
  options.codec = "onebit";
  const CodecPlan plan(layout, options);
  ASSERT_EQ(plan.groups().size(), 3U);
  EXPECT_EQ(plan.group_of(0), plan.group_of(2));
  EXPECT_EQ(plan.num_scalers(), 10 + 2 + 10 + 40);
  const std::vector<int> segments = {3, 1};
  const CodecPlan part(plan, layout.select(segments), segments);
  EXPECT_EQ(part.num_scalers(), 40 + 2);
  options.codec = "onebit:group=layer";
  EXPECT_EQ(CodecPlan(layout, options).groups().size(), 1U);
}

TEST(OnebitCodec, HasOneMeanByEveryAlgorithmAndOnEveryDevice) {
  constexpr ExchangeAlgorithm kOfOwnScalers[] = {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce};
  for (const char* spec : {"onebit", "onebit:group=layer", "onebit:group=block,block=192"}) {
    testing::expect_one_mean(spec, kOfOwnScalers);
  }
}

TEST(OnebitCodec, RefusesWhatItCannotDo) {
  EXPECT_THROW(make_codec("onebit:group=block,block=100", {}), InvalidArgument);
  EXPECT_THROW(make_codec("onebit:group=block,block=0", {}), InvalidArgument);
  EXPECT_THROW(make_codec("onebit:block=64", {}), InvalidArgument);
  EXPECT_THROW(OnebitCodec({.columns = -1}), InvalidArgument);
  EXPECT_THROW(OnebitCodec({.num_workers = 0}), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::onebit_codec_test
