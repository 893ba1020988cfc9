#include "compress/codecs/float_codecs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler.h"
#include "support/bits.h"
#include "support/codec_messages.h"
#include "support/gradients.h"
#include "support/reference.h"

namespace terngrad::float_codecs_test {
namespace {

using reference::Bytes;
using testing::aggregated;
using testing::bits_of;
using ::testing::Each;
using testing::gaussian;
using testing::Tensors;

using Width = FloatCodec::Width;
constexpr Width kWidths[] = {Width::kFloat32, Width::kBfloat16};

/// Signed zeros, denormals, the extremes, and non-finite values.
std::vector<float> special_values() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return {0.0f, -0.0f, 0x1p-149f, -0x1p-130f, 0x1.fffffep127f, -0x1.fffffep127f, kInfinity, -kInfinity, 1.0f, -1.5f};
}

/// One worker's payload of a tensor.
struct Sent {
  std::vector<std::uint64_t> words;
  EncodedSlice slice;

  Bytes payload() const { return {slice.payload.begin(), slice.payload.end()}; }
};

/// Encodes a slice of a tensor. @param local  local scaler
Sent send(const FloatCodec& codec, std::vector<float> values, Slice slice, float local = 0) {
  Layout layout;
  layout.add("w", {static_cast<std::int64_t>(values.size())});
  const Tensors tensors(layout, {std::move(values)});
  Sent sent;
  const auto bytes = static_cast<std::size_t>(codec.max_payload_bytes(slice, PayloadForm::kNatural));
  sent.words.assign((bytes + 7) / 8, ~std::uint64_t{0});  // canary for bytes that encode leaves unwritten
  PayloadSlots slots{
      .encoded = {slice}, .outgoing = {reinterpret_cast<std::uint8_t*>(sent.words.data())}, .outgoing_bytes = {0}};
  Stream stream(Device::cpu(), 2);
  const auto coder = codec.make_coder({.layout = layout}, {0}, slots);
  std::ranges::fill(coder->local_row(0), local);
  coder->encode({&tensors.table, 1}, {}, stream);
  sent.slice = {.slice = slice,
                .format = 0,
                .scalers = {},
                .payload = {slots.outgoing[0], static_cast<std::size_t>(slots.outgoing_bytes[0])}};
  return sent;
}

Sent send(const FloatCodec& codec, const std::vector<float>& values, float local = 0) {
  return send(codec, values, {0, 0, static_cast<std::int64_t>(values.size())}, local);
}

Bytes bytes_of(std::span<const float> values) {
  Bytes bytes;
  for (const float value : values) reference::append32(bytes, bits_of(value));
  return bytes;
}

Bytes halves_of(std::span<const float> values) {
  Bytes bytes;
  for (const float value : values) {
    const std::uint16_t half = reference::bfloat16(value);
    bytes.push_back(static_cast<std::uint8_t>(half & 0xff));
    bytes.push_back(static_cast<std::uint8_t>(half >> 8));
  }
  while (bytes.size() % 4 != 0) bytes.push_back(0);
  return bytes;
}

TEST(FloatCodec, Fp32SendsTheBytesOfTheGradient) {
  const FloatCodec codec(Width::kFloat32, 1);
  std::vector<float> values = special_values();
  for (const float value : gaussian(70001, 1)) values.push_back(value);  // more than one thread's share
  EXPECT_EQ(send(codec, values).payload(), bytes_of(values));
}

TEST(FloatCodec, Bf16RoundsToNearestTiesToEven) {
  const FloatCodec codec(Width::kBfloat16, 1);
  std::vector<float> values = special_values();
  values.insert(values.end(), {0x1.01p0f, 0x1.03p0f, 0x1.010002p0f, -0x1.01p0f});  // ties, and just above a tie
  const Bytes payload = send(codec, values).payload();
  EXPECT_EQ(payload, halves_of(values));
  const Bytes ties(payload.begin() + 20, payload.end());
  EXPECT_EQ(ties, (Bytes{0x80, 0x3f, 0x82, 0x3f, 0x81, 0x3f, 0x80, 0xbf}));
}

TEST(FloatCodec, Bf16FillsOddCountsUpWithZeros) {
  const FloatCodec codec(Width::kBfloat16, 1);
  for (const std::size_t count : {1u, 2u, 3u, 15u, 16u, 17u, 4097u}) {
    const std::vector<float> values = gaussian(count, count);
    const Bytes payload = send(codec, values).payload();
    EXPECT_EQ(payload.size(), (count + 1) / 2 * 4);
    EXPECT_EQ(payload, halves_of(values)) << count;
  }
}

TEST(FloatCodec, SendsOnlyTheElementsOfTheSlice) {
  const std::vector<float> values = gaussian(9001, 2);
  const std::span<const float> part = std::span(values).subspan(4096, 4905);
  EXPECT_EQ(send(FloatCodec(Width::kFloat32, 1), values, {0, 4096, 4905}).payload(), bytes_of(part));
  EXPECT_EQ(send(FloatCodec(Width::kBfloat16, 1), values, {0, 4096, 4905}).payload(), halves_of(part));
}

TEST(FloatCodec, ANanScalerEncodesZeros) {
  std::vector<float> values = gaussian(101, 3);
  values[50] = std::numeric_limits<float>::quiet_NaN();
  for (const Width width : kWidths) {
    const FloatCodec codec(width, 1);
    const Sent sent = send(codec, values, canonical_nan());
    EXPECT_EQ(sent.payload().size(), width == Width::kFloat32 ? 404u : 204u);
    EXPECT_THAT(sent.payload(), Each(0)) << codec.name();
  }
}

TEST(FloatCodec, MeasuresZeroOrTheFlagOfEachTensor) {
  Layout layout;
  layout.add("finite", {5000});
  layout.add("empty", {0});
  layout.add("infinite", {7});
  layout.add("nan", {4097});
  Tensors tensors = testing::gaussian_tensors(layout, 4);
  tensors.values[2][6] = -std::numeric_limits<float>::infinity();
  tensors.values[3][4096] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> expected = {0.0f, canonical_nan(), canonical_nan()};
  for (const Width width : kWidths) {
    const FloatCodec codec(width, 1);
    EXPECT_EQ(bits_of(testing::measured(codec, layout, tensors)), bits_of(expected));
  }
}

TEST(FloatCodec, HasOneScalerForATensorAndNoneForNothing) {
  const FloatCodec codec(Width::kFloat32, 1);
  EXPECT_EQ(codec.num_scalers(0), 0);
  EXPECT_EQ(codec.num_scalers(1), 1);
  EXPECT_EQ(codec.num_scalers(1 << 20), 1);
  EXPECT_EQ(codec.scaler_range({0, 8192, 10}).first, 0);
  EXPECT_EQ(codec.scaler_range({0, 8192, 10}).count, 1);
  EXPECT_EQ(codec.scaler_range({0, 0, 0}).count, 0);
}

TEST(FloatCodec, OnlyFp32IsUnbiasedAndNeitherIsSummable) {
  EXPECT_TRUE(FloatCodec(Width::kFloat32, 1).traits().unbiased);
  EXPECT_FALSE(FloatCodec(Width::kBfloat16, 1).traits().unbiased);
  for (const Width width : kWidths) EXPECT_FALSE(FloatCodec(width, 1).traits().summable);
  EXPECT_EQ(FloatCodec(Width::kFloat32, 1).traits().bits_per_element, 32.0);
  EXPECT_EQ(FloatCodec(Width::kBfloat16, 1).traits().bits_per_element, 16.0);
}

TEST(FloatCodec, OptionsTextTellsTheNumberOfWorkers) {
  EXPECT_NE(FloatCodec(Width::kFloat32, 1).options_text(), FloatCodec(Width::kFloat32, 2).options_text());
}

TEST(FloatCodec, AggregatesByTheTreeOverWorkersToTheBit) {
  for (const Width width : kWidths) {
    for (const int n : {1, 2, 3, 5, 6, 7, 8, 13}) {
      const FloatCodec codec(width, n);
      std::vector<std::vector<float>> meant;
      std::vector<Sent> sent;
      std::vector<EncodedSlice> messages;
      for (int w = 0; w < n; ++w) {
        // Magnitudes differ, so that another order of additions rounds differently.
        meant.push_back(gaussian(5001, static_cast<std::uint64_t>(w) + 10, std::pow(3.0, w % 4)));
        sent.push_back(send(codec, meant.back()));
        if (width == Width::kBfloat16) {
          for (float& value : meant.back()) value = reference::from_bfloat16(reference::bfloat16(value));
        }
      }
      for (const Sent& worker : sent) messages.push_back(worker.slice);
      std::vector<float> expected(5001);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        std::vector<float> column;
        for (const auto& values : meant) column.push_back(values[i]);
        expected[i] = reference::tree_sum(column) * (1.0f / static_cast<float>(n));
      }
      for (const int num_threads : {1, 3}) {
        EXPECT_EQ(bits_of(aggregated(codec, messages, AggregateUnit::kMean, num_threads)), bits_of(expected))
            << codec.name() << " of " << n;
      }
    }
  }
}

TEST(FloatCodec, DecodesWhatWasSent) {
  const std::vector<float> values = gaussian(4099, 5);
  std::vector<float> rounded = values;
  for (float& value : rounded) value = reference::from_bfloat16(reference::bfloat16(value));
  for (const Width width : kWidths) {
    const FloatCodec codec(width, 4);
    const Sent sent = send(codec, values);
    std::vector<float> decoded(values.size());
    codec.decode(sent.slice, decoded);
    EXPECT_EQ(bits_of(decoded), bits_of(width == Width::kFloat32 ? values : rounded));
  }
}

TEST(FloatCodec, ChecksWhatFillsABf16PayloadUp) {
  const FloatCodec codec(Width::kBfloat16, 1);
  const Sent sent = send(codec, gaussian(3, 6));
  EncodedSlice damaged = sent.slice;
  Bytes copy = sent.payload();  // three elements and two bytes of padding
  damaged.payload = copy;
  EXPECT_NO_THROW(codec.check(damaged));
  copy[7] = 1;
  EXPECT_THROW(codec.check(damaged), CommunicationError);
}

TEST(FloatCodec, RefusesNoWorkers) {
  EXPECT_THROW(FloatCodec(Width::kFloat32, 0), InvalidArgument);
  EXPECT_THROW(FloatCodec(Width::kBfloat16, -1), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::float_codecs_test
