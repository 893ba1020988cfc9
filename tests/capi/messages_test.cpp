#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "compress/wire/gradient_message.h"
#include "compress/wire/worker_encoder.h"
#include "support/c_api.h"
#include "support/exchanges.h"

namespace terngrad::capi_messages_test {
namespace {

using testing::c_arrays;
using testing::CEncoder;
using testing::CPlan;
using testing::fails;
using testing::is_ok;
using testing::is_refused;
using testing::sized;
using testing::Tensors;
using Bytes = std::vector<std::uint8_t>;

constexpr int kWorkers = 3;
constexpr std::uint64_t kStep = 8;
constexpr const char* kOptions = "seed=77 run_id=5";

std::int32_t size_of(const std::vector<tg_array>& arrays) { return static_cast<std::int32_t>(arrays.size()); }

tg_status measure(const CEncoder& encoder, const Tensors& gradient, const tg_stream* stream = nullptr) {
  const std::vector<tg_array> arrays = c_arrays(gradient.values);
  return tg_encoder_measure(encoder.get(), arrays.data(), size_of(arrays), kStep, stream);
}

tg_status encode(const CEncoder& encoder, const Tensors& gradient, Bytes& out) {
  const std::vector<tg_array> arrays = c_arrays(gradient.values);
  const std::uint8_t* message = nullptr;
  std::int64_t bytes = 0;
  const tg_status status = tg_encoder_encode(encoder.get(), arrays.data(), size_of(arrays), &message, &bytes, nullptr);
  if (status == TG_OK) out.assign(message, message + bytes);
  return status;
}

tg_status decode(const CPlan& plan, const Bytes& message, Tensors& out, std::uint64_t step = kStep,
                 std::uint64_t run_id = 5) {
  const std::vector<tg_array> arrays = c_arrays(out.values);
  std::int32_t worker = -1;
  const tg_status status =
      tg_message_decode(plan.get(), run_id, step, message.data(), static_cast<std::int64_t>(message.size()),
                        arrays.data(), size_of(arrays), &worker, nullptr);
  EXPECT_EQ(worker, status == TG_OK ? 1 : -1);
  return status;
}

/// The messages of all workers of a plan, encoded through the C API and through the C++ library.
struct Sent {
  Layout layout = testing::mixed_layout();
  std::vector<Tensors> gradients = testing::worker_gradients(layout, kWorkers);
  CPlan plan;
  std::vector<Bytes> messages, expected;

  explicit Sent(const std::string& codec) : plan(testing::c_plan(layout, kWorkers, "codec=" + codec + " seed=77")) {
    CodecPlanOptions options;
    options.codec = codec;
    const CodecPlan library_plan(layout, with_workers(options, kWorkers));
    const auto num_scalers = static_cast<std::size_t>(library_plan.num_scalers());
    tg_stream* stream = nullptr;
    EXPECT_TRUE(is_ok(tg_stream_cpu(2, &stream)));
    std::vector<CEncoder> encoders;
    std::vector<std::vector<float>> scalers;
    for (int worker = 0; worker < kWorkers; ++worker) {
      encoders.push_back(testing::c_encoder(plan, worker, kOptions));
      EXPECT_TRUE(is_ok(measure(encoders.back(), gradients[static_cast<std::size_t>(worker)], stream)));
      auto& own = scalers.emplace_back(num_scalers);
      EXPECT_TRUE(is_ok(tg_encoder_scalers(encoders.back().get(), own.data(), static_cast<std::int64_t>(num_scalers))));
    }
    tg_stream_destroy(stream);
    const bool shares = std::ranges::any_of(library_plan.groups(),
                                            [](const CodecPlan::Group& group) { return shares_scalers(*group.codec); });
    Stream queue;
    for (int worker = 0; worker < kWorkers; ++worker) {
      const auto w = static_cast<std::size_t>(worker);
      WorkerEncoder encoder(layout, library_plan, worker, kWorkers, 77);
      encoder.measure(gradients[w].table, kStep, queue);
      for (int other = 0; other < kWorkers; ++other) {
        const auto& theirs = scalers[static_cast<std::size_t>(other)];
        if (other == worker || !shares) continue;
        EXPECT_TRUE(is_ok(
            tg_encoder_set_scalers(encoders[w].get(), other, theirs.data(), static_cast<std::int64_t>(num_scalers))));
        encoder.set_scalers(other, theirs);
      }
      EXPECT_TRUE(is_ok(encode(encoders[w], gradients[w], messages.emplace_back())));
      const auto bytes = encoder.gradient_message(gradients[w].table, {5, library_plan.fingerprint(), kStep}, queue);
      expected.emplace_back(bytes.begin(), bytes.end());
    }
  }
  /// @param out  tensors of the layout
  tg_status aggregate(Tensors& out, std::uint64_t step = kStep) const {
    std::vector<const std::uint8_t*> data;
    std::vector<std::int64_t> bytes;
    for (const Bytes& message : messages) {
      data.push_back(message.data());
      bytes.push_back(static_cast<std::int64_t>(message.size()));
    }
    const std::vector<tg_array> arrays = c_arrays(out.values);
    return tg_aggregate(plan.get(), 5, step, data.data(), bytes.data(), static_cast<std::int32_t>(data.size()),
                        arrays.data(), size_of(arrays), nullptr);
  }
};

TEST(CMessages, AreTheLibrarysBytesAndMeanTheSame) {
  for (const char* codec : {"fp32", "ternary:clip_factor=2.5", "ternary:sharing=none", "qsgd:bits=4,sharing=max",
                            "natural", "sign:reduce=vote,scale=l1", "onebit", "fp8", "thc", "sign:rotate=64", "eden"}) {
    const Sent sent(codec);
    EXPECT_EQ(sent.messages, sent.expected) << codec;

    CodecPlanOptions options;
    options.codec = codec;
    const CodecPlan plan(sent.layout, with_workers(options, kWorkers));
    Message message;
    read_gradient_message(sent.expected[1], sent.layout, plan, {5, plan.fingerprint(), kStep, 77}, message);
    const Tensors expected = testing::blank_tensors(sent.layout);
    decode_gradient(message, plan, expected.table);
    Tensors found = testing::blank_tensors(sent.layout);
    EXPECT_TRUE(is_ok(decode(sent.plan, sent.messages[1], found))) << codec;
    EXPECT_TRUE(testing::same_bits(expected.values, found)) << codec;

    CompressedAllReduceOptions exchanged = testing::options_of(ExchangeAlgorithm::kAllGather);
    exchanged.codecs = options;
    CompressedAllReduce exchange = testing::local_exchange(sent.layout, kWorkers, exchanged);
    const Tensors mean = testing::blank_tensors(sent.layout);
    exchange.exchange(testing::tables(sent.gradients, 0, kWorkers), mean.table, kStep);
    Tensors aggregated = testing::blank_tensors(sent.layout);
    EXPECT_TRUE(is_ok(sent.aggregate(aggregated))) << codec;
    EXPECT_TRUE(testing::same_bits(mean.values, aggregated)) << codec;
  }
}

TEST(CMessages, AreInspectedWithoutAPlan) {
  const Sent sent("ternary");
  const Bytes& message = sent.messages[1];
  tg_message_info info = sized<tg_message_info>();
  const auto inspect = [&](const Bytes& bytes, tg_record_info* records, std::int32_t capacity) {
    return tg_message_inspect(bytes.data(), static_cast<std::int64_t>(bytes.size()), &info, records, capacity);
  };
  ASSERT_TRUE(is_ok(inspect(message, nullptr, 0)));
  EXPECT_EQ(info.kind, 2);
  EXPECT_EQ(info.run_id, 5u);
  EXPECT_EQ(info.step, kStep);
  EXPECT_EQ(info.worker, 1u);
  EXPECT_EQ(info.num_records, sent.layout.num_segments());
  EXPECT_EQ(info.num_elements, static_cast<std::uint64_t>(sent.layout.num_elements()));
  tg_plan_info plan = sized<tg_plan_info>();
  ASSERT_TRUE(is_ok(tg_plan_get_info(sent.plan.get(), &plan)));
  EXPECT_EQ(info.fingerprint, plan.fingerprint);

  std::vector<tg_record_info> records(static_cast<std::size_t>(info.num_records));
  info = sized<tg_message_info>();
  EXPECT_TRUE(is_refused(inspect(message, records.data(), 2), "capacity is 2, the message has 7 records"));
  EXPECT_EQ(info.num_records, 7);
  EXPECT_EQ(records[0].codec, 0u);
  EXPECT_TRUE(is_refused(inspect(message, records.data(), -1), "capacity is -1"));
  ASSERT_TRUE(is_ok(inspect(message, records.data(), 7)));
  EXPECT_EQ(records[3].tensor, 3u);
  EXPECT_EQ(records[3].codec, 3u);
  EXPECT_EQ(records[3].count, 8193u);
  EXPECT_EQ(records[3].num_scalers, 1u);
  EXPECT_EQ(records[3].codes_at, records[3].scalers_at + 8);
  EXPECT_EQ(records[6].codes_at + records[6].codes_bytes, message.size());

  Bytes damaged = message;
  damaged[200] ^= 1u;
  EXPECT_TRUE(fails(inspect(damaged, nullptr, 0), TG_COMMUNICATION, "checksum"));
  EXPECT_TRUE(fails(inspect({}, nullptr, 0), TG_COMMUNICATION, "length is 0 bytes"));
  EXPECT_TRUE(is_refused(tg_message_inspect(message.data(), -1, &info, nullptr, 0), "a message of -1 bytes"));
}

TEST(CMessages, AreRefusedBeforeAnythingIsWritten) {
  const Sent sent("ternary");
  const Bytes& right = sent.messages[1];
  Tensors out = testing::blank_tensors(sent.layout);
  Bytes damaged = right;
  damaged.back() ^= 1u;
  EXPECT_TRUE(fails(decode(sent.plan, damaged, out), TG_COMMUNICATION, "payload checksum"));
  EXPECT_TRUE(fails(decode(sent.plan, Bytes(right.begin(), right.end() - 8), out), TG_COMMUNICATION, "length"));
  EXPECT_TRUE(fails(decode(sent.plan, right, out, kStep + 1), TG_COMMUNICATION, "step"));
  EXPECT_TRUE(fails(decode(sent.plan, right, out, kStep, 6), TG_COMMUNICATION, "run id"));
  EXPECT_TRUE(fails(decode(testing::c_plan(sent.layout, kWorkers, "codec=fp8"), right, out), TG_COMMUNICATION,
                    "layout fingerprint"));
  EXPECT_EQ(out.values, testing::blank_tensors(sent.layout).values);
  // Messages need no alignment.
  Bytes shifted(right.size() + 1);
  std::ranges::copy(right, shifted.begin() + 1);
  const std::vector<tg_array> arrays = c_arrays(out.values);
  EXPECT_TRUE(
      is_ok(tg_message_decode(sent.plan.get(), 5, kStep, shifted.data() + 1, static_cast<std::int64_t>(right.size()),
                              arrays.data(), size_of(arrays), nullptr, nullptr)));

  Sent twice("ternary");
  twice.messages[2] = twice.messages[1];
  EXPECT_TRUE(fails(twice.aggregate(out), TG_COMMUNICATION, "two messages are worker 1's"));
  twice.messages.pop_back();
  EXPECT_TRUE(is_refused(twice.aggregate(out), "got 2 messages, expected one of each of 3 workers"));
  EXPECT_TRUE(fails(sent.aggregate(out, kStep + 1), TG_COMMUNICATION, "step"));
}

TEST(CEncoder, NeedsWhatTheCodecShares) {
  const Layout layout = testing::mixed_layout();
  const Tensors gradient = testing::gaussian_tensors(layout, 1);
  const CPlan plan = testing::c_plan(layout, 2, "");
  const CEncoder encoder = testing::c_encoder(plan, 1, "");
  Bytes message;
  std::vector<float> scalers(6);  // six of the seven tensors are not empty
  EXPECT_TRUE(is_refused(encode(encoder, gradient, message), "no gradient was measured"));
  EXPECT_TRUE(is_refused(tg_encoder_scalers(encoder.get(), scalers.data(), 6), "no gradient was measured"));
  EXPECT_TRUE(is_refused(tg_encoder_set_scalers(encoder.get(), 0, scalers.data(), 6), "no gradient was measured"));
  ASSERT_TRUE(is_ok(measure(encoder, gradient)));
  EXPECT_TRUE(is_refused(tg_encoder_scalers(encoder.get(), scalers.data(), 7), "there are 6 scalers, n is 7"));
  ASSERT_TRUE(is_ok(tg_encoder_scalers(encoder.get(), scalers.data(), 6)));
  EXPECT_TRUE(is_refused(encode(encoder, gradient, message), "the scalers of worker 0 are missing"));
  EXPECT_TRUE(is_refused(tg_encoder_set_scalers(encoder.get(), 1, scalers.data(), 6), "worker 1"));
  EXPECT_TRUE(is_refused(tg_encoder_set_scalers(encoder.get(), 2, scalers.data(), 6), "worker 2"));
  EXPECT_TRUE(is_refused(tg_encoder_set_scalers(encoder.get(), 0, scalers.data(), 5), "there are 6 scalers, n is 5"));
  scalers[2] = -1;
  EXPECT_TRUE(is_refused(tg_encoder_set_scalers(encoder.get(), 0, scalers.data(), 6), "-1 is none that a gradient"));
  scalers[2] = NAN;
  EXPECT_TRUE(fails(tg_encoder_set_scalers(encoder.get(), 0, scalers.data(), 6), TG_NONFINITE, "worker 0"));
  scalers[2] = 1;
  EXPECT_TRUE(is_ok(tg_encoder_set_scalers(encoder.get(), 0, scalers.data(), 6)));
  EXPECT_TRUE(is_ok(encode(encoder, gradient, message)));
  ASSERT_TRUE(is_ok(measure(encoder, gradient)));
  EXPECT_TRUE(is_refused(encode(encoder, gradient, message), "the scalers of worker 0 are missing"));
  const CEncoder alone = testing::c_encoder(testing::c_plan(layout, 2, "codec=natural"), 1, "");
  ASSERT_TRUE(is_ok(measure(alone, gradient)));
  EXPECT_TRUE(is_ok(encode(alone, gradient, message)));
  EXPECT_TRUE(is_refused(tg_encoder_set_scalers(alone.get(), 0, scalers.data(), 6), "shares scalers"));
}

TEST(CEncoder, StopsOnWhatIsNotFiniteOrSendsZeros) {
  const Layout layout = testing::mixed_layout();
  Tensors gradient = testing::gaussian_tensors(layout, 1);
  gradient.values[3][5] = std::numeric_limits<float>::infinity();
  const CPlan plan = testing::c_plan(layout, 1, "codec=qsgd");
  Bytes message;
  const CEncoder stops = testing::c_encoder(plan, 0, "");
  EXPECT_TRUE(fails(measure(stops, gradient), TG_NONFINITE, "tensor 'fc/weights' holds NaN or infinity"));
  EXPECT_TRUE(is_refused(encode(stops, gradient, message), "no gradient was measured"));
  const CEncoder sends = testing::c_encoder(plan, 0, "on_nonfinite=zero");
  EXPECT_TRUE(is_ok(measure(sends, gradient)));
  ASSERT_TRUE(is_ok(encode(sends, gradient, message)));
  Tensors out = testing::blank_tensors(layout);
  const std::vector<tg_array> arrays = c_arrays(out.values);
  ASSERT_TRUE(is_ok(tg_message_decode(plan.get(), 0, kStep, message.data(), static_cast<std::int64_t>(message.size()),
                                      arrays.data(), size_of(arrays), nullptr, nullptr)));
  EXPECT_THAT(out.values[3], ::testing::Each(0.0f));
  EXPECT_THAT(out.values[0], ::testing::Contains(::testing::Ne(0.0f)));
}

TEST(CEncoder, RefusesOptionsStepsAndWorkers) {
  const Layout layout = testing::mixed_layout();
  const CPlan plan = testing::c_plan(layout, 2, "");
  tg_encoder* made = nullptr;
  EXPECT_TRUE(is_refused(tg_encoder_create(plan.get(), 2, "", &made), "worker must be from 0 to 1, got 2"));
  EXPECT_TRUE(is_refused(tg_encoder_create(plan.get(), 0, "on_nonfinite=skip", &made), "accepted: stop, zero"));
  EXPECT_TRUE(is_refused(tg_encoder_create(plan.get(), 0, "on_nonfinite=raise", &made), "accepted: stop, zero"));
  EXPECT_TRUE(is_refused(tg_encoder_create(plan.get(), 0, "step=1", &made),
                         "option step is unknown; accepted: seed, run_id, on_nonfinite"));
  EXPECT_TRUE(is_refused(tg_encoder_create(plan.get(), 0, "seed=a", &made), "option seed=a is refused"));
  EXPECT_EQ(made, nullptr);
  const CEncoder encoder = testing::c_encoder(plan, 0, "seed=18446744073709551615");
  const Tensors gradient = testing::gaussian_tensors(layout, 1);
  const std::vector<tg_array> arrays = c_arrays(gradient.values);
  EXPECT_TRUE(is_refused(
      tg_encoder_measure(encoder.get(), arrays.data(), size_of(arrays), std::uint64_t{1} << 40, nullptr), "step"));
}

}  // namespace
}  // namespace terngrad::capi_messages_test
