#include "compress/exchange/downlink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <random>

#include "compress/codecs/ternary_spec.h"
#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/gradients.h"
#include "support/reference.h"

namespace terngrad::downlink_test {
namespace {

using testing::bits_of;
using testing::blank_tensors;
using testing::Tensors;

constexpr int kWorkers = 5;
constexpr std::uint64_t kSeed = 11;
constexpr DownlinkCodec kDownlinkCodecs[] = {DownlinkCodec::kFloat32, DownlinkCodec::kBfloat16, DownlinkCodec::kSums,
                                             DownlinkCodec::kTernary};

Layout small_layout() {
  Layout layout;
  layout.add("big", {20000});
  layout.add("empty", {0});
  layout.add("plain", {33});  // sent as fp32
  layout.add("few", {7});
  return layout;
}

CodecPlanOptions plan_options(const TernaryOptions& ternary = {}) {
  CodecPlanOptions options;
  options.rules = {{"plain", "fp32"}};
  options.codec = ternary_spec(ternary);
  options.context.num_workers = kWorkers;
  return options;
}

/// Integer sums of kWorkers codes: mostly small, sometimes any value.
std::vector<float> random_sums(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> sums(count);
  for (float& sum : sums) {
    int total = 0;
    for (int w = 0; w < kWorkers; ++w) total += static_cast<int>(random() % 3) - 1;
    sum = static_cast<float>(total);
  }
  return sums;
}

/// Downlink of several parts, with inputs and results.
struct Leg {
  Layout layout = small_layout();
  CodecPlan plan;
  using Parts = std::vector<std::vector<Slice>>;
  Parts parts;
  Downlink leg;
  std::vector<float> shared;
  std::vector<std::uint32_t> max;
  MessageContext context{1, 2, 3};
  std::vector<std::unique_ptr<MessageWriter>> writers;  // per part
  std::vector<Message> messages;                        // per part
  Stream stream{Device::cpu(), 2};

  Leg(DownlinkCodec codec, int num_parts, const TernaryOptions& ternary = {})
      : plan(layout, plan_options(ternary)),
        parts(num_parts == 1 ? Parts{whole_segments(layout)} : shards(layout, num_parts)),
        leg(layout, plan, parts, {.codec = codec, .num_workers = kWorkers, .seed = kSeed}),
        max(static_cast<std::size_t>(plan.num_scalers()), 0u) {
    for (std::int64_t s = 0; s < plan.num_scalers(); ++s) shared.push_back(0.7f + 0.1f * static_cast<float>(s));
  }

  /// Integer sums for the tensors that are aggregated to sums, means for the others.
  Tensors aggregated() const {
    Tensors tensors = testing::gaussian_tensors(layout, 1);
    for (int t = 0; t < layout.num_segments(); ++t) {
      if (leg.forms().unit(t) != AggregateUnit::kSums) continue;
      std::vector<float>& values = tensors.values[static_cast<std::size_t>(t)];
      std::ranges::copy(random_sums(values.size(), static_cast<std::uint64_t>(t) + 1), values.begin());
    }
    return tensors;
  }

  /// Measures all parts, then encodes and reads each of them.
  void encode(const Tensors& tensors) {
    for (std::size_t p = 0; p < parts.size(); ++p) leg.measure(p, tensors.table, max, stream);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      writers.push_back(std::make_unique<MessageWriter>());
      const auto bytes =
          leg.encode(p, static_cast<int>(p), tensors.table, shared, max, context, *writers.back(), stream);
      messages.emplace_back();
      read_message(bytes, MessageKind::kMean, context, layout, messages.back());
    }
  }
  Tensors decoded() {
    Tensors mean = blank_tensors(layout);
    for (std::size_t p = 0; p < parts.size(); ++p) leg.decode(p, messages[p], mean.table, stream);
    return mean;
  }
  Tensors round_trip(const Tensors& tensors) {
    encode(tensors);
    return decoded();
  }
};

TEST(Downlink, Fp32KeepsEveryBit) {
  Leg leg(DownlinkCodec::kFloat32, 3);
  Tensors mean = leg.aggregated();
  mean.values[0][4096] = -0.0f;
  mean.values[0][4097] = 0x1p-149f;
  const Tensors back = leg.round_trip(mean);
  for (std::size_t t = 0; t < 4; ++t) EXPECT_EQ(bits_of(back.values[t]), bits_of(mean.values[t])) << t;
}

TEST(Downlink, Bf16RoundsEveryTensorOnce) {
  Leg leg(DownlinkCodec::kBfloat16, 3);
  const Tensors mean = leg.aggregated();
  const Tensors back = leg.round_trip(mean);
  for (std::size_t t = 0; t < 4; ++t) {
    std::vector<float> expected = mean.values[t];
    for (float& value : expected) value = reference::from_bfloat16(reference::bfloat16(value));
    EXPECT_EQ(bits_of(back.values[t]), bits_of(expected)) << t;
  }
}

TEST(Downlink, SumsAreExactMultiplesOfTheScalerOverTheNumberOfWorkers) {
  Leg leg(DownlinkCodec::kSums, 3);
  const Tensors sums = leg.aggregated();
  const Tensors back = leg.round_trip(sums);
  for (const std::size_t t : {0u, 3u}) {
    const auto s = static_cast<std::size_t>(leg.plan.first_scaler(static_cast<int>(t)));
    const float step = leg.shared[s] / static_cast<float>(kWorkers);
    std::vector<float> expected = sums.values[t];
    for (float& value : expected) value *= step;
    EXPECT_EQ(back.values[t], expected) << t;
  }
  const auto [min, most] = std::ranges::minmax(sums.values[0]);
  EXPECT_EQ(min, -kWorkers);  // all lane values occur
  EXPECT_EQ(most, kWorkers);
}

TEST(Downlink, SumsTravelAsLanesBiasedByTheNumberOfWorkers) {
  Leg leg(DownlinkCodec::kSums, 1);
  const Tensors sums = leg.aggregated();
  leg.encode(sums);
  const std::vector<int> integers(sums.values[0].begin(), sums.values[0].end());
  const EncodedSlice& encoded = leg.messages[0].records[0].encoded;
  EXPECT_EQ(encoded.format, 4);
  EXPECT_EQ(reference::Bytes(encoded.payload.begin(), encoded.payload.end()),
            reference::pack_lanes(integers, kWorkers, kWorkers));
}

TEST(Downlink, SumsOfBlocksTakeTheScalerOfTheirBlock) {
  Leg leg(DownlinkCodec::kSums, 3, {.scope = ScalerScope::kBlock, .block_elements = 1984});
  const Tensors sums = leg.aggregated();
  const Tensors back = leg.round_trip(sums);
  std::vector<float> expected = sums.values[0];
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] *= leg.shared[i / 1984] / static_cast<float>(kWorkers);
  }
  EXPECT_EQ(back.values[0], expected);
}

TEST(Downlink, TernaryMultipliesTheScalerOverNByTheMaxSum) {
  for (const std::int64_t block : {std::int64_t{0}, std::int64_t{1984}}) {
    TernaryOptions ternary;
    if (block > 0) {
      ternary.scope = ScalerScope::kBlock;
      ternary.block_elements = block;
    }
    Leg leg(DownlinkCodec::kTernary, 3, ternary);
    Tensors sums = leg.aggregated();
    for (float& sum : sums.values[0]) sum = std::clamp(sum, -3.0f, 3.0f);  // the maximum of each run is 3, not N
    const Tensors back = leg.round_trip(sums);
    const auto length = block == 0 ? std::size_t{20000} : static_cast<std::size_t>(block);
    for (std::size_t i = 0; i < 20000; ++i) {
      const float step = leg.shared[i / length] / static_cast<float>(kWorkers);
      const float factor = step * 3.0f;
      const float value = back.values[0][i];
      const float k = sums.values[0][i];
      ASSERT_TRUE(value == 0 || bits_of(std::fabs(value)) == bits_of(factor)) << i << ": " << value;
      ASSERT_TRUE(value == 0 || (value < 0) == (k < 0)) << i << ": " << value << " for " << k;
      ASSERT_TRUE(k != 0 || value == 0) << i;
      ASSERT_TRUE(std::fabs(k) != 3 || value != 0) << i;
    }
  }
}

TEST(Downlink, TernaryIsUnbiased) {
  Leg leg(DownlinkCodec::kTernary, 1);
  const Tensors sums = leg.aggregated();
  const Tensors back = leg.round_trip(sums);
  // A fraction |k| / m of the elements with sum k is non-zero.
  std::array<double, kWorkers + 1> met{};
  std::array<double, kWorkers + 1> nonzero{};
  for (std::size_t i = 0; i < 20000; ++i) {
    const auto k = static_cast<std::size_t>(std::fabs(sums.values[0][i]));
    ++met[k];
    if (back.values[0][i] != 0) ++nonzero[k];
  }
  for (std::size_t k = 1; k < kWorkers; ++k) {
    ASSERT_GT(met[k], 500) << k;
    const double p = static_cast<double>(k) / kWorkers;
    EXPECT_NEAR(nonzero[k] / met[k], p, 5 * std::sqrt(p * (1 - p) / met[k])) << k;
  }
}

TEST(Downlink, TernaryDrawsAreThoseOfTheDownlinkAndWorkerZero) {
  Leg leg(DownlinkCodec::kTernary, 1);
  leg.context.step = 11;  // this step has a tie that the refinement decides
  const Tensors sums = leg.aggregated();
  leg.encode(sums);
  const std::vector<float> most = {kWorkers};
  const auto codes = [&](std::uint32_t refine_purpose) {
    return reference::ternarize(sums.values[0], {0, 0, 0, refine_purpose}, most, {}, {kSeed, leg.context.step, 0, 3});
  };
  ASSERT_NE(codes(4), codes(2));
  const auto payload = leg.messages[0].records[0].encoded.payload;
  EXPECT_EQ(reference::Bytes(payload.begin(), payload.end()), reference::pack_t2(codes(4)));
}

TEST(Downlink, AllPartsTogetherEqualOneWholePart) {
  for (const DownlinkCodec codec : kDownlinkCodecs) {
    for (const TernaryFormat format : {TernaryFormat::kT2, TernaryFormat::kTMask, TernaryFormat::kTrans}) {
      for (const ScalerScope scope : {ScalerScope::kLayer, ScalerScope::kBlock}) {
        const TernaryOptions ternary{.scope = scope, .block_elements = 6400, .format = format};
        Leg whole(codec, 1, ternary);
        Leg parts(codec, 4, ternary);
        Tensors aggregated = whole.aggregated();
        const Tensors expected = whole.round_trip(aggregated);
        const Tensors found = parts.round_trip(aggregated);
        for (std::size_t t = 0; t < 4; ++t) {
          EXPECT_EQ(bits_of(found.values[t]), bits_of(expected.values[t])) << to_string(codec) << " tensor " << t;
        }
      }
    }
  }
}

TEST(Downlink, MeasureKeepsTheMaxOfAllParts) {
  Leg leg(DownlinkCodec::kTernary, 3);
  Tensors sums = leg.aggregated();
  std::ranges::fill(sums.values[0], 1.0f);
  sums.values[0][0] = -4.0f;  // in the first part only
  for (std::size_t p = 0; p < 3; ++p) leg.leg.measure(p, sums.table, leg.max, leg.stream);
  EXPECT_EQ(std::bit_cast<float>(leg.max[0]), 4.0f);
  EXPECT_EQ(leg.max[1], 0u);  // the tensor sent as fp32
  std::ranges::fill(leg.max, bits_of(5.0f));
  for (std::size_t p = 0; p < 3; ++p) leg.leg.measure(p, sums.table, leg.max, leg.stream);
  EXPECT_EQ(std::bit_cast<float>(leg.max[0]), 5.0f);
}

TEST(Downlink, AllSumsZeroGiveZeros) {
  Leg leg(DownlinkCodec::kTernary, 3);
  Tensors sums = leg.aggregated();
  std::ranges::fill(sums.values[0], 0.0f);
  EXPECT_THAT(leg.round_trip(sums).values[0], ::testing::Each(0.0f));
}

TEST(Downlink, TensorsThatCannotBeSummedKeepEveryBitBesideCodes) {
  for (const DownlinkCodec codec : {DownlinkCodec::kSums, DownlinkCodec::kTernary}) {
    Leg leg(codec, 3);
    const Tensors aggregated = leg.aggregated();
    EXPECT_EQ(bits_of(leg.round_trip(aggregated).values[2]), bits_of(aggregated.values[2])) << to_string(codec);
  }
}

TEST(Downlink, TakesAnEmptyTensorWithoutAnAddress) {
  Layout layout;
  layout.add("empty", {0});
  CodecPlanOptions options;
  options.size_to_binarize = 0;
  const CodecPlan plan(layout, options);
  const std::vector<float*> nowhere = {nullptr};
  const TensorTable table(layout, nowhere);
  for (const DownlinkCodec codec : kDownlinkCodecs) {
    Downlink leg(layout, plan, {whole_segments(layout)}, {.codec = codec});
    Stream stream;
    MessageWriter writer;
    Message message;
    leg.measure(0, table, {}, stream);
    read_message(leg.encode(0, 0, table, {}, {}, {}, writer, stream), MessageKind::kMean, {}, layout, message);
    EXPECT_NO_THROW(leg.decode(0, message, table, stream)) << to_string(codec);
  }
}

TEST(Downlink, RefusesTheMessageOfAnotherPart) {
  for (const DownlinkCodec codec : kDownlinkCodecs) {
    Leg leg(codec, 3);
    leg.encode(leg.aggregated());
    Tensors mean = blank_tensors(leg.layout);
    EXPECT_NO_THROW(leg.leg.decode(1, leg.messages[1], mean.table, leg.stream));
    EXPECT_THROW(leg.leg.decode(0, leg.messages[1], mean.table, leg.stream), CommunicationError) << to_string(codec);
    EXPECT_THROW(leg.leg.decode(2, leg.messages[1], mean.table, leg.stream), CommunicationError) << to_string(codec);
  }
}

TEST(Downlink, RefusesTheMessageOfAnotherDownlinkCodec) {
  for (const DownlinkCodec codec : kDownlinkCodecs) {
    Leg sender(codec, 3);
    sender.encode(sender.aggregated());
    for (const DownlinkCodec other : kDownlinkCodecs) {
      if (other == codec) continue;
      Leg receiver(other, 3);
      Tensors mean = blank_tensors(receiver.layout);
      EXPECT_THROW(receiver.leg.decode(0, sender.messages[0], mean.table, receiver.stream), CommunicationError)
          << to_string(codec) << " to " << to_string(other);
    }
  }
}

TEST(Downlink, RefusesARecordOfAnotherCodecOrFormat) {
  for (const DownlinkCodec codec : kDownlinkCodecs) {
    Leg leg(codec, 1);
    leg.encode(leg.aggregated());
    Tensors mean = blank_tensors(leg.layout);
    Message format = leg.messages[0];
    format.records[0].encoded.format ^= 1;
    EXPECT_THROW(leg.leg.decode(0, format, mean.table, leg.stream), CommunicationError) << to_string(codec);
    Message wire_id = leg.messages[0];
    wire_id.records[0].codec ^= 1;
    EXPECT_THROW(leg.leg.decode(0, wire_id, mean.table, leg.stream), CommunicationError) << to_string(codec);
  }
}

TEST(Downlink, RefusesAMessageWithAnotherNumberOfScalers) {
  Leg sender(DownlinkCodec::kSums, 1, {.scope = ScalerScope::kBlock, .block_elements = 64});
  Leg receiver(DownlinkCodec::kSums, 1);
  sender.encode(sender.aggregated());
  Tensors mean = blank_tensors(receiver.layout);
  EXPECT_THROW(receiver.leg.decode(0, sender.messages[0], mean.table, receiver.stream), CommunicationError);
}

TEST(Downlink, RefusesScalersThatNoMeanCanHave) {
  for (const DownlinkCodec codec : {DownlinkCodec::kSums, DownlinkCodec::kTernary}) {
    for (const float scaler : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -1.0f,
                               std::numeric_limits<float>::max()}) {
      Leg leg(codec, 1);
      leg.encode(leg.aggregated());
      leg.messages[0].records[0].encoded.scalers = {&scaler, 1};
      Tensors mean = blank_tensors(leg.layout);
      EXPECT_THROW(leg.leg.decode(0, leg.messages[0], mean.table, leg.stream), CommunicationError)
          << to_string(codec) << ' ' << scaler;
    }
  }
}

TEST(Downlink, RefusesACodeThatNeverOccurs) {
  Leg leg(DownlinkCodec::kTernary, 1);
  leg.encode(leg.aggregated());
  EncodedSlice& encoded = leg.messages[0].records[0].encoded;
  alignas(8) std::array<std::uint8_t, 5000> bytes{};
  ASSERT_EQ(encoded.payload.size(), bytes.size());
  std::ranges::copy(encoded.payload, bytes.begin());
  bytes[4999] = 0x80;  // sign bit of a zero
  encoded.payload = bytes;
  Tensors mean = blank_tensors(leg.layout);
  EXPECT_THROW(leg.leg.decode(0, leg.messages[0], mean.table, leg.stream), CommunicationError);
}

TEST(DownlinkCodecText, NamesAll) {
  EXPECT_EQ(to_string(DownlinkCodec::kFloat32), "fp32");
  EXPECT_EQ(to_string(DownlinkCodec::kBfloat16), "bf16");
  EXPECT_EQ(to_string(DownlinkCodec::kSums), "sums");
  EXPECT_EQ(to_string(DownlinkCodec::kTernary), "ternary");
  EXPECT_THROW(to_string(static_cast<DownlinkCodec>(9)), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::downlink_test
