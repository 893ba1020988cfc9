// Reported bytes equal the sizes of the messages.
#include "compress/exchange/compressed_all_reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "compress/comm/all_reduce_bytes.h"
#include "support/exchanges.h"
#include "support/thread_communicator.h"

namespace terngrad::compressed_all_reduce_bytes_test {
namespace {

using testing::blank_tensors;
using testing::kAlgorithms;
using testing::local_exchange;
using testing::options_of;
using testing::tables;
using testing::Tensors;
using testing::worker_gradients;

std::int64_t up8(std::int64_t bytes) { return (bytes + 7) / 8 * 8; }

/// Bytes of a message: header; per (scalers, code bytes) a record, scalers and codes, padded to 8.
std::int64_t message_bytes(const std::vector<std::pair<std::int64_t, std::int64_t>>& slices) {
  std::int64_t bytes = 64 + 48 * static_cast<std::int64_t>(slices.size());
  for (const auto& [scalers, codes] : slices) bytes = up8(bytes) + up8(4 * scalers) + codes;
  return up8(bytes);
}

class ByteCounts : public ::testing::Test {
 protected:
  ByteCounts() {
    layout_.add("a", {3 * 4096 + 1});  // 4 chunks: one per worker
    layout_.add("b", {10});            // in the last shard
  }
  ExchangeReport run(int n, ExchangeAlgorithm algorithm, DownlinkCodec downlink_codec = DownlinkCodec::kFloat32) {
    auto options = options_of(algorithm, downlink_codec);
    options.codecs.rules = {{"b", "fp32"}};
    CompressedAllReduce exchange = local_exchange(layout_, n, options);
    Tensors mean = blank_tensors(layout_);
    return exchange.exchange(tables(worker_gradients(layout_, n), 0, n), mean.table, 0);
  }
  Layout layout_;
};

TEST_F(ByteCounts, OfAllGatherAreWholeMessagesToEveryOther) {
  const ExchangeReport report = run(3, ExchangeAlgorithm::kAllGather);
  const std::int64_t scalers = message_bytes({{1, 0}, {1, 0}});
  const std::int64_t gradient = message_bytes({{1, (3 * 4096 + 16) / 16 * 4}, {1, 40}});
  EXPECT_EQ(report.scalers.sent, 3 * 2 * scalers);
  EXPECT_EQ(report.scalers.received, 3 * 2 * scalers);
  EXPECT_EQ(report.gradient.sent, 3 * 2 * gradient);
  EXPECT_EQ(report.gradient.received, 3 * 2 * gradient);
  EXPECT_EQ(report.mean.sent, 0);
  EXPECT_EQ(report.mean.received, 0);
  EXPECT_EQ(report.sent_bytes(), 6 * (scalers + gradient));
  EXPECT_EQ(report.received_bytes(), 6 * (scalers + gradient));
}

TEST_F(ByteCounts, OfScatterReduceAreShardsToTheirOwners) {
  const ExchangeReport report = run(2, ExchangeAlgorithm::kScatterReduce);
  // Five chunks: shard 0 has two chunks of a; shard 1 has the other two (one element in the last) and b.
  const std::int64_t share0 = message_bytes({{1, 2 * 1024}});
  const std::int64_t share1 = message_bytes({{1, 1024 + 4}, {1, 40}});
  EXPECT_EQ(report.gradient.sent, share0 + share1);
  EXPECT_EQ(report.gradient.received, share0 + share1);
  const std::int64_t mean0 = message_bytes({{0, 2 * 4096 * 4}});
  const std::int64_t mean1 = message_bytes({{0, 4097 * 4}, {0, 40}});
  EXPECT_EQ(report.mean.sent, mean0 + mean1);
  EXPECT_EQ(report.mean.received, mean0 + mean1);
}

TEST_F(ByteCounts, OfDownlinksAreThoseOfTheirFormat) {
  const auto mean_sent = [&](DownlinkCodec codec) {
    return run(2, ExchangeAlgorithm::kScatterReduce, codec).mean.sent;
  };
  EXPECT_EQ(mean_sent(DownlinkCodec::kBfloat16),
            message_bytes({{0, 2 * 4096 * 2}}) + message_bytes({{0, 4097 * 2 + 2}, {0, 20}}));
  EXPECT_EQ(mean_sent(DownlinkCodec::kTernary), message_bytes({{1, 2048}}) + message_bytes({{1, 1028}, {0, 40}}) +
                                                    2 * 4 * 2);  // and the maximum sums of two tensors
  // N = 2: lanes of 3 bits, 21 per word: 391 words for 8192 sums, 196 for 4097.
  EXPECT_EQ(mean_sent(DownlinkCodec::kSums), message_bytes({{1, 391 * 8}}) + message_bytes({{1, 196 * 8}, {0, 40}}));
}

TEST_F(ByteCounts, OfIntegerSumAreLanesAndTheirSums) {
  const ExchangeReport report = run(3, ExchangeAlgorithm::kIntegerSum);
  // N = 3: lanes of 3 bits, 21 per word: 586 words for 12289 codes. b is gathered.
  const std::int64_t rest = message_bytes({{1, 40}});
  EXPECT_EQ(report.gradient.sent, 3 * (all_reduce_bytes(586 * 8, 3) + 2 * rest));
  EXPECT_EQ(report.gradient.received, report.gradient.sent);
  EXPECT_EQ(report.mean.sent + report.mean.received, 0);
}

TEST_F(ByteCounts, OfOneWorkerAreZero) {
  // Data that a worker keeps counts as neither sent nor received.
  for (const ExchangeAlgorithm algorithm : kAlgorithms) {
    const ExchangeReport report = run(1, algorithm);
    EXPECT_EQ(report.sent_bytes(), 0) << word_of(algorithm);
    EXPECT_EQ(report.received_bytes(), 0) << word_of(algorithm);
  }
}

TEST_F(ByteCounts, OfSparseMeansAreThoseOfTheElementsThatAreNotZero) {
  Layout layout;
  layout.add("a", {20000});
  const auto mean_sent = [&](const char* spec, DownlinkCodec downlink) {
    auto options = options_of(ExchangeAlgorithm::kScatterReduce, downlink);
    options.codecs.codec = spec;
    options.codecs.rules = {};
    CompressedAllReduce exchange = local_exchange(layout, 2, options);
    Tensors mean = blank_tensors(layout);
    const std::int64_t sent = exchange.exchange(tables(worker_gradients(layout, 2), 0, 2), mean.table, 0).mean.sent;
    return std::pair(sent, 20000 - std::ranges::count(mean.values[0], 0.0f));
  };
  // randomk selects the same elements on all workers: 200 in two shards, each sent to the other worker.
  const auto [drawn, num_drawn] = mean_sent("randomk:density=0.01", DownlinkCodec::kSparse);
  EXPECT_EQ(num_drawn, 200);
  EXPECT_GT(drawn, 4 * 200);
  EXPECT_LT(drawn, 6 * 200 + 2 * 200);
  const auto [chosen, num_chosen] = mean_sent("topk:density=0.01", DownlinkCodec::kSparse);
  EXPECT_GT(num_chosen, 300) << "different ones of either worker";
  EXPECT_GT(chosen, 4 * num_chosen);
  EXPECT_LT(chosen, 6 * num_chosen + 2 * 200);
  EXPECT_GT(mean_sent("topk:density=0.01", DownlinkCodec::kFloat32).first, 4 * 20000);
}

TEST_F(ByteCounts, AndMeansDoNotDependOnTheNumberOfProcesses) {
  const auto workers = worker_gradients(layout_, 4);
  struct Case {
    ExchangeAlgorithm algorithm;
    const char* spec;
    DownlinkCodec downlink;
  };
  for (const Case& c : {Case{ExchangeAlgorithm::kAllGather, "ternary", DownlinkCodec::kFloat32},
                        Case{ExchangeAlgorithm::kScatterReduce, "ternary", DownlinkCodec::kFloat32},
                        Case{ExchangeAlgorithm::kIntegerSum, "ternary", DownlinkCodec::kFloat32},
                        Case{ExchangeAlgorithm::kScatterReduce, "topk:density=0.01", DownlinkCodec::kSparse},
                        Case{ExchangeAlgorithm::kScatterReduce, "randomk:density=0.1", DownlinkCodec::kSparse}}) {
    SCOPED_TRACE(std::string(c.spec) + " " + word_of(c.algorithm));
    struct Total {
      std::int64_t sent = 0, received = 0;
      std::vector<std::vector<float>> mean;
      bool operator==(const Total&) const = default;
    };
    const auto total = [&](int size) {
      std::mutex mutex;
      Total sum;
      const auto errors = testing::run_ranks(size, [&](std::shared_ptr<Communicator> communicator) {
        const WorkerGroup group = make_worker_group(4, std::move(communicator));
        auto options = options_of(c.algorithm, c.downlink);
        options.codecs.codec = c.spec;
        options.codecs.rules = {{"b", "fp32"}};
        CompressedAllReduce exchange(layout_, group, options);
        Tensors mean = blank_tensors(layout_);
        const auto report =
            exchange.exchange(tables(workers, group.first_local_worker, group.num_local_workers), mean.table, 0);
        const std::lock_guard lock(mutex);
        sum.sent += report.sent_bytes();
        sum.received += report.received_bytes();
        EXPECT_TRUE(sum.mean.empty() || sum.mean == mean.values);
        sum.mean = mean.values;
      });
      for (const auto& error : errors) EXPECT_EQ(error, nullptr);
      return sum;
    };
    const Total alone = total(1);
    EXPECT_GT(alone.sent, 0);
    EXPECT_EQ(total(2), alone);
    EXPECT_EQ(total(4), alone);
  }
}

}  // namespace
}  // namespace terngrad::compressed_all_reduce_bytes_test
