// Content of a worker's messages, with several codecs in one plan.
#include "compress/wire/gradient_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "compress/codecs/ternary_spec.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler.h"
#include "support/bits.h"
#include "support/gradients.h"
#include "support/reference.h"
#include "support/worker_messages.h"

namespace terngrad::worker_messages_test {
namespace {

using reference::Bytes;
using testing::bits_of;
using ::testing::Each;
using testing::gaussian_tensors;
using testing::Tensors;

constexpr std::uint64_t kSeed = 17;
constexpr int kWorkers = 4;
const MessageContext kContext{1, 2, 3};

/// Codecs alternate, so that tensors with the same codec are not adjacent.
Layout mixed_layout() {
  Layout layout;
  layout.add("conv", {9000});
  layout.add("plain", {33});
  layout.add("empty", {0});
  layout.add("fc", {5000});
  layout.add("half", {4099});
  layout.add("few", {7});
  return layout;
}

CodecPlanOptions mixed_codecs(const TernaryOptions& ternary = {}) {
  CodecPlanOptions options;
  options.rules = {{"plain", "fp32"}, {"half", "bf16"}};
  options.size_to_binarize = 0;  // including the empty tensor
  options.codec = ternary_spec(ternary);
  options.context.num_workers = kWorkers;
  return options;
}

CodecPlanOptions all_ternary() {
  CodecPlanOptions options;
  options.size_to_binarize = 0;
  options.context.num_workers = kWorkers;
  return options;
}

/// One worker and its gradient.
struct Worker {
  Layout layout = mixed_layout();
  CodecPlan plan;
  testing::WorkerMessages encoder;
  Tensors gradient;
  std::vector<float> shared;  // twice the local scalers of a finite gradient
  Message message;
  Stream stream{Device::cpu(), 2};

  explicit Worker(const CodecPlanOptions& options, int number = 1, std::uint64_t gradient_seed = 1)
      : Worker(options, number, gaussian_tensors(mixed_layout(), gradient_seed)) {}
  Worker(const CodecPlanOptions& options, int number, Tensors tensors)
      : plan(layout, options), encoder(layout, plan, number, kSeed), gradient(std::move(tensors)) {
    measure();
    for (const float s : encoder.local_scalers()) shared.push_back(2 * s);
  }

  void measure() { encoder.measure(gradient.table, kContext, stream); }
  std::span<const std::uint8_t> send(const std::vector<Slice>& slices, PayloadForm form = PayloadForm::kNatural) {
    return encoder.gradient_message(slices, shared, kContext, stream, form);
  }
  /// Records of a gradient message.
  const std::vector<Message::Record>& records(const std::vector<Slice>& slices,
                                              PayloadForm form = PayloadForm::kNatural) {
    read_message(send(slices, form), MessageKind::kGradient, kContext, layout, message);
    return message.records;
  }
  std::vector<float> decoded(const Message::Record& record) const {
    std::vector<float> values(static_cast<std::size_t>(record.encoded.slice.count));
    plan.codec_of(record.encoded.slice.segment).check(record.encoded);
    plan.codec_of(record.encoded.slice.segment).decode(record.encoded, values);
    return values;
  }
  /// Scalers of a slice, from a list for all tensors.
  std::vector<float> scalers_of(const Slice& slice, std::span<const float> all) const {
    const Codec::ScalerRange range = plan.codec_of(slice.segment).scaler_range(slice);
    const auto part = all.subspan(static_cast<std::size_t>(plan.first_scaler(slice.segment) + range.first),
                                  static_cast<std::size_t>(range.count));
    return {part.begin(), part.end()};
  }
  std::vector<std::int8_t> reference_codes(int segment, std::span<const float> scalers) const {
    const reference::Run run{0, static_cast<std::uint64_t>(layout.segment(segment).draw_offset), 0, 2};
    return reference::ternarize(gradient.values[static_cast<std::size_t>(segment)], run, scalers, {},
                                {kSeed, kContext.step, static_cast<std::uint32_t>(encoder.worker()), 1});
  }
};

Bytes payload_of(const Message::Record& record) {
  return {record.encoded.payload.begin(), record.encoded.payload.end()};
}

std::vector<float> scalers_of(const Message::Record& record) {
  return {record.encoded.scalers.begin(), record.encoded.scalers.end()};
}

TEST(WorkerMessages, KeepsLocalScalersInOrderOfTheLayout) {
  const Worker worker(mixed_codecs({.clip_factor = 2.5}));
  std::vector<float> expected;
  for (const int t : {0, 1, 3, 4, 5}) {
    const std::vector<float>& values = worker.gradient.values[static_cast<std::size_t>(t)];
    const bool ternary = t != 1 && t != 4;
    expected.push_back(!ternary ? 0.0f
                                : reference::scaler(reference::statistics(values),
                                                    static_cast<std::int64_t>(values.size()), 2.5, false));
  }
  EXPECT_EQ(bits_of(worker.encoder.local_scalers()), bits_of(expected));
}

TEST(WorkerMessages, ScalersMessageListsEveryTensor) {
  Tensors gradient = gaussian_tensors(mixed_layout(), 1);
  gradient.values[4][0] = std::numeric_limits<float>::infinity();
  Worker worker(mixed_codecs({.scope = ScalerScope::kBlock, .block_elements = 1984}), 2, std::move(gradient));
  Message message;
  read_message(worker.encoder.scalers_message(), MessageKind::kScalers, kContext, worker.layout, message);
  EXPECT_EQ(message.worker, 2);
  ASSERT_EQ(message.records.size(), 6u);
  const std::vector<std::size_t> num_scalers = {5, 1, 0, 3, 1, 1};
  const std::vector<std::uint8_t> codecs = {3, 1, 3, 3, 2, 3};
  for (int t = 0; t < 6; ++t) {
    const auto index = static_cast<std::size_t>(t);
    const Message::Record& record = message.records[index];
    const Slice whole{t, 0, worker.layout.segment(t).num_elements};
    EXPECT_EQ(record.encoded.slice, whole) << t;
    EXPECT_EQ(record.codec, codecs[index]) << t;
    EXPECT_TRUE(record.encoded.payload.empty()) << t;
    EXPECT_EQ(record.encoded.scalers.size(), num_scalers[index]) << t;
    EXPECT_EQ(bits_of(record.encoded.scalers), bits_of(worker.scalers_of(whole, worker.encoder.local_scalers()))) << t;
  }
  EXPECT_EQ(bits_of(message.records[4].encoded.scalers[0]), bits_of(canonical_nan()));
}

TEST(WorkerMessages, GradientMessageHasARecordOfItsCodecForEverySlice) {
  Worker worker(mixed_codecs({.scope = ScalerScope::kBlock, .block_elements = 1984, .format = TernaryFormat::kT5}));
  const std::vector<Slice> slices = {{4, 0, 4096}, {0, 4096, 4904}, {2, 0, 0}, {1, 0, 33}, {3, 0, 5000}, {5, 0, 7}};
  const std::vector<std::uint8_t> codecs = {2, 3, 3, 1, 3, 3};
  const auto& records = worker.records(slices);
  EXPECT_EQ(worker.message.worker, 1);
  ASSERT_EQ(records.size(), slices.size());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    EXPECT_EQ(records[i].encoded.slice, slices[i]) << i;
    EXPECT_EQ(records[i].codec, codecs[i]) << i;
    EXPECT_EQ(records[i].encoded.format, codecs[i] == 3 ? 2 : 0) << i;
    EXPECT_EQ(scalers_of(records[i]), worker.scalers_of(slices[i], worker.shared)) << i;
    EXPECT_NO_THROW(worker.plan.codec_of(slices[i].segment).check(records[i].encoded)) << i;
  }
}

TEST(WorkerMessages, GradientMessageHoldsTheReferenceCodesAndTheFloats) {
  Worker worker(mixed_codecs(), 3);
  const auto& records = worker.records(whole_segments(worker.layout));
  for (const int t : {0, 3, 5}) {
    const auto codes = worker.reference_codes(t, worker.scalers_of({t, 0, 7}, worker.shared));
    EXPECT_EQ(payload_of(records[static_cast<std::size_t>(t)]), reference::pack_t2(codes)) << t;
  }
  EXPECT_EQ(worker.decoded(records[1]), worker.gradient.values[1]);
  std::vector<float> rounded = worker.gradient.values[4];
  for (float& value : rounded) value = reference::from_bfloat16(reference::bfloat16(value));
  EXPECT_EQ(worker.decoded(records[4]), rounded);
}

TEST(WorkerMessages, LanesFormHoldsTheSameCodes) {
  Worker worker(all_ternary());
  std::vector<std::vector<float>> natural;
  for (const Message::Record& record : worker.records(whole_segments(worker.layout))) {
    natural.push_back(worker.decoded(record));
  }
  const auto& lanes = worker.records(whole_segments(worker.layout), PayloadForm::kLanes);
  for (std::size_t t = 0; t < natural.size(); ++t) {
    EXPECT_EQ(lanes[t].encoded.format, 4) << t;
    EXPECT_EQ(worker.decoded(lanes[t]), natural[t]) << t;
  }
}

TEST(WorkerMessages, ShardsTogetherCarryTheCodesOfTheWholeTensors) {
  for (const TernaryOptions& ternary : {TernaryOptions{}, TernaryOptions{.format = TernaryFormat::kTMask},
                                        TernaryOptions{.scope = ScalerScope::kBlock, .block_elements = 6400}}) {
    Worker worker(mixed_codecs(ternary));
    std::vector<std::vector<float>> whole;
    for (const Message::Record& record : worker.records(whole_segments(worker.layout))) {
      whole.push_back(worker.decoded(record));
    }
    std::vector<std::vector<float>> joined(whole.size());
    for (const std::vector<Slice>& shard : shards(worker.layout, 3)) {
      for (const Message::Record& record : worker.records(shard)) {
        const std::vector<float> piece = worker.decoded(record);
        auto& tensor = joined[static_cast<std::size_t>(record.encoded.slice.segment)];
        tensor.insert(tensor.end(), piece.begin(), piece.end());
      }
    }
    EXPECT_EQ(joined, whole) << TernaryCodec(ternary).options_text();
  }
}

TEST(WorkerMessages, TMaskMessagesAreShorterThanTheirBoundAndStillParse) {
  Worker worker(mixed_codecs({.format = TernaryFormat::kTMask}));
  const auto slices = whole_segments(worker.layout);
  std::int64_t payload_bytes = 0;
  for (const Slice& slice : slices) {
    payload_bytes += worker.plan.codec_of(slice.segment).max_payload_bytes(slice, PayloadForm::kNatural);
  }
  const auto bound = max_message_bytes(slices.size(), worker.plan.num_scalers(), payload_bytes);
  // With a scaler of 2 max|g| fewer than half of the codes have signs: saves 1/16 byte for each of 14000 codes.
  EXPECT_LT(static_cast<std::int64_t>(worker.send(slices).size()), bound - 14000 / 16);
  const auto& records = worker.records(slices);
  for (const int t : {0, 3, 5}) {
    const auto codes = worker.reference_codes(t, worker.scalers_of({t, 0, 7}, worker.shared));
    EXPECT_EQ(payload_of(records[static_cast<std::size_t>(t)]), reference::pack_tmask(codes)) << t;
  }
  EXPECT_EQ(worker.decoded(records[1]), worker.gradient.values[1]);  // follows a payload that became shorter
}

TEST(WorkerMessages, DrawsDoNotDependOnTheCodecsOfOtherTensors) {
  Worker mixed(mixed_codecs());
  Worker ternary(all_ternary());
  const std::vector<Slice> slices = {{0, 0, 9000}, {3, 0, 5000}, {5, 0, 7}};
  const auto& a = mixed.records(slices);
  const auto& b = ternary.records(slices);
  for (std::size_t i = 0; i < slices.size(); ++i) EXPECT_EQ(payload_of(a[i]), payload_of(b[i])) << i;
}

TEST(WorkerMessages, WorkersDrawDifferently) {
  Worker one(all_ternary(), 1);
  Worker two(all_ternary(), 2);
  EXPECT_NE(payload_of(one.records({{0, 0, 9000}})[0]), payload_of(two.records({{0, 0, 9000}})[0]));
}

TEST(WorkerMessages, SharingNoneSendsItsOwnScalers) {
  for (const ScalerScope scope : {ScalerScope::kLayer, ScalerScope::kBlock}) {  // blocks: drawn while measuring
    Worker worker(mixed_codecs({.sharing = ScalerSharing::kNone, .scope = scope, .block_elements = 4096}));
    const std::vector<Slice> slices = {{0, 4096, 4904}, {5, 0, 7}};
    const auto& records = worker.records(slices);
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const std::vector<float> own = worker.scalers_of(slices[i], worker.encoder.local_scalers());
      EXPECT_EQ(scalers_of(records[i]), own) << i;
      // The largest element of each run is its scaler and has a non-zero code, so the codes belong to these scalers.
      const std::vector<float> decoded = worker.decoded(records[i]);
      const float most = *std::ranges::max_element(own);
      EXPECT_EQ(std::fabs(*std::ranges::max_element(decoded, {}, [](float v) { return std::fabs(v); })), most) << i;
    }
  }
}

TEST(WorkerMessages, SharingNoneSendsZeroForAScalerThatIsNan) {
  for (const ScalerScope scope : {ScalerScope::kLayer, ScalerScope::kBlock}) {
    Tensors gradient = gaussian_tensors(mixed_layout(), 1);
    gradient.values[3][10] = std::numeric_limits<float>::quiet_NaN();
    Worker worker(mixed_codecs({.sharing = ScalerSharing::kNone, .scope = scope, .block_elements = 8192}), 1,
                  std::move(gradient));
    const auto& records = worker.records({{0, 0, 9000}, {3, 0, 5000}});
    EXPECT_EQ(scalers_of(records[1]), std::vector{0.0f});
    EXPECT_THAT(bits_of(worker.decoded(records[1])), Each(0u));
    EXPECT_GT(records[0].encoded.scalers[0], 0.0f);
    // Local scalers keep the flag for the scalers message.
    EXPECT_TRUE(std::isnan(worker.scalers_of({3, 0, 5000}, worker.encoder.local_scalers())[0]));
  }
}

TEST(WorkerMessages, ATensorThatIsNotFiniteTravelsAsZerosBesideTheOthers) {
  Worker reference(mixed_codecs());
  const auto& expected = reference.records(whole_segments(reference.layout));
  Worker worker(mixed_codecs());
  worker.gradient.values[0][8999] = std::numeric_limits<float>::quiet_NaN();
  worker.gradient.values[1][2] = std::numeric_limits<float>::infinity();
  worker.measure();
  const auto& records = worker.records(whole_segments(worker.layout));
  for (const std::size_t t : {0u, 1u}) EXPECT_THAT(payload_of(records[t]), Each(0)) << t;
  for (const std::size_t t : {3u, 4u, 5u}) EXPECT_EQ(payload_of(records[t]), payload_of(expected[t])) << t;
  EXPECT_EQ(scalers_of(records[0]), scalers_of(expected[0]));  // the shared scaler, as sent by the other workers
}

TEST(WorkerMessages, IsAsNewInEveryStep) {
  Worker fresh(mixed_codecs({.format = TernaryFormat::kTMask}), 1, 2);
  const auto expected = fresh.send(whole_segments(fresh.layout));
  Worker used(mixed_codecs({.format = TernaryFormat::kTMask}), 1, 1);
  used.send(whole_segments(used.layout));
  used.send({{0, 0, 4096}});
  for (std::size_t t = 0; t < used.gradient.values.size(); ++t) {
    std::ranges::copy(fresh.gradient.values[t], used.gradient.values[t].begin());
  }
  used.measure();
  used.shared = fresh.shared;
  const auto found = used.send(whole_segments(used.layout));
  EXPECT_EQ(Bytes(found.begin(), found.end()), Bytes(expected.begin(), expected.end()));
}

}  // namespace
}  // namespace terngrad::worker_messages_test
