#include "bench/exchange_run.h"

#include <gtest/gtest.h>

#include <mutex>
#include <vector>

#include "compress/cost/compared_codecs.h"
#include "tests/support/thread_communicator.h"

namespace terngrad::bench::exchange_run_test {
namespace {

Layout small_layout() {
  Layout layout;
  layout.add("weights", {100, 100});
  layout.add("logits", {100}, true);
  return layout;
}

TEST(ExchangeTimes, BandwidthIsThatOfTheBusierDirection) {
  ExchangeTimes times;
  EXPECT_EQ(times.bits_per_second(), 0);
  times.wire_seconds = 2;
  times.sent_bytes = 100;
  times.received_bytes = 300;
  EXPECT_EQ(times.bits_per_second(), 1200);
}

TEST(ExchangeResult, SlowestIsTheMedianOfTheSamples) {
  ExchangeResult result;
  result.ranks = {{.wire_seconds = 100}};
  result.samples = {{.measure_seconds = 1, .wire_seconds = 4, .total_seconds = 9, .sent_bytes = 5},
                    {.measure_seconds = 2, .wire_seconds = 3, .total_seconds = 8, .sent_bytes = 5},
                    {.measure_seconds = 9, .wire_seconds = 1, .total_seconds = 30, .sent_bytes = 5}};
  const ExchangeTimes slowest = result.slowest();
  EXPECT_EQ(slowest.measure_seconds, 2);
  EXPECT_EQ(slowest.wire_seconds, 3);
  EXPECT_EQ(slowest.total_seconds, 9);
  EXPECT_EQ(slowest.sent_bytes, 5);
}

TEST(RunExchange, AllRanksGetTheSameResult) {
  std::mutex mutex;
  std::vector<ExchangeResult> of_ranks(2);
  const auto errors = testing::run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
    ExchangeSubject subject = make_exchange_subject(small_layout(), make_worker_group(3, communicator), 1);
    EXPECT_EQ(subject.gradients.size(), communicator->rank() == 0 ? 1u : 2u);
    CompressedAllReduceOptions options = compared_codec("t2", {});
    options.algorithm = ExchangeAlgorithm::kAllGather;
    ExchangeResult result = run_exchange(subject, "t2", options, {.warm_up = 1, .repetitions = 3});
    result.predicted = predict_exchange(subject, "t2", options, 1);
    const std::lock_guard lock(mutex);
    of_ranks[static_cast<std::size_t>(communicator->rank())] = result;
  });
  for (const auto& error : errors) EXPECT_EQ(error, nullptr);
  EXPECT_EQ(of_ranks[0].codec, "t2");
  EXPECT_EQ(of_ranks[0].exchange, "all_gather");
  ASSERT_EQ(of_ranks[0].ranks.size(), 2u);
  ASSERT_EQ(of_ranks[0].samples.size(), 3u);
  EXPECT_EQ(of_ranks[0].slowest().total_seconds, of_ranks[1].slowest().total_seconds);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const ExchangeTimes& times = of_ranks[0].ranks[rank];
    EXPECT_EQ(times.total_seconds, of_ranks[1].ranks[rank].total_seconds);
    EXPECT_GT(times.measure_seconds, 0);
    EXPECT_GT(times.encode_seconds, 0);
    EXPECT_GT(times.wire_seconds, 0);
    EXPECT_GT(times.decode_seconds, 0);
    EXPECT_GT(times.total_seconds, 0);
  }
  // Rank 0 has one of three workers, rank 1 has two. Each receives exactly the bytes that the other sends.
  EXPECT_EQ(of_ranks[0].ranks[1].sent_bytes, 2 * of_ranks[0].ranks[0].sent_bytes);
  EXPECT_EQ(of_ranks[0].ranks[0].received_bytes, of_ranks[0].ranks[1].sent_bytes);
  EXPECT_EQ(of_ranks[0].ranks[1].received_bytes, of_ranks[0].ranks[0].sent_bytes);
  // Predicted and sent bytes agree.
  EXPECT_EQ(of_ranks[0].predicted->wire.bytes, of_ranks[0].slowest().sent_bytes);
  EXPECT_EQ(of_ranks[0].predicted->encode_seconds, of_ranks[1].predicted->encode_seconds);
}

TEST(RunVendor, MeasuresTheLibrarysAllReduce) {
  std::mutex mutex;
  std::vector<ExchangeResult> of_ranks(2);
  const auto errors = testing::run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
    ExchangeSubject subject = make_exchange_subject(small_layout(), make_worker_group(2, communicator), 1);
    ExchangeResult result = run_vendor(subject, "bf16", {.warm_up = 1, .repetitions = 3});
    const std::lock_guard lock(mutex);
    of_ranks[static_cast<std::size_t>(communicator->rank())] = std::move(result);
  });
  for (const auto& error : errors) EXPECT_EQ(error, nullptr);
  EXPECT_EQ(of_ranks[0].codec, "bf16");
  EXPECT_EQ(of_ranks[0].exchange, "vendor");
  ASSERT_EQ(of_ranks[0].ranks.size(), 2u);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const ExchangeTimes& times = of_ranks[0].ranks[rank];
    EXPECT_EQ(times.total_seconds, of_ranks[1].ranks[rank].total_seconds);
    EXPECT_EQ(times.measure_seconds, 0);
    EXPECT_GT(times.encode_seconds, 0);
    EXPECT_GT(times.wire_seconds, 0);
    EXPECT_GT(times.decode_seconds, 0);
    // A reduce-scatter and an all-gather of two ranks: half of the elements each, two bytes per element.
    EXPECT_EQ(times.sent_bytes, 2 * 10'100);
    EXPECT_EQ(times.received_bytes, 2 * 10'100);
  }
}

}  // namespace
}  // namespace terngrad::bench::exchange_run_test
