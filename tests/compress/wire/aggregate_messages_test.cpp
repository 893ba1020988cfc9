#include "compress/wire/aggregate_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "compress/wire/worker_encoder.h"
#include "kernels/runtime/errors.h"
#include "support/exchanges.h"

namespace terngrad::aggregate_messages_test {
namespace {

using ::testing::HasSubstr;
using testing::Tensors;

constexpr std::uint64_t kStep = 6;

/// Messages of the workers of an exchange, encoded individually.
struct Sent {
  Layout layout = testing::mixed_layout();
  CompressedAllReduceOptions options = testing::options_of(ExchangeAlgorithm::kAuto);
  int num_workers;
  std::vector<Tensors> gradients;
  CodecPlan plan;
  MessageContext context{.run_id = 99, .fingerprint = plan.fingerprint(), .step = kStep, .seed = options.seed};
  std::vector<std::vector<std::uint8_t>> messages = {};
  Stream stream{Device::cpu(), 2};

  Sent(const std::string& codec, int n, float last = 1, bool tells_scalers = true)
      : num_workers(n), gradients(testing::worker_gradients(layout, n)), plan(make_plan(codec)) {
    gradients.back().values[3][77] = last;
    std::vector<WorkerEncoder> encoders;
    std::vector<std::vector<float>> scalers;
    for (int worker = 0; worker < n; ++worker) {
      WorkerEncoder& encoder = encoders.emplace_back(layout, plan, worker, n, options.seed);
      encoder.measure(gradients[static_cast<std::size_t>(worker)].table, kStep, stream);
      encoder.copy_scalers(scalers.emplace_back(static_cast<std::size_t>(plan.num_scalers())));
    }
    for (WorkerEncoder& encoder : encoders) {
      for (int other = 0; other < n; ++other) {
        if (tells_scalers && other != encoder.worker()) {
          encoder.set_scalers(other, scalers[static_cast<std::size_t>(other)]);
        }
      }
      const auto bytes =
          encoder.gradient_message(gradients[static_cast<std::size_t>(encoder.worker())].table, context, stream);
      messages.emplace_back(bytes.begin(), bytes.end());
    }
  }
  Tensors exchanged() {
    options.on_nonfinite = OnNonfinite::kZero;
    CompressedAllReduce exchange = testing::local_exchange(layout, num_workers, options);
    Tensors mean = testing::blank_tensors(layout);
    exchange.exchange(testing::tables(gradients, 0, num_workers), mean.table, kStep);
    return mean;
  }
  Tensors aggregated() {
    Tensors mean = testing::blank_tensors(layout);
    const std::vector<std::span<const std::uint8_t>> views(messages.begin(), messages.end());
    aggregate_messages(views, layout, plan, num_workers, context, mean.table, stream);
    return mean;
  }
  /// @returns message of the CommunicationError, empty if there is none
  std::string refusal() {
    try {
      aggregated();
    } catch (const CommunicationError& error) {
      return error.what();
    }
    return "";
  }

 private:
  CodecPlan make_plan(const std::string& codec) {
    options.codecs.codec = codec;
    return {layout, with_workers(options.codecs, num_workers)};
  }
};

TEST(AggregateMessages, NeedsTheSeedOfTheRunForWhatIsRotated) {
  Sent sent("thc", 2);
  sent.context.seed.reset();
  EXPECT_THROW(sent.aggregated(), InvalidArgument);
  sent.context.seed = sent.options.seed + 1;  // the seed of another run rotates back differently
  const Tensors other = sent.aggregated();
  EXPECT_FALSE(testing::same_bits(sent.exchanged().values, other));
}

TEST(AggregateMessages, HasTheBitsOfAnExchange) {
  for (const char* codec :
       {"fp32", "bf16", "ternary:clip_factor=2.5", "ternary:sharing=mean,scope=block,block=1344,format=t5",
        "ternary:sharing=none,format=tmask", "ternary:levels=asymmetric,sharing=none", "ternary:scope=model",
        "qsgd:bits=4,sharing=max", "qsgd", "natural", "sign", "sign:reduce=vote,scale=l1", "onebit", "fp8", "thc",
        "qsgd:rotate=64", "ternary:sharing=none,rotate=1024", "sign:rotate=256", "eden"}) {
    for (const int num_workers : {1, 2, 5, 8}) {
      Sent sent(codec, num_workers);
      EXPECT_TRUE(testing::same_bits(sent.exchanged().values, sent.aggregated())) << codec << ", " << num_workers;
    }
  }
}

TEST(AggregateMessages, TakesThemInAnyOrderAndTensorsThatAreNotFiniteAsZeros) {
  for (const char* codec : {"fp32", "ternary", "natural"}) {
    Sent sent(codec, 3, std::numeric_limits<float>::quiet_NaN());
    const Tensors expected = sent.exchanged();
    std::ranges::rotate(sent.messages, sent.messages.begin() + 1);
    EXPECT_TRUE(testing::same_bits(expected.values, sent.aggregated())) << codec;
  }
}

TEST(AggregateMessages, RefusesMessagesThatDoNotBelongTogether) {
  const Sent right("ternary", 3);
  Sent twice = right;
  twice.messages[2] = twice.messages[0];
  EXPECT_THAT(twice.refusal(), HasSubstr("two messages are worker 0's"));
  Sent few = right;
  few.messages.pop_back();
  EXPECT_THROW(few.aggregated(), InvalidArgument);
  Sent of_more("ternary", 4);
  of_more.messages.erase(of_more.messages.begin());
  of_more.num_workers = 3;
  EXPECT_THAT(of_more.refusal(), HasSubstr("worker 3's, there are 3 workers"));
  Sent damaged = right;
  damaged.messages[1].back() ^= 1u;
  EXPECT_THAT(damaged.refusal(), HasSubstr("payload checksum"));
  Sent short_one = right;
  short_one.messages[1].resize(20);
  EXPECT_THAT(short_one.refusal(), HasSubstr("length is 20 bytes"));
  Sent other_step = right;
  other_step.context.step = kStep + 1;
  EXPECT_THAT(other_step.refusal(), HasSubstr("step"));
  // Each worker encoded with its own scalers, although the codec shares them.
  EXPECT_THAT(Sent("ternary", 3, 1, false).refusal(), HasSubstr("not those that were agreed on"));
}

TEST(AggregateMessages, SaysWhichMeanOverflows) {
  Sent sent("fp32", 1, std::numeric_limits<float>::max());
  EXPECT_NO_THROW(sent.aggregated());
  Sent sum("fp32", 2, std::numeric_limits<float>::max());
  sum.gradients[0].values[3][77] = std::numeric_limits<float>::max();
  WorkerEncoder encoder(sum.layout, sum.plan, 0, 2, sum.options.seed);
  encoder.measure(sum.gradients[0].table, kStep, sum.stream);
  const auto bytes = encoder.gradient_message(sum.gradients[0].table, sum.context, sum.stream);
  sum.messages[0].assign(bytes.begin(), bytes.end());
  try {
    sum.aggregated();
    ADD_FAILURE() << "the mean did not overflow";
  } catch (const NonFiniteError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'fc/weights' overflows"));
  }
}

}  // namespace
}  // namespace terngrad::aggregate_messages_test
