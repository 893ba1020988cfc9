#include "compress/codecs/powersgd_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "compress/plan/codec_registry.h"
#include "kernels/factors/factor_draws.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"
#include "support/codec_conformance.h"

namespace terngrad::powersgd_codec_test {
namespace {

using reference::Bytes;
using testing::Sent;
using testing::Tensors;

Sent sent(const PowerSgdCodec& codec, const std::vector<float>& values, std::int64_t columns) {
  Layout layout;
  const auto count = static_cast<std::int64_t>(values.size());
  layout.add("w", {count / columns, columns});
  return testing::send(codec, layout, Tensors(layout, {values}), 0, {{0, 0, count}}, {}, PayloadForm::kNatural, 1, 3);
}

std::vector<float> decoded(const PowerSgdCodec& codec, const Sent& message) {
  std::vector<float> values(static_cast<std::size_t>(message.slices[0].slice.count));
  codec.decode(message.slices[0], values);
  return values;
}

TEST(PowerSgdCodec, KeepsWhatAllCodecsPromise) {
  for (const std::int64_t columns : {0, 1, 15, 100, 4500}) {
    for (const int rank : {1, 4}) {
      for (const ElementType factors : {ElementType::kFloat32, ElementType::kBfloat16}) {
        // bf16 factors are tested with the other ranks.
        if (rank == 4 && factors == ElementType::kBfloat16) continue;
        testing::check_codec([=](int num_workers) {
          return std::make_unique<PowerSgdCodec>(
              PowerSgdOptions{.rank = rank, .factors = factors, .columns = columns, .num_workers = num_workers});
        });
      }
    }
  }
}

TEST(PowerSgdCodec, GoldenBytesOfAnOuterProduct) {
  // Rank 1, for every initial Q: P = +-(0.6, 0.8, 0 ...), Q = +-5 (1, 2, 0 ...).
  const PowerSgdCodec codec({.rank = 1, .columns = 8});
  std::vector<float> m(64, 0.0f);
  m[0] = 3;
  m[1] = 6;
  m[8] = 4;
  m[9] = 8;
  const Sent message = sent(codec, m, 8);
  ASSERT_EQ(message.payload(0).size(), 4u * 16);
  std::vector<float> factors(16);
  std::memcpy(factors.data(), message.payload(0).data(), 64);
  const float sign = factors[0] < 0 ? -1.0f : 1.0f;
  std::vector<float> expected(16, 0.0f);
  expected[0] = sign * 0.6f;
  expected[1] = sign * 0.8f;
  expected[8] = sign * 5;
  expected[9] = sign * 10;
  for (std::size_t i = 0; i < 16; ++i) EXPECT_NEAR(factors[i], expected[i], 2e-6f) << i;
  const std::vector<float> back = decoded(codec, message);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_NEAR(back[i], m[i], 1e-5f) << i;
}

TEST(PowerSgdCodec, TensorsWithoutSmallerFactorsTravelAsTheyAre) {
  const PowerSgdCodec codec({.rank = 4, .columns = 8});
  EXPECT_FALSE(codec.takes(64));
  EXPECT_FALSE(codec.takes(0));
  EXPECT_FALSE(PowerSgdCodec({.columns = 0}).takes(1 << 20));
  EXPECT_TRUE(PowerSgdCodec({.rank = 1, .columns = 8}).takes(64));
  EXPECT_FALSE(PowerSgdCodec({.rank = 1, .columns = 8}).takes(65)) << "no whole rows";
  const std::vector<float> m = testing::gaussian(64, 3);
  const Sent message = sent(codec, m, 8);
  EXPECT_EQ(decoded(codec, message), m);
}

TEST(PowerSgdCodec, GoldenBytesOfFactorsInBfloat16) {
  const PowerSgdCodec codec({.rank = 1, .factors = ElementType::kBfloat16, .columns = 9});
  std::vector<float> m(72, 0.0f);
  m[0] = 3;
  m[1] = 6;
  m[9] = 4;
  m[10] = 8;
  const Sent message = sent(codec, m, 9);
  ASSERT_EQ(message.payload(0).size(), 36u) << "17 factors of 2 bytes, filled up";
  std::vector<std::uint16_t> factors(18);
  std::memcpy(factors.data(), message.payload(0).data(), 36);
  const float sign = factors[0] >> 15 != 0 ? -1.0f : 1.0f;
  std::vector<float> expected(18, 0.0f);
  expected[0] = sign * 0.6f;
  expected[1] = sign * 0.8f;
  expected[8] = sign * 5;
  expected[9] = sign * 10;
  // P is rounded twice; Q once, and includes the error of P.
  for (std::size_t i = 0; i < 18; ++i) {
    EXPECT_NEAR(from_bfloat16(factors[i]), expected[i], 0.01f * std::abs(expected[i])) << i;
  }
  const std::vector<float> back = decoded(codec, message);
  for (std::size_t i = 0; i < 72; ++i) {
    EXPECT_EQ(back[i], from_bfloat16(factors[i / 9]) * from_bfloat16(factors[8 + i % 9])) << i;
  }
  // Ranges within a row and across rows.
  for (const std::int64_t first : {0, 4, 8, 9, 40}) {
    for (const std::int64_t count : {1, 5, 20}) {
      std::vector<float> range(static_cast<std::size_t>(count));
      codec.decode_range(message.slices[0], first, range);
      EXPECT_EQ(range, std::vector<float>(back.begin() + first, back.begin() + first + count)) << first;
    }
  }
}

TEST(PowerSgdCodec, PeersAreToldOfFactorsInBfloat16Only) {
  EXPECT_EQ(PowerSgdCodec({.rank = 3, .num_workers = 2}).options_text(),
            "rank=3 min_ratio=2 warm_start=true workers=2");
  EXPECT_EQ(PowerSgdCodec({.factors = ElementType::kBfloat16, .num_workers = 2}).options_text(),
            "rank=4 min_ratio=2 warm_start=true factors=bf16 workers=2");
}

TEST(PowerSgdCodec, DrawnFactorsHaveTheirMomentsAndNumbers) {
  const DrawKey key{5, 9, 0, DrawPurpose::kFactorInit};
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 20000;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const auto value = static_cast<double>(draw_factor_element(key, i));
    double expected = -131070;
    for (std::uint64_t d = 4 * i; d < 4 * i + 4; ++d) expected += draw16(key, d);
    ASSERT_EQ(value, expected / 65536);
    sum += value;
    squares += value * value;
  }
  // Sum of four uniform numbers with variance 1/12 each.
  EXPECT_NEAR(sum / kDraws, 0, 6 * std::sqrt(1.0 / 3 / kDraws));
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.02);
}

TEST(PowerSgdCodec, WhatIsNotFiniteIsFlaggedAndZeros) {
  const PowerSgdCodec codec({.rank = 1, .columns = 8});
  std::vector<float> m = testing::gaussian(64, 3);
  m[20] = std::numeric_limits<float>::quiet_NaN();
  const Sent message = sent(codec, m, 8);
  EXPECT_TRUE(std::isnan(message.local[0]));
  EXPECT_EQ(decoded(codec, message), std::vector<float>(64, 0.0f));
}

TEST(PowerSgdCodec, RefusesWhatItCannotDo) {
  EXPECT_THROW(PowerSgdCodec({.rank = 0}), InvalidArgument);
  EXPECT_THROW(PowerSgdCodec({.rank = 33}), InvalidArgument);
  EXPECT_THROW(PowerSgdCodec({.min_ratio = 0.5}), InvalidArgument);
  EXPECT_THROW(PowerSgdCodec({.columns = -1}), InvalidArgument);
  EXPECT_THROW(PowerSgdCodec({.num_workers = 0}), InvalidArgument);
  EXPECT_THROW(make_codec("powersgd:rank=64", {}), InvalidArgument);
  EXPECT_THROW(make_codec("powersgd:factors=fp16", {}), InvalidArgument);
  EXPECT_THROW(PowerSgdCodec({.factors = ElementType::kFloat16}), InvalidArgument);
  const PowerSgdCodec codec({.rank = 1, .columns = 8});
  const Sent message = sent(codec, testing::gaussian(64, 3), 8);
  EncodedSlice other = message.slices[0];
  other.format = 0;
  EXPECT_THROW(codec.check(other), CommunicationError);
  other = message.slices[0];
  other.payload = other.payload.first(60);
  EXPECT_THROW(codec.check(other), CommunicationError);
  const PowerSgdCodec odd({.rank = 1, .factors = ElementType::kBfloat16, .columns = 9});
  const Sent filled_up = sent(odd, testing::gaussian(72, 3), 9);
  Bytes payload = filled_up.payload(0);
  payload.back() = 1;
  other = filled_up.slices[0];
  other.payload = payload;
  EXPECT_THROW(odd.check(other), CommunicationError);
}

}  // namespace
}  // namespace terngrad::powersgd_codec_test
