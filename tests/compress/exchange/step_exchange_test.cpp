#include "compress/exchange/step_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "compress/comm/observed_communicator.h"
#include "compress/exchange/memory_all_reduce.h"
#include "kernels/runtime/errors.h"
#include "support/exchanges.h"
#include "support/thread_communicator.h"

namespace terngrad::step_exchange_test {
namespace {

using testing::blank_tensors;
using ::testing::HasSubstr;
using testing::mixed_layout;
using testing::options_of;
using testing::run_ranks;
using testing::same_bits;
using testing::tables;
using testing::Tensors;
using testing::worker_gradients;

constexpr int kWorkers = 4;

CodecPlan plan_for(const Layout& layout, const CompressedAllReduceOptions& options) {
  return {layout, with_workers(options.codecs, kWorkers)};
}

StepExchange parts_for(const Layout& layout, const CompressedAllReduceOptions& options, const char* memory = "none",
                       const std::shared_ptr<Communicator>& communicator = make_self_communicator()) {
  return {layout, plan_for(layout, options), make_worker_group(kWorkers, communicator), options, parse_memory(memory)};
}

/// The exchange of all tensors that parts are compared with.
std::unique_ptr<GradientExchange> whole_exchange(const Layout& layout, const CompressedAllReduceOptions& options,
                                                 const char* memory) {
  const WorkerGroup workers = make_worker_group(kWorkers, make_self_communicator());
  const Buckets buckets = whole_bucket(layout);
  if (std::string(memory) == "none") return std::make_unique<BucketedAllReduce>(layout, workers, options, buckets);
  return std::make_unique<MemoryAllReduce>(layout, workers, options, buckets, parse_memory(memory));
}

/// All tensors, or some, randomly distributed over parts and ordered.
std::vector<std::vector<int>> random_parts(const Layout& layout, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int> tensors(static_cast<std::size_t>(layout.num_segments()));
  std::iota(tensors.begin(), tensors.end(), 0);
  std::ranges::shuffle(tensors, random);
  std::vector<std::vector<int>> parts;
  for (const int tensor : tensors) {
    if (parts.empty() || random() % 3 == 0) parts.emplace_back();
    parts.back().push_back(tensor);
  }
  return parts;
}

TensorTable select(const Layout& selection, std::span<const int> segments, const TensorTable& whole) {
  std::vector<float*> tensors;
  for (const int segment : segments) tensors.push_back(whole.tensor(segment));
  return {selection, tensors};
}

/// Exchanges one part, with local workers from `first` on.
ExchangeReport exchange_part(StepExchange& exchange, std::span<const int> segments,
                             const std::vector<Tensors>& gradients, int first, const TensorTable& mean) {
  const Layout& selection = exchange.layout_of(segments);
  const auto begin = static_cast<std::size_t>(first);
  const auto count = static_cast<std::size_t>(exchange.workers().num_local_workers);
  std::vector<TensorTable> local;
  local.reserve(count);
  for (std::size_t worker = begin; worker < begin + count; ++worker) {
    local.push_back(select(selection, segments, gradients[worker].table));
  }
  return exchange.exchange(segments, local, select(selection, segments, mean));
}

/// Runs a step. `mean` may be the first local worker's gradients (in place).
ExchangeReport exchange_step(StepExchange& exchange, const std::vector<Tensors>& gradients, const TensorTable& mean,
                             std::uint64_t step) {
  exchange.begin(step);
  for (const std::vector<int>& segments : random_parts(exchange.layout(), step / 2)) {
    exchange_part(exchange, segments, gradients, exchange.workers().first_local_worker, mean);
  }
  return exchange.finish();
}

struct Case {
  const char* codec;
  ExchangeAlgorithm algorithm;
  const char* memory;
};
constexpr Case kCases[] = {
    {"fp32", ExchangeAlgorithm::kAuto, "none"},
    {"ternary:clip_factor=2.5", ExchangeAlgorithm::kAllGather, "none"},
    {"ternary:clip_factor=2.5", ExchangeAlgorithm::kScatterReduce, "ef"},
    {"ternary:format=tmask", ExchangeAlgorithm::kIntegerSum, "none"},
    {"qsgd:bits=4,sharing=max", ExchangeAlgorithm::kIntegerSum, "ef:decay=0.5"},
    {"natural", ExchangeAlgorithm::kAllGather, "none"},
    {"onebit", ExchangeAlgorithm::kScatterReduce, "ef"},
    {"sign:reduce=vote,scale=l1", ExchangeAlgorithm::kIntegerSum, "momentum"},
    {"fp8", ExchangeAlgorithm::kAuto, "ef"},
};

// Contract B2: changing parts, ranks, and exchanging in place do not change any bit.
TEST(StepExchange, HaveTheBitsOfOneExchangeWhateverThePartsAreInEachStep) {
  const Layout layout = mixed_layout();
  for (const Case& c : kCases) {
    CompressedAllReduceOptions options = options_of(c.algorithm);
    options.codecs.codec = c.codec;
    const auto whole = whole_exchange(layout, options, c.memory);
    std::vector<Tensors> expected;
    for (std::uint64_t step = 0; step < 6; ++step) {
      expected.push_back(blank_tensors(layout));
      whole->exchange(tables(worker_gradients(layout, kWorkers, step), 0, kWorkers), expected.back().table, step);
    }
    for (const int size : {1, 2, 4}) {
      const auto errors = run_ranks(size, [&](const std::shared_ptr<Communicator>& communicator) {
        StepExchange exchange = parts_for(layout, options, c.memory, communicator);
        for (std::uint64_t step = 0; step < 6; ++step) {
          std::vector<Tensors> gradients = worker_gradients(layout, kWorkers, step);
          const Tensors apart = blank_tensors(layout);
          const auto first = static_cast<std::size_t>(exchange.workers().first_local_worker);
          const Tensors& mean = step % 2 == 0 ? apart : gradients[first];
          const ExchangeReport report = exchange_step(exchange, gradients, mean.table, step);
          ASSERT_TRUE(same_bits(expected[step].values, mean))
              << c.codec << ", " << c.memory << ", ranks " << size << ", step " << step;
          EXPECT_EQ(report.num_workers, exchange.workers().num_local_workers);
          EXPECT_EQ(report.nonfinite, "");
        }
      });
      for (const std::exception_ptr& error : errors) EXPECT_EQ(error, nullptr) << c.codec << ", ranks " << size;
    }
  }
}

TEST(StepExchange, OnePartOfAllTensorsSendsTheMessagesOfAWholeExchange) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> gradients = worker_gradients(layout, kWorkers);
  for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce}) {
    const CompressedAllReduceOptions options = options_of(algorithm);
    std::vector<std::vector<std::uint8_t>> sent;
    const auto observed = std::make_shared<ObservedCommunicator>(
        make_self_communicator(),
        [&](std::span<const std::uint8_t> message) { sent.emplace_back(message.begin(), message.end()); });
    const Tensors mean = blank_tensors(layout);
    CompressedAllReduce whole(layout, make_worker_group(kWorkers, observed), options);
    whole.exchange(tables(gradients, 0, kWorkers), mean.table, 3);
    const auto expected = std::exchange(sent, {});
    StepExchange exchange = parts_for(layout, options, "none", observed);
    exchange.begin(3);
    exchange_part(exchange, std::vector<int>{0, 1, 2, 3, 4, 5, 6}, gradients, 0, mean.table);
    exchange.finish();
    EXPECT_GT(expected.size(), 0u);
    EXPECT_EQ(sent, expected) << to_string(algorithm);
  }
}

TEST(StepExchange, DecodeWhatAWorkerSentOfTensorsThatWereExchanged) {
  const Layout layout = mixed_layout();
  const CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAllGather);
  const std::vector<Tensors> gradients = worker_gradients(layout, kWorkers);
  StepExchange exchange = parts_for(layout, options);
  CompressedAllReduce whole = testing::local_exchange(layout, kWorkers, options);
  Tensors mean = blank_tensors(layout);
  whole.exchange(tables(gradients, 0, kWorkers), mean.table, 3);
  exchange.begin(3);
  exchange_part(exchange, std::vector<int>{3, 0}, gradients, 0, mean.table);
  exchange.finish();
  for (const int segment : {0, 3}) {
    std::vector<float> sent(static_cast<std::size_t>(layout.segment(segment).num_elements));
    std::vector<float> expected(sent.size());
    EXPECT_EQ(exchange.decode_local(2, segment, sent), whole.decode_local(2, segment, expected));
    EXPECT_EQ(sent, expected);
  }
  std::vector<float> sent(7);
  EXPECT_THROW(exchange.decode_local(0, 1, sent), InvalidArgument);  // was not exchanged
  EXPECT_THROW(exchange.decode_local(0, 7, sent), InvalidArgument);
}

TEST(StepExchange, StateOfTensorsThatAreNotExchangedStays) {
  const Layout layout = mixed_layout();
  StepExchange exchange = parts_for(layout, options_of(ExchangeAlgorithm::kAllGather), "ef");
  const std::vector<Tensors> gradients = worker_gradients(layout, kWorkers);
  Tensors mean = blank_tensors(layout);
  exchange_step(exchange, gradients, mean.table, 1);
  WorkerMemory& memory = *exchange.memory();
  const auto state_of = [&](int segment) {
    const float* state = memory.states()[1].tensor(segment);
    return std::vector<float>(state, state + layout.segment(segment).num_elements);
  };
  const std::vector<float> exchanged = state_of(3);
  const std::vector<float> left = state_of(0);
  exchange.begin(2);
  exchange_part(exchange, std::vector<int>{3}, gradients, 0, mean.table);
  exchange.finish();
  EXPECT_NE(state_of(3), exchanged);
  EXPECT_EQ(state_of(0), left);
}

TEST(StepExchange, WhatIsNotFiniteIsFoundInItsPartAndDecidesTheStep) {
  const Layout layout = mixed_layout();
  for (const OnNonfinite policy : {OnNonfinite::kZero, OnNonfinite::kSkip, OnNonfinite::kStop}) {
    CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAllGather);
    options.on_nonfinite = policy;
    StepExchange exchange = parts_for(layout, options, "ef");
    std::vector<Tensors> gradients = worker_gradients(layout, kWorkers);
    gradients[2].values[3][5] = std::numeric_limits<float>::infinity();
    Tensors mean = blank_tensors(layout);
    exchange.begin(4);
    EXPECT_EQ(exchange_part(exchange, std::vector<int>{6, 0}, gradients, 0, mean.table).nonfinite, "");
    const ExchangeReport found = exchange_part(exchange, std::vector<int>{3}, gradients, 0, mean.table);
    EXPECT_THAT(found.nonfinite, HasSubstr("tensor 'fc/weights' of worker 2"));
    if (policy == OnNonfinite::kStop) {
      EXPECT_THROW(exchange.finish(), NonFiniteError);
    } else {
      const ExchangeReport report = exchange.finish();
      EXPECT_EQ(report.nonfinite, found.nonfinite);
      EXPECT_EQ(report.skipped, policy == OnNonfinite::kSkip);
    }
    // The memory does not change in a dropped step.
    const float* state = exchange.memory()->states()[0].tensor(0);
    const bool kept = std::any_of(state, state + 4500, [](float value) { return value != 0; });
    EXPECT_EQ(kept, policy == OnNonfinite::kZero);
    // The next step works normally.
    exchange_step(exchange, worker_gradients(layout, kWorkers, 9), mean.table, 5);
  }
}

TEST(StepExchange, RefuseWhatIsNoStep) {
  const Layout layout = mixed_layout();
  StepExchange exchange = parts_for(layout, options_of(ExchangeAlgorithm::kAllGather));
  const std::vector<Tensors> gradients = worker_gradients(layout, kWorkers);
  Tensors mean = blank_tensors(layout);
  const std::vector<int> part = {0, 1};
  EXPECT_THROW(exchange_part(exchange, part, gradients, 0, mean.table), InvalidArgument);
  EXPECT_THROW(exchange.finish(), InvalidArgument);
  EXPECT_THROW(exchange.begin(std::uint64_t{1} << 40), InvalidArgument);
  exchange.begin(0);
  exchange_part(exchange, part, gradients, 0, mean.table);
  EXPECT_THROW(exchange_part(exchange, part, gradients, 0, mean.table), InvalidArgument);                    // twice
  EXPECT_THROW(exchange_part(exchange, std::vector<int>{3, 1}, gradients, 0, mean.table), InvalidArgument);  // 1 is
  EXPECT_THROW(exchange.layout_of(std::vector<int>{}), InvalidArgument);
  EXPECT_THROW(exchange.layout_of(std::vector<int>{3, 3}), InvalidArgument);
  EXPECT_THROW(exchange.layout_of(std::vector<int>{7}), InvalidArgument);
}

/// One of two ranks; the other is gone.
class LostPeer final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void all_gather(Parcels&, Parcels&) override { throw CommunicationError("lost"); }
  void all_to_all(std::span<Parcels>, Parcels&) override { throw CommunicationError("lost"); }
  void all_reduce_sum(std::span<std::uint64_t>) override { throw CommunicationError("lost"); }
  void all_reduce_max(std::span<std::uint32_t>) override { throw CommunicationError("lost"); }
  void broadcast(std::span<std::uint8_t>, int) override { throw CommunicationError("lost"); }
  void barrier() override { throw CommunicationError("lost"); }
};

TEST(StepExchange, AStepWithAPartThatFailedNeitherContinuesNorFinishes) {
  const Layout layout = mixed_layout();
  StepExchange exchange =
      parts_for(layout, options_of(ExchangeAlgorithm::kAllGather), "ef", std::make_shared<LostPeer>());
  const std::vector<Tensors> gradients = worker_gradients(layout, kWorkers);
  Tensors mean = blank_tensors(layout);
  exchange.begin(0);
  EXPECT_THROW(exchange_part(exchange, std::vector<int>{0}, gradients, 0, mean.table), CommunicationError);
  EXPECT_THROW(exchange_part(exchange, std::vector<int>{3}, gradients, 0, mean.table), InvalidArgument);
  EXPECT_THROW(exchange.finish(), InvalidArgument);
  const float* state = exchange.memory()->states()[0].tensor(0);
  EXPECT_TRUE(std::all_of(state, state + 4500, [](float value) { return value == 0; }));
  exchange.begin(1);  // the next step may try again
  EXPECT_THROW(exchange_part(exchange, std::vector<int>{3}, gradients, 0, mean.table), CommunicationError);
}

TEST(StepExchange, RefuseOptionsBeforeTheFirstStep) {
  const Layout layout = mixed_layout();
  EXPECT_THROW(parts_for(layout, options_of(ExchangeAlgorithm::kAllGather), "ef:decay=2"), InvalidArgument);
  CompressedAllReduceOptions floats = options_of(ExchangeAlgorithm::kIntegerSum);
  floats.codecs.codec = "fp32";
  EXPECT_THROW(parts_for(layout, floats), InvalidArgument);
  CompressedAllReduceOptions own = options_of(ExchangeAlgorithm::kAllGather, DownlinkCodec::kSums);
  own.codecs.codec = "qsgd";
  EXPECT_THROW(parts_for(layout, own), InvalidArgument);
  // A codec that needs all tensors at once cannot be exchanged in parts.
  CompressedAllReduceOptions of_model = options_of(ExchangeAlgorithm::kAllGather);
  of_model.codecs.codec = "ternary:scope=model";
  of_model.codecs.rules = {};
  StepExchange exchange = parts_for(layout, of_model);
  EXPECT_THROW(exchange.layout_of(std::vector<int>{0, 1}), InvalidArgument);
  EXPECT_NO_THROW(exchange.layout_of(std::vector<int>{0, 1, 2, 3, 4, 5, 6}));
}

}  // namespace
}  // namespace terngrad::step_exchange_test
