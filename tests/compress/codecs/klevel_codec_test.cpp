#include "compress/codecs/klevel_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/codec_conformance.h"

namespace terngrad::klevel_codec_test {
namespace {

using reference::Bytes;
using testing::Sent;
using testing::Tensors;

Sent sent(const KLevelCodec& codec, const std::vector<float>& values, std::uint64_t step = 3) {
  Layout layout;
  layout.add("w", {static_cast<std::int64_t>(values.size())});
  const Slice whole{0, 0, static_cast<std::int64_t>(values.size())};
  return testing::send(codec, layout, Tensors(layout, {values}), 0, {whole}, {}, PayloadForm::kNatural, 1, step);
}

std::vector<float> decoded(const KLevelCodec& codec, const Sent& message) {
  std::vector<float> values(static_cast<std::size_t>(message.slices[0].slice.count));
  codec.decode(message.slices[0], values);
  return values;
}

TEST(KLevelCodec, KeepsWhatAllCodecsPromise) {
  for (const int bits : {1, 2, 4}) {
    testing::check_codec([bits](int num_workers) {
      return std::make_unique<KLevelCodec>(KLevelOptions{.bits = bits, .num_workers = num_workers});
    });
  }
}

TEST(KLevelCodec, GoldenBytes) {
  // Levels are themselves and no draw moves them: of s = 3 they are 3, 1, -1 and -3, codes 0 to 3.
  const KLevelCodec codec({.bits = 2});
  const std::vector<float> g = {3.0f, 1.0f, -1.0f, -3.0f, 1.0f};
  const Sent message = sent(codec, g);
  EXPECT_EQ(message.local, std::vector{3.0f});
  EXPECT_EQ(message.payload(0), (Bytes{0xe4, 0x01, 0, 0}));
  EXPECT_EQ(decoded(codec, message), g);
}

TEST(KLevelCodec, VarianceIsThatOfTheTwoLevelsAround) {
  constexpr int kDraws = 2000;
  const std::vector<float> g = testing::gaussian(512, 5);
  for (const int bits : {1, 2, 4}) {
    const KLevelCodec codec({.bits = bits});
    const double top = (1 << bits) - 1;
    double expected = 0;
    double found = 0;
    for (std::uint64_t step = 0; step < kDraws; ++step) {
      const Sent message = sent(codec, g, step);
      const auto s = static_cast<double>(message.local[0]);
      const std::vector<float> values = decoded(codec, message);
      for (std::size_t i = 0; i < g.size(); ++i) {
        const double x = (1 - static_cast<double>(g[i]) / s) * top / 2;
        const double f = x - std::floor(x);
        expected += 4 * s * s / (top * top) * f * (1 - f);
        found += std::pow(static_cast<double>(values[i]) - static_cast<double>(g[i]), 2);
      }
    }
    EXPECT_NEAR(found / expected, 1, 0.01) << bits;
  }
}

TEST(KLevelCodec, WhatIsNotFiniteIsFlaggedAndZeros) {
  const KLevelCodec codec({.bits = 2});
  const Sent message = sent(codec, {1.0f, std::numeric_limits<float>::infinity()});
  EXPECT_TRUE(std::isnan(message.local[0]));
  EXPECT_EQ(decoded(codec, message), (std::vector{0.0f, 0.0f}));
}

TEST(KLevelCodec, RefusesWhatItCannotDo) {
  EXPECT_THROW(KLevelCodec({.bits = 3}), InvalidArgument);
  EXPECT_THROW(KLevelCodec({.num_workers = 0}), InvalidArgument);
  SpecReader reader(parse_codec_spec("klevel:bits=8"));
  EXPECT_THROW(read_klevel_options(reader), InvalidArgument);
  const Sent message = sent(KLevelCodec({.bits = 2}), {1.0f, 2.0f});
  EncodedSlice damaged = message.slices[0];
  const Bytes unused_bit = {0, 0, 0, 0x80};
  damaged.payload = unused_bit;
  EXPECT_THROW(KLevelCodec({.bits = 2}).check(damaged), CommunicationError);
}

}  // namespace
}  // namespace terngrad::klevel_codec_test
