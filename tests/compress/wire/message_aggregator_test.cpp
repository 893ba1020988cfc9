#include "compress/wire/message_aggregator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compress/wire/worker_encoder.h"
#include "kernels/runtime/errors.h"
#include "support/codec_classes.h"
#include "support/exchanges.h"

namespace terngrad::message_aggregator_test {
namespace {

using ::testing::HasSubstr;
using testing::mixed_layout;
using testing::Tensors;

const MessageContext kContext{1, 2, 3};
constexpr int kWorkers = 3;

/// Whether `throws` throws a CommunicationError that says `text`.
template <class Throws>
::testing::AssertionResult is_refused(const Throws& throws, const std::string& text) {
  try {
    throws();
  } catch (const CommunicationError& error) {
    if (std::string(error.what()).find(text) != std::string::npos) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << error.what();
  }
  return ::testing::AssertionFailure() << "nothing was thrown";
}

/// The messages of all workers, encoded by hand.
struct Written {
  Layout layout = mixed_layout();
  std::vector<Tensors> gradients = testing::worker_gradients(layout, kWorkers);
  CodecPlan plan;
  std::vector<WorkerEncoder> encoders;
  std::vector<std::span<const std::uint8_t>> messages;
  Stream stream;

  /// @param tells  whether workers are told the others' scalers
  explicit Written(const std::string& codec, bool tells = true)
      : plan(layout, {.codec = codec, .rules = {{"half", "bf16"}}, .context = {kWorkers}}) {
    std::vector<std::vector<float>> scalers;
    for (int worker = 0; worker < kWorkers; ++worker) {
      encoders.emplace_back(layout, plan, worker, kWorkers, /*seed=*/1);
      encoders.back().measure(gradient(worker), kContext.step, stream);
      encoders.back().copy_scalers(scalers.emplace_back(static_cast<std::size_t>(plan.num_scalers())));
    }
    for (int worker = 0; worker < kWorkers; ++worker) {
      WorkerEncoder& encoder = encoders[static_cast<std::size_t>(worker)];
      for (int other = 0; tells && other < kWorkers; ++other) {
        if (other != worker) encoder.set_scalers(other, scalers[static_cast<std::size_t>(other)]);
      }
      messages.push_back(encoder.gradient_message(gradient(worker), kContext, stream));
    }
  }
  const TensorTable& gradient(int worker) const { return gradients[static_cast<std::size_t>(worker)].table; }
};

TEST(MessageAggregator, HasTheBitsOfAnExchange) {
  std::vector<std::string> codecs = {"ternary:sharing=mean,scope=block,block=1344", "sign:reduce=vote,scale=l1"};
  for (const testing::ClassedSpec& classed : testing::kClassedSpecs) codecs.emplace_back(classed.spec);
  for (const std::string& codec : codecs) {
    const Written written(codec);
    CompressedAllReduceOptions options = testing::options_of(ExchangeAlgorithm::kAllGather);
    options.seed = 1;
    CompressedAllReduce exchange(written.layout, written.plan, make_worker_group(kWorkers, make_self_communicator()),
                                 options);
    const Tensors expected = testing::blank_tensors(written.layout);
    exchange.exchange(testing::tables(written.gradients, 0, kWorkers), expected.table, kContext.step);
    MessageAggregator aggregator(written.layout, written.plan, kWorkers);
    Stream stream;
    for (const std::vector<int>& order : {std::vector<int>{0, 1, 2}, {2, 0, 1}}) {
      std::vector<std::span<const std::uint8_t>> messages;
      for (const int worker : order) messages.push_back(written.messages[static_cast<std::size_t>(worker)]);
      const Tensors mean = testing::blank_tensors(written.layout);
      aggregator.aggregate(messages, kContext, mean.table, stream);
      EXPECT_TRUE(testing::same_bits(expected.values, mean)) << codec;
    }
  }
}

TEST(MessageAggregator, RefusesMessagesThatAreNotOneOfEachWorker) {
  const Written written("natural");
  MessageAggregator aggregator(written.layout, written.plan, kWorkers);
  const Tensors mean = testing::blank_tensors(written.layout);
  Stream stream;
  const auto aggregate = [&](std::vector<std::span<const std::uint8_t>> messages) {
    return [&, messages] { aggregator.aggregate(messages, kContext, mean.table, stream); };
  };
  const auto& sent = written.messages;
  EXPECT_TRUE(is_refused(aggregate({sent[0], sent[1]}), "needs a message of each, got 2"));
  EXPECT_TRUE(is_refused(aggregate({sent[0], sent[1], sent[1]}), "worker 1 comes twice"));
  const Written other("qsgd");
  EXPECT_TRUE(is_refused(aggregate({sent[0], sent[1], other.messages[2]}), "worker 2"));
}

TEST(MessageAggregator, RefusesScalersThatWorkersDoNotShare) {
  const Written written("ternary", /*tells=*/false);
  MessageAggregator aggregator(written.layout, written.plan, kWorkers);
  const Tensors mean = testing::blank_tensors(written.layout);
  Stream stream;
  EXPECT_TRUE(is_refused([&] { aggregator.aggregate(written.messages, kContext, mean.table, stream); },
                         "workers share the scalers of tensor 'conv/weights', but worker 1 has others"));
}

}  // namespace
}  // namespace terngrad::message_aggregator_test
