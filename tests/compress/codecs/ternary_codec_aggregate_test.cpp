#include "compress/codecs/ternary_codec.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/gradients.h"
#include "support/reference.h"
#include "support/ternary_messages.h"

namespace terngrad::ternary_codec_aggregate_test {
namespace {

using testing::aggregated;
using testing::gaussian_tensors;
using testing::reference_codes;
using testing::send;
using testing::Sent;
using testing::small_layout;
using testing::Tensors;

/// Messages of three workers, each of the whole first tensor.
struct ThreeWorkers {
  Layout layout = small_layout();
  std::vector<Tensors> tensors;
  std::vector<Sent> sent;
  std::vector<EncodedSlice> messages;

  explicit ThreeWorkers(const TernaryCodec& codec, const std::vector<float>& shared,
                        PayloadForm form = PayloadForm::kNatural) {
    for (std::uint32_t w = 0; w < 3; ++w) {
      tensors.push_back(gaussian_tensors(layout, 20 + w, 1.0 + w));
      sent.push_back(send(codec, layout, tensors.back(), w, {{0, 0, 9000}}, shared, form));
    }
    for (const Sent& worker : sent) messages.push_back(worker.slices[0]);
  }
};

TEST(TernaryCodecAggregate, InUnitSumsGivesTheIntegerSumsOfCodes) {
  const TernaryCodec codec({.num_workers = 3});
  const std::vector<float> shared = {2.5f, 1.0f};
  const ThreeWorkers workers(codec, shared);
  std::vector<float> expected(9000, 0.0f);
  for (std::uint32_t w = 0; w < 3; ++w) {
    const auto codes = reference_codes(codec, workers.layout, workers.tensors[w], w, 0, std::span(shared).first(1));
    for (std::size_t i = 0; i < 9000; ++i) expected[i] += static_cast<float>(codes[i]);
  }
  EXPECT_EQ(aggregated(codec, workers.messages, AggregateUnit::kSums), expected);
}

TEST(TernaryCodecAggregate, MultipliesTheSumByTheScalerOverTheNumberOfWorkersOnce) {
  const TernaryCodec codec({.num_workers = 3});
  const ThreeWorkers workers(codec, {2.7f, 1.0f});
  std::vector<float> expected = aggregated(codec, workers.messages, AggregateUnit::kSums);
  const float factor = 2.7f / 3.0f;
  for (float& value : expected) value *= factor;
  EXPECT_EQ(aggregated(codec, workers.messages), expected);
}

TEST(TernaryCodecAggregate, TakesLanesThatWereAddedUp) {
  const TernaryCodec codec({.num_workers = 3});
  const std::vector<float> shared = {2.7f, 1.0f};
  const ThreeWorkers lanes(codec, shared, PayloadForm::kLanes);
  std::vector<std::uint64_t> sum = lanes.sent[0].words[0];
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += lanes.sent[1].words[0][i];
  EncodedSlice two = lanes.messages[0];
  two.payload = {reinterpret_cast<const std::uint8_t*>(sum.data()), two.payload.size()};
  EXPECT_EQ(aggregated(codec, {two, lanes.messages[2]}, AggregateUnit::kMean, 2, {}, 3),
            aggregated(codec, ThreeWorkers(codec, shared).messages));
}

TEST(TernaryCodecAggregate, OfUnsharedScalersIsTheTreeSumOfWhatEachWorkerMeans) {
  const TernaryCodec codec(
      {.sharing = ScalerSharing::kNone, .scope = ScalerScope::kBlock, .block_elements = 1984, .num_workers = 3});
  const ThreeWorkers workers(codec, {});
  std::vector<std::vector<float>> meant(3);
  for (std::uint32_t w = 0; w < 3; ++w) {
    const auto scalers = std::span<const float>(workers.sent[w].local).first(5);
    const auto codes = reference_codes(codec, workers.layout, workers.tensors[w], w, 0, scalers);
    for (std::size_t i = 0; i < 9000; ++i) meant[w].push_back(scalers[i / 1984] * static_cast<float>(codes[i]));
  }
  std::vector<float> expected(9000);
  for (std::size_t i = 0; i < 9000; ++i) {
    expected[i] = reference::tree_sum(std::vector{meant[0][i], meant[1][i], meant[2][i]}) * (1.0f / 3.0f);
  }
  EXPECT_EQ(aggregated(codec, workers.messages), expected);
}

}  // namespace
}  // namespace terngrad::ternary_codec_aggregate_test
