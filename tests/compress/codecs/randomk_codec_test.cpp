#include "compress/codecs/randomk_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "compress/plan/codec_registry.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/codec_messages.h"
#include "support/exchanges.h"
#include "support/gradients.h"

namespace terngrad::randomk_codec_test {
namespace {

using testing::kSeed;
using testing::kStep;
using testing::send;
using testing::Sent;
using testing::Tensors;

Layout layout_of(std::size_t count) {
  Layout layout;
  layout.add("before", {100});  // gives the next tensor a draw offset
  layout.add("w", {static_cast<std::int64_t>(count)});
  return layout;
}

Sent sent_of(const RandomKCodec& codec, const std::vector<float>& values, std::uint64_t step = kStep,
             std::uint32_t worker = 0) {
  const Layout layout = layout_of(values.size());
  const Slice whole{1, 0, static_cast<std::int64_t>(values.size())};
  return send(codec, layout, Tensors(layout, {std::vector<float>(100), values}), worker, {whole}, {},
              PayloadForm::kNatural, 2, step);
}

std::vector<float> decoded(const RandomKOptions& options, const std::vector<float>& values,
                           std::uint64_t step = kStep) {
  const RandomKCodec codec(options);
  const Sent sent = sent_of(codec, values, step);
  codec.check(sent.slices[0]);
  std::vector<float> out(values.size());
  codec.decode(sent.slices[0], out);
  return out;
}

// The definition, draw by draw.
TEST(RandomKCodec, SendsOneDrawnElementOfEachGroup) {
  constexpr std::int64_t kGroup = 8;
  constexpr std::size_t kCount = 9003;
  const std::vector<float> g = testing::gaussian(kCount, 1);
  const std::vector<float> sent = decoded({.density = 0.125}, g);
  const std::vector<float> scaled = decoded({.density = 0.125, .is_unbiased = true}, g);
  constexpr std::uint64_t kOffset = 128;  // 100 elements, rounded up to a multiple of 64
  const auto block = draw_block({kSeed, kStep, 0, DrawPurpose::kSelect}, kOffset / 4);
  const std::uint64_t selection = block[0] | std::uint64_t{block[1]} << 32;
  std::vector<float> expected(kCount);
  std::vector<float> expected_scaled(kCount);
  for (std::int64_t group = 0; group * kGroup < static_cast<std::int64_t>(kCount); ++group) {
    const std::uint64_t r = draw32({selection, 0, 0, DrawPurpose::kSelect}, static_cast<std::uint64_t>(group));
    const auto place = static_cast<std::size_t>(group * kGroup + static_cast<std::int64_t>(r * kGroup >> 32));
    if (place >= kCount) continue;
    expected[place] = g[place];
    expected_scaled[place] = 8 * g[place];
  }
  EXPECT_EQ(sent, expected);
  EXPECT_EQ(scaled, expected_scaled);
}

TEST(RandomKCodec, ChoosesTheSameElementsInAllWorkersAndOthersInEachStep) {
  const RandomKCodec codec(RandomKOptions{.density = 0.1, .num_workers = 2});
  const std::vector<float> ones(5000, 1.0f);
  const Sent first = sent_of(codec, ones);
  EXPECT_EQ(first.payload(0), sent_of(codec, ones, kStep, 1).payload(0));
  std::vector<float> now(ones.size());
  std::vector<float> later(ones.size());
  codec.decode(first.slices[0], now);
  codec.decode(sent_of(codec, ones, kStep + 1).slices[0], later);
  EXPECT_NE(now, later);
}

// Chi-square with 9 degrees of freedom of the position in a group: exceeds 27.9 with probability 0.001.
TEST(RandomKCodec, GivesEveryPlaceTheSameProbability) {
  std::vector<double> counts(10);
  constexpr std::size_t kCount = 5000;
  const std::vector<float> ones(kCount, 1.0f);
  for (std::uint64_t step = 0; step < 40; ++step) {
    const std::vector<float> sent = decoded({.density = 0.1}, ones, step);
    for (std::size_t i = 0; i < kCount; ++i) counts[i % 10] += static_cast<double>(sent[i]);
  }
  double chi_square = 0;
  for (const double count : counts) chi_square += (count - 2000) * (count - 2000) / 2000;
  EXPECT_LT(chi_square, 27.9);
}

TEST(RandomKCodec, HasTheErrorsOfItsScales) {
  const std::vector<float> g = testing::gaussian(1 << 20, 3);
  const auto error_of = [&](const RandomKOptions& options) {
    const std::vector<float> sent = decoded(options, g);
    double error = 0;
    double norm = 0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      error += std::pow(static_cast<double>(sent[i]) - static_cast<double>(g[i]), 2);
      norm += static_cast<double>(g[i]) * static_cast<double>(g[i]);
    }
    return error / norm;
  };
  EXPECT_NEAR(error_of({.density = 0.1}), 0.9, 0.003) << "1 - 1 / q";
  EXPECT_NEAR(error_of({.density = 0.1, .is_unbiased = true}), 9, 0.2) << "q - 1";
  EXPECT_NEAR(error_of({.density = 0.1, .values = SparseValues::kBfloat16}), 0.9, 0.003);
}

TEST(RandomKCodec, SendsNothingOfATensorWithoutElements) {
  EXPECT_EQ(decoded({}, {}), std::vector<float>());
  const RandomKCodec codec(RandomKOptions{});
  const std::uint64_t key = 0;
  const EncodedSlice full{.slice = {0, 0, 0},
                          .format = codec.record_format(PayloadForm::kNatural),
                          .scalers = {},
                          .payload = {reinterpret_cast<const std::uint8_t*>(&key), 8}};
  EXPECT_THROW(codec.check(full), CommunicationError);
}

TEST(RandomKCodec, SendsEverythingWithADensityOfOne) {
  const std::vector<float> g = testing::gaussian(9000, 4);
  EXPECT_EQ(decoded({.density = 1}, g), g);
  EXPECT_EQ(decoded({.density = 1, .is_unbiased = true}, g), g);
}

TEST(RandomKCodec, SendsZerosOfATensorThatIsNotFiniteAsItTravels) {
  const float largest = std::numeric_limits<float>::max();
  const std::vector<float> zeros(3);
  for (const float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_EQ(decoded({.density = 1}, {1, value, 2}), zeros);
  }
  EXPECT_EQ(decoded({.density = 1}, {1, largest, 2}), (std::vector<float>{1, largest, 2}));
  EXPECT_EQ(decoded({.density = 1, .values = SparseValues::kBfloat16}, {1, largest, 2}), zeros);
  // The scaled value, twice the element, overflows.
  EXPECT_EQ(decoded({.density = 0.5, .is_unbiased = true}, {1, largest / 1.5f, 2}), zeros);
  EXPECT_NE(decoded({.density = 0.5, .is_unbiased = true}, {1, largest / 2, 2}), zeros);
}

TEST(RandomKCodec, RefusesValuesOfElementsThatAreNotInTheSlice) {
  const RandomKCodec codec(RandomKOptions{.density = 0.0001220703125});  // 2 groups of 8192 in 9000 elements
  const Sent sent = sent_of(codec, testing::gaussian(9000, 5));
  const EncodedSlice& good = sent.slices[0];
  int num_refused = 0;
  for (std::uint64_t key = 1; key < 40; ++key) {
    std::vector<std::uint64_t> words = sent.words[0];
    words[0] = key;
    const std::vector<float> values = {1, 1};
    std::memcpy(words.data() + 1, values.data(), 8);
    EncodedSlice changed = good;
    changed.payload = {reinterpret_cast<const std::uint8_t*>(words.data()), good.payload.size()};
    const std::uint64_t r = draw32({key, 0, 0, DrawPurpose::kSelect}, 1);
    const bool is_beyond = 8192 + (r * 8192 >> 32) >= 9000;
    num_refused += is_beyond ? 1 : 0;
    if (is_beyond) {
      EXPECT_THROW(codec.check(changed), CommunicationError) << key;
    } else {
      EXPECT_NO_THROW(codec.check(changed)) << key;
    }
  }
  EXPECT_GT(num_refused, 20);
}

TEST(RandomKCodec, AddsWhatOtherStepsChoseToo) {
  const RandomKCodec codec(RandomKOptions{.density = 0.1, .num_workers = 2});
  const std::vector<float> g = testing::gaussian(6000, 6);
  const Sent sent[] = {sent_of(codec, g, kStep, 0), sent_of(codec, g, kStep + 1, 1)};
  std::vector<float> expected(g.size());
  for (const Sent& worker : sent) {
    std::vector<float> out(g.size());
    codec.decode(worker.slices[0], out);
    for (std::size_t i = 0; i < out.size(); ++i) expected[i] += out[i];
  }
  for (float& value : expected) value *= 0.5f;
  EXPECT_EQ(testing::aggregated(codec, {sent[0].slices[0], sent[1].slices[0]}), expected);
}

TEST(RandomKCodec, HasOneMeanByEveryAlgorithmAndOnEveryDevice) {
  constexpr ExchangeAlgorithm kAlgorithms[] = {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce,
                                               ExchangeAlgorithm::kAuto};
  for (const char* spec : {"randomk:density=0.1", "randomk:density=0.0009765625,values=bf16,scale=q"}) {
    testing::expect_one_mean(spec, kAlgorithms);
    testing::expect_one_mean(spec, kAlgorithms, DownlinkCodec::kBfloat16);
  }
}

TEST(RandomKCodec, RefusesWhatItCannotDo) {
  for (const char* spec : {"randomk:density=0", "randomk:density=0.3", "randomk:density=2", "randomk:scale=2",
                           "randomk:values=fp16", "randomk:scope=block"}) {
    EXPECT_THROW(make_codec(spec, {}), InvalidArgument) << spec;
  }
  EXPECT_THROW(RandomKCodec({.num_workers = 0}), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::randomk_codec_test
