#include "compress/transport/downlink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "compress/route/codec_shards.h"
#include "compress/transport/downlink_payloads.h"
#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/exchanges.h"
#include "support/mean_leg.h"
#include "support/reference.h"
#include "support/thread_device_communicator.h"

namespace terngrad::downlink_test {
namespace {

using testing::bits_of;
using testing::blank_tensors;
using testing::kDownlinkCodecs;
using testing::MeanLeg;
using testing::Tensors;

constexpr int kWorkers = MeanLeg::kWorkers;

/// One rank's downlink over payloads in host memory.
struct Leg : MeanLeg {
  DownlinkPayloads payloads;
  DeviceStep step{3, nullptr};

  explicit Leg(DownlinkCodec codec, const TernaryOptions& ternary = {}, bool travels = true, int rank_number = 0,
               int size = 1)
      : MeanLeg(codec, ternary, travels, rank_number, size),
        payloads(layout, plan, forms, {.ranks = ranks, .rank = rank}, Device::cpu()) {
    downlink = std::make_unique<Downlink>(setup, plan, coders, forms, payloads.parts(), /*others_read=*/true);
  }

  /// The mean that the aggregated values become. @param communicator  the leg's ranks; null: one rank
  Tensors run(const Tensors& aggregated, DeviceCommunicator* communicator = nullptr) {
    Tensors mean(layout, aggregated.values);
    downlink->measure(mean.table, stream);
    for (std::size_t group = 0; group < coders.size() && communicator != nullptr; ++group) {
      const std::span<std::uint32_t> maxima = downlink->maxima(group);
      if (!maxima.empty()) communicator->all_reduce_max(maxima, stream);
    }
    downlink->scale(stream);
    downlink->encode(mean.table, step, stream);
    if (communicator != nullptr) payloads.gather(*communicator, stream);
    downlink->decode(mean.table, stream);
    return mean;
  }
  /// Payload of a whole tensor.
  reference::Bytes payload_of(int segment) {
    const auto part = std::ranges::find(payloads.parts(), segment, [](const MeanPart& p) { return p.slice.segment; });
    return {part->incoming, part->incoming + part->bytes};
  }
};

TEST(Downlink, Bf16RoundsEveryTensorOnce) {
  for (const bool travels : {false, true}) {
    Leg leg(DownlinkCodec::kBfloat16, {}, travels);
    const Tensors mean = leg.aggregated();
    const Tensors back = leg.run(mean);
    for (std::size_t t = 0; t < 4; ++t) {
      std::vector<float> expected = mean.values[t];
      for (float& value : expected) value = reference::from_bfloat16(reference::bfloat16(value));
      EXPECT_EQ(bits_of(back.values[t]), bits_of(expected)) << t;
    }
  }
}

TEST(Downlink, SumsAreExactMultiplesOfTheScalerOverTheNumberOfWorkers) {
  Leg leg(DownlinkCodec::kSums);
  const Tensors sums = leg.aggregated();
  const Tensors back = leg.run(sums);
  for (const int t : {0, 3}) {
    const float step = leg.shared(t) / static_cast<float>(kWorkers);
    std::vector<float> expected = sums.values[static_cast<std::size_t>(t)];
    for (float& value : expected) value *= step;
    EXPECT_EQ(back.values[static_cast<std::size_t>(t)], expected) << t;
  }
  const auto [min, most] = std::ranges::minmax(sums.values[0]);
  EXPECT_EQ(min, -kWorkers);  // all lane values occur
  EXPECT_EQ(most, kWorkers);
}

TEST(Downlink, SumsOfBlocksTakeTheScalerOfTheirBlock) {
  Leg leg(DownlinkCodec::kSums, {.scope = ScalerScope::kBlock, .block_elements = 1984});
  const Tensors sums = leg.aggregated();
  const Tensors back = leg.run(sums);
  std::vector<float> expected = sums.values[0];
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= leg.shared(0, i / 1984) / kWorkers;
  EXPECT_EQ(back.values[0], expected);
}

TEST(Downlink, SumsTravelAsLanesBiasedByTheNumberOfWorkers) {
  Leg leg(DownlinkCodec::kSums);
  // One shard per worker: the first one's slice of the first tensor.
  const Tensors sums = leg.aggregated();
  leg.run(sums);
  const MeanPart& part = leg.payloads.parts()[0];
  const std::vector<int> integers(sums.values[0].begin(), sums.values[0].begin() + part.slice.count);
  EXPECT_EQ(leg.payload_of(0), reference::pack_lanes(integers, kWorkers, kWorkers));
}

TEST(Downlink, TernaryMultipliesTheScalerOverNByTheMaxSum) {
  for (const std::int64_t block : {std::int64_t{0}, std::int64_t{1984}}) {
    TernaryOptions ternary;
    if (block > 0) {
      ternary.scope = ScalerScope::kBlock;
      ternary.block_elements = block;
    }
    Leg leg(DownlinkCodec::kTernary, ternary);
    Tensors sums = leg.aggregated();
    for (float& sum : sums.values[0]) sum = std::clamp(sum, -3.0f, 3.0f);  // the maximum of each run is 3, not N
    const Tensors back = leg.run(sums);
    const auto length = block == 0 ? std::size_t{20000} : static_cast<std::size_t>(block);
    for (std::size_t i = 0; i < 20000; ++i) {
      const float step = leg.shared(0, i / length) / static_cast<float>(kWorkers);
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
  Leg leg(DownlinkCodec::kTernary);
  const Tensors sums = leg.aggregated();
  const Tensors back = leg.run(sums);
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
  Leg leg(DownlinkCodec::kTernary, {}, /*travels=*/false);
  leg.step.step = 11;  // this step has a tie that the refinement decides
  const Tensors sums = leg.aggregated();
  leg.run(sums);
  const std::vector<float> most = {kWorkers};
  const auto codes = [&](std::uint32_t refine_purpose) {
    return reference::ternarize(sums.values[0], {0, 0, 0, refine_purpose}, most, {}, {MeanLeg::kSeed, 11, 0, 3});
  };
  ASSERT_NE(codes(4), codes(2));
  EXPECT_EQ(leg.payload_of(0), reference::pack_t2(codes(4)));
}

TEST(Downlink, MeasuresTheLargestSumsOfOwnParts) {
  Leg leg(DownlinkCodec::kTernary);
  Tensors sums = leg.aggregated();
  std::ranges::fill(sums.values[0], 1.0f);
  sums.values[0][19999] = -4.0f;
  leg.downlink->measure(sums.table, leg.stream);
  const auto ternary = static_cast<std::size_t>(leg.plan.group_of(0));
  const auto floats = static_cast<std::size_t>(leg.plan.group_of(2));
  EXPECT_EQ(std::bit_cast<float>(leg.downlink->maxima(ternary)[0]), 4.0f);
  EXPECT_TRUE(leg.downlink->maxima(floats).empty());
}

TEST(Downlink, AllSumsZeroGiveZeros) {
  Leg leg(DownlinkCodec::kTernary);
  Tensors sums = leg.aggregated();
  std::ranges::fill(sums.values[0], 0.0f);
  EXPECT_THAT(leg.run(sums).values[0], ::testing::Each(0.0f));
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
    const CoderSetup setup{.layout = layout};
    PayloadSlots slots;
    std::vector<std::unique_ptr<Coder>> coders;
    coders.push_back(plan.groups()[0].codec->make_coder(setup, {0}, slots));
    const DownlinkForms forms(plan, codec, 1);
    DownlinkPayloads payloads(layout, plan, forms, {.ranks = {WorkerRange{}}}, Device::cpu());
    Downlink leg(setup, plan, coders, forms, payloads.parts(), true);
    Stream stream;
    leg.measure(table, stream);
    leg.scale(stream);
    leg.encode(table, {0, nullptr}, stream);
    EXPECT_NO_THROW(leg.decode(table, stream)) << word_of(codec);
  }
}

/// Expects every rank to get from the others what one rank with all shards gets.
void expect_same_mean(DownlinkCodec codec, const TernaryOptions& ternary) {
  Leg whole(codec, ternary);
  Tensors aggregated = whole.aggregated();
  aggregated.values[2][0] = -0.0f;
  aggregated.values[2][1] = 0x1p-149f;
  const Tensors expected = whole.run(aggregated);
  for (const int size : {1, 2, 3, 5}) {
    const auto errors = testing::run_device_ranks(size, [&](const std::shared_ptr<DeviceCommunicator>& communicator) {
      Leg leg(codec, ternary, true, communicator->rank(), size);
      Tensors own = blank_tensors(leg.layout);
      for (auto& values : own.values) std::ranges::fill(values, std::numeric_limits<float>::quiet_NaN());
      for (const MeanPart& part : leg.payloads.parts()) {
        if (!part.is_own) continue;
        std::copy_n(aggregated.table.slice(part.slice), part.slice.count, own.table.slice(part.slice));
      }
      ASSERT_TRUE(testing::same_bits(expected.values, leg.run(own, communicator.get())))
          << word_of(codec) << ", rank " << communicator->rank() << " of " << size;
    });
    for (const auto& error : errors) {
      if (error) std::rethrow_exception(error);
    }
  }
}

TEST(Downlink, BringsEveryRankTheSameMean) {
  for (const DownlinkCodec codec : kDownlinkCodecs) {
    expect_same_mean(codec, {});
    expect_same_mean(codec, {.scope = ScalerScope::kBlock, .block_elements = 192});
    expect_same_mean(codec, {.scope = ScalerScope::kBlock, .block_elements = 8192, .format = TernaryFormat::kT5});
    expect_same_mean(codec, {.scope = ScalerScope::kModel, .format = TernaryFormat::kTMask});
  }
}

TEST(Downlink, DoesTheSameToAMeanThatStays) {
  for (const DownlinkCodec codec : {DownlinkCodec::kFloat32, DownlinkCodec::kBfloat16, DownlinkCodec::kTernary}) {
    for (const TernaryFormat format : {TernaryFormat::kT2, TernaryFormat::kTMask, TernaryFormat::kTrans}) {
      const TernaryOptions ternary{.scope = ScalerScope::kBlock, .block_elements = 4096, .format = format};
      Leg travelling(codec, ternary);
      Leg staying(codec, ternary, /*travels=*/false);
      const Tensors aggregated = staying.aggregated();
      EXPECT_TRUE(testing::same_bits(travelling.run(aggregated).values, staying.run(aggregated))) << word_of(codec);
    }
  }
}

TEST(Downlink, TensorsThatCannotBeSummedKeepEveryBitBesideCodes) {
  for (const DownlinkCodec codec : {DownlinkCodec::kSums, DownlinkCodec::kTernary}) {
    Leg leg(codec);
    const Tensors aggregated = leg.aggregated();
    EXPECT_EQ(bits_of(leg.run(aggregated).values[2]), bits_of(aggregated.values[2])) << word_of(codec);
  }
}

}  // namespace
}  // namespace terngrad::downlink_test
