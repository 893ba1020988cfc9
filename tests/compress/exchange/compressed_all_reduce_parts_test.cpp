
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "compress/comm/observed_communicator.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "kernels/runtime/errors.h"
#include "support/exchange_parts.h"
#include "support/exchanges.h"
#include "support/thread_communicator.h"

namespace terngrad::compressed_all_reduce_parts_test {
namespace {

using testing::blank_tensors;
using testing::exchange_in;
using ::testing::HasSubstr;
using testing::kAlgorithms;
using testing::kAllParts;
using testing::kDownlinkCodecs;
using testing::local_exchange;
using testing::mixed_layout;
using testing::options_of;
using testing::options_text;
using testing::run_ranks;
using testing::same_bits;
using testing::tables;
using testing::Tensors;
using testing::worker_gradients;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kWorkers = 4;

CompressedAllReduce parts_for(const Layout& layout, const CompressedAllReduceOptions& options,
                              const char* memory = "none",
                              const std::shared_ptr<Communicator>& communicator = make_self_communicator()) {
  return {layout, make_worker_group(kWorkers, communicator), options, parse_memory(memory)};
}

/// All tensors, or some, randomly distributed over parts and ordered.
Buckets random_parts(const Layout& layout, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int> tensors(static_cast<std::size_t>(layout.num_segments()));
  std::iota(tensors.begin(), tensors.end(), 0);
  std::ranges::shuffle(tensors, random);
  Buckets parts;
  for (const int tensor : tensors) {
    if (parts.empty() || random() % 3 == 0) parts.emplace_back();
    parts.back().push_back(tensor);
  }
  return parts;
}

/// Exchanges one part, of the local workers' gradients.
ExchangeReport exchange_part(CompressedAllReduce& exchange, std::span<const int> segments,
                             const std::vector<Tensors>& gradients, const TensorTable& mean) {
  const WorkerGroup& workers = exchange.workers();
  return exchange.exchange(segments, tables(gradients, workers.first_local_worker, workers.num_local_workers), mean);
}

/// Runs a step. `mean` may be the first local worker's gradients (in place).
ExchangeReport exchange_step(CompressedAllReduce& exchange, const std::vector<Tensors>& gradients,
                             const TensorTable& mean, std::uint64_t step, const Buckets& parts) {
  const WorkerGroup& workers = exchange.workers();
  return exchange_in(parts, exchange, tables(gradients, workers.first_local_worker, workers.num_local_workers), mean,
                     step);
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
    {"ternary:clip_factor=2.5", ExchangeAlgorithm::kScatterReduce, "loco:reset=4"},
    {"eden:levels=8,rotate=64", ExchangeAlgorithm::kScatterReduce, "none"},
    {"topk:density=0.1", ExchangeAlgorithm::kAllGather, "ef21:decay=0.5"},
    {"ternary:clip_factor=1.5", ExchangeAlgorithm::kIntegerSum, "ef21"},
};

// Contract B2: changing parts, ranks, and exchanging in place do not change any bit.
TEST(CompressedAllReduceParts, HaveTheBitsOfOneExchangeWhateverThePartsAreInEachStep) {
  const Layout layout = mixed_layout();
  for (const Case& c : kCases) {
    CompressedAllReduceOptions options = options_of(c.algorithm);
    options.codecs.codec = c.codec;
    CompressedAllReduce whole = parts_for(layout, options, c.memory);
    std::vector<Tensors> expected;
    for (std::uint64_t step = 0; step < 6; ++step) {
      expected.push_back(blank_tensors(layout));
      whole.exchange(tables(worker_gradients(layout, kWorkers, step), 0, kWorkers), expected.back().table, step);
    }
    for (const int size : {1, 2, 4}) {
      const auto errors = run_ranks(size, [&](const std::shared_ptr<Communicator>& communicator) {
        CompressedAllReduce exchange = parts_for(layout, options, c.memory, communicator);
        for (std::uint64_t step = 0; step < 6; ++step) {
          std::vector<Tensors> gradients = worker_gradients(layout, kWorkers, step);
          const Tensors apart = blank_tensors(layout);
          const auto first = static_cast<std::size_t>(exchange.workers().first_local_worker);
          const Tensors& mean = step % 2 == 0 ? apart : gradients[first];
          const ExchangeReport report =
              exchange_step(exchange, gradients, mean.table, step, random_parts(layout, step / 2));
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

TEST(CompressedAllReduceParts, OnePartOfAllTensorsSendsTheMessagesOfAWholeExchange) {
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
    CompressedAllReduce exchange = parts_for(layout, options, "none", observed);
    exchange.begin(3);
    exchange_part(exchange, std::vector<int>{0, 1, 2, 3, 4, 5, 6}, gradients, mean.table);
    exchange.finish();
    EXPECT_GT(expected.size(), 0u);
    EXPECT_EQ(sent, expected) << word_of(algorithm);
  }
}

TEST(CompressedAllReduceParts, DecodeWhatAWorkerSentOfTensorsThatWereExchanged) {
  const Layout layout = mixed_layout();
  const CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAllGather);
  const std::vector<Tensors> gradients = worker_gradients(layout, kWorkers);
  CompressedAllReduce exchange = parts_for(layout, options);
  CompressedAllReduce whole = local_exchange(layout, kWorkers, options);
  Tensors mean = blank_tensors(layout);
  whole.exchange(tables(gradients, 0, kWorkers), mean.table, 3);
  exchange.begin(3);
  exchange_part(exchange, std::vector<int>{3, 0}, gradients, mean.table);
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

TEST(CompressedAllReduceParts, StateOfTensorsThatAreNotExchangedStays) {
  const Layout layout = mixed_layout();
  CompressedAllReduce exchange = parts_for(layout, options_of(ExchangeAlgorithm::kAllGather), "ef");
  const std::vector<Tensors> gradients = worker_gradients(layout, kWorkers);
  Tensors mean = blank_tensors(layout);
  exchange_step(exchange, gradients, mean.table, 1, random_parts(layout, 0));
  WorkerMemory& memory = *exchange.memory();
  const auto state_of = [&](int segment) {
    const float* state = memory.states()[1].tensor(segment);
    return std::vector<float>(state, state + layout.segment(segment).num_elements);
  };
  const std::vector<float> exchanged = state_of(3);
  const std::vector<float> left = state_of(0);
  exchange.begin(2);
  exchange_part(exchange, std::vector<int>{3}, gradients, mean.table);
  exchange.finish();
  EXPECT_NE(state_of(3), exchanged);
  EXPECT_EQ(state_of(0), left);
}

TEST(CompressedAllReduceParts, WhatIsNotFiniteIsFoundInItsPartAndDecidesTheStep) {
  const Layout layout = mixed_layout();
  for (const OnNonfinite policy : {OnNonfinite::kZero, OnNonfinite::kSkip, OnNonfinite::kStop}) {
    CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAllGather);
    options.on_nonfinite = policy;
    CompressedAllReduce exchange = parts_for(layout, options, "ef");
    std::vector<Tensors> gradients = worker_gradients(layout, kWorkers);
    gradients[2].values[3][5] = std::numeric_limits<float>::infinity();
    Tensors mean = blank_tensors(layout);
    exchange.begin(4);
    EXPECT_EQ(exchange_part(exchange, std::vector<int>{6, 0}, gradients, mean.table).nonfinite, "");
    const ExchangeReport found = exchange_part(exchange, std::vector<int>{3}, gradients, mean.table);
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
    exchange_step(exchange, worker_gradients(layout, kWorkers, 9), mean.table, 5, random_parts(layout, 2));
  }
}

TEST(CompressedAllReduceParts, RefuseWhatIsNoStep) {
  const Layout layout = mixed_layout();
  CompressedAllReduce exchange = parts_for(layout, options_of(ExchangeAlgorithm::kAllGather));
  const std::vector<Tensors> gradients = worker_gradients(layout, kWorkers);
  Tensors mean = blank_tensors(layout);
  const std::vector<int> part = {0, 1};
  EXPECT_THROW(exchange_part(exchange, part, gradients, mean.table), InvalidArgument);
  EXPECT_THROW(exchange.finish(), InvalidArgument);
  EXPECT_THROW(exchange.begin(std::uint64_t{1} << 40), InvalidArgument);
  exchange.begin(0);
  exchange_part(exchange, part, gradients, mean.table);
  EXPECT_THROW(exchange_part(exchange, part, gradients, mean.table), InvalidArgument);                    // twice
  EXPECT_THROW(exchange_part(exchange, std::vector<int>{3, 1}, gradients, mean.table), InvalidArgument);  // 1 is
  EXPECT_THROW(exchange.layout_of(std::vector<int>{}), InvalidArgument);
  EXPECT_THROW(exchange.layout_of(std::vector<int>{3, 3}), InvalidArgument);
  EXPECT_THROW(exchange.layout_of(std::vector<int>{7}), InvalidArgument);
}

// A part that is refused is none of the step, also if it was the first to have these tensors.
TEST(CompressedAllReduceParts, AStepGoesOnAfterAPartThatWasRefused) {
  const Layout layout = mixed_layout();
  for (const char* codec : {"ternary", "powersgd"}) {
    CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAllGather);
    options.codecs.codec = codec;
    options.codecs.rules = {};
    CompressedAllReduce refused = parts_for(layout, options, "ef");
    CompressedAllReduce expected = parts_for(layout, options, "ef");
    for (std::uint64_t step = 0; step < 3; ++step) {
      const std::vector<Tensors> gradients = worker_gradients(layout, kWorkers, step);
      const Tensors mean = blank_tensors(layout);
      const Tensors whole = blank_tensors(layout);
      exchange_step(expected, gradients, whole.table, step, {{0}, {1, 2, 3, 4, 5, 6}});
      refused.begin(step);
      exchange_part(refused, std::vector<int>{0}, gradients, mean.table);
      EXPECT_THROW(exchange_part(refused, std::vector<int>{0, 1}, gradients, mean.table), InvalidArgument);
      EXPECT_GT(refused.layout_of(std::vector<int>{3, 1}).num_segments(), 0);
      exchange_part(refused, std::vector<int>{1, 2, 3, 4, 5, 6}, gradients, mean.table);
      refused.finish();
      EXPECT_TRUE(same_bits(whole.values, mean)) << codec << ", step " << step;
    }
  }
}

TEST(CompressedAllReduceParts, HaveTheSameBytesOnAnyNumberOfRanks) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, kWorkers);
  for (const ExchangeAlgorithm algorithm : kAlgorithms) {
    const CompressedAllReduceOptions options = options_of(algorithm);
    CompressedAllReduce alone = parts_for(layout, options);
    const Tensors mean = blank_tensors(layout);
    const ExchangeReport all = exchange_step(alone, workers, mean.table, 9, kAllParts[1]);
    for (const int size : {2, 3, 4}) {
      ExchangeReport sum;
      std::mutex mutex;
      const auto errors = run_ranks(size, [&](const std::shared_ptr<Communicator>& communicator) {
        CompressedAllReduce exchange = parts_for(layout, options, "none", communicator);
        const Tensors of_rank = blank_tensors(layout);
        const ExchangeReport report = exchange_step(exchange, workers, of_rank.table, 9, kAllParts[1]);
        const std::lock_guard lock(mutex);
        sum += report;
      });
      for (const auto& error : errors) ASSERT_EQ(error, nullptr);
      EXPECT_EQ(sum.sent_bytes(), all.sent_bytes()) << word_of(algorithm) << ", ranks " << size;
      EXPECT_EQ(sum.received_bytes(), all.received_bytes());
    }
  }
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

TEST(CompressedAllReduceParts, AStepWithAPartThatFailedNeitherContinuesNorFinishes) {
  const Layout layout = mixed_layout();
  CompressedAllReduce exchange =
      parts_for(layout, options_of(ExchangeAlgorithm::kAllGather), "ef", std::make_shared<LostPeer>());
  const std::vector<Tensors> gradients = worker_gradients(layout, kWorkers);
  Tensors mean = blank_tensors(layout);
  exchange.begin(0);
  EXPECT_THROW(exchange_part(exchange, std::vector<int>{0}, gradients, mean.table), CommunicationError);
  EXPECT_THROW(exchange_part(exchange, std::vector<int>{3}, gradients, mean.table), InvalidArgument);
  EXPECT_THROW(exchange.finish(), InvalidArgument);
  const float* state = exchange.memory()->states()[0].tensor(0);
  EXPECT_TRUE(std::all_of(state, state + 4500, [](float value) { return value == 0; }));
  exchange.begin(1);  // the next step may try again
  EXPECT_THROW(exchange_part(exchange, std::vector<int>{3}, gradients, mean.table), CommunicationError);
}

TEST(CompressedAllReduceParts, RefuseOptionsBeforeTheFirstStep) {
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
  CompressedAllReduce exchange = parts_for(layout, of_model);
  EXPECT_THROW(exchange.layout_of(std::vector<int>{0, 1}), InvalidArgument);
  EXPECT_NO_THROW(exchange.layout_of(std::vector<int>{0, 1, 2, 3, 4, 5, 6}));
}

/// All valid combinations of algorithm, downlink codec, sharing and scope with buckets.
std::vector<CompressedAllReduceOptions> all_options() {
  std::vector<CompressedAllReduceOptions> all;
  for (const ExchangeAlgorithm algorithm : kAlgorithms) {
    for (const DownlinkCodec downlink_codec : kDownlinkCodecs) {
      for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kMean, ScalerSharing::kNone}) {
        const bool needs_sums = algorithm == ExchangeAlgorithm::kIntegerSum || downlink_codec == DownlinkCodec::kSums ||
                                downlink_codec == DownlinkCodec::kTernary;
        if (sharing == ScalerSharing::kNone && needs_sums) continue;
        CompressedAllReduceOptions options = options_of(algorithm, downlink_codec);
        TernaryOptions ternary;
        ternary.sharing = sharing;
        ternary.clip_factor = 2.5;
        ternary.scope = sharing == ScalerSharing::kMean ? ScalerScope::kBlock : ScalerScope::kLayer;
        ternary.block_elements = 1344;
        options.codecs.codec = ternary_spec(ternary);
        all.push_back(options);
      }
    }
  }
  return all;
}

// Contract B2.
TEST(CompressedAllReduceParts, HasTheBitsOfOneExchangeForAnyBuckets) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, 3);
  for (const CompressedAllReduceOptions& options : all_options()) {
    CompressedAllReduce whole = local_exchange(layout, 3, options);
    Tensors expected = blank_tensors(layout);
    whole.exchange(tables(workers, 0, 3), expected.table, 5);
    for (const Buckets& buckets : kAllParts) {
      CompressedAllReduce exchange = local_exchange(layout, 3, options);
      Tensors mean = blank_tensors(layout);
      exchange_in(buckets, exchange, tables(workers, 0, 3), mean.table, 5);
      ASSERT_TRUE(same_bits(expected.values, mean)) << options_text(options) << ", buckets " << buckets.size();
      EXPECT_EQ(exchange.plan().fingerprint(), whole.plan().fingerprint());
      for (int segment = 0; segment < layout.num_segments(); ++segment) {
        std::vector<float> sent(static_cast<std::size_t>(layout.segment(segment).num_elements));
        std::vector<float> sent_whole(sent.size());
        EXPECT_EQ(exchange.decode_local(1, segment, sent), whole.decode_local(1, segment, sent_whole));
        EXPECT_EQ(sent, sent_whole) << options_text(options) << ", tensor " << segment;
      }
    }
  }
}

TEST(CompressedAllReduceParts, OneBucketHasTheVeryMessagesAndMoreHaveAHeaderEach) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, 3);
  for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce}) {
    CompressedAllReduce exchange = local_exchange(layout, 3, options_of(algorithm));
    const Tensors mean = blank_tensors(layout);
    const ExchangeReport whole = exchange.exchange(tables(workers, 0, 3), mean.table, 5);
    for (const Buckets& buckets : kAllParts) {
      const ExchangeReport report = exchange_in(buckets, exchange, tables(workers, 0, 3), mean.table, 5);
      // Each of three workers sends to two others.
      const auto more_headers = static_cast<std::int64_t>(3 * 2 * 64 * (buckets.size() - 1));
      EXPECT_EQ(report.num_workers, 3);
      EXPECT_EQ(report.scalers.sent, whole.scalers.sent + more_headers);
      EXPECT_EQ(report.scalers.received, report.scalers.sent);
      if (algorithm == ExchangeAlgorithm::kAllGather) {
        EXPECT_EQ(report.gradient.sent, whole.gradient.sent + more_headers);
        EXPECT_EQ(report.gradient.received, report.gradient.sent);
      } else if (buckets.size() == 1) {
        EXPECT_EQ(report.sent_bytes(), whole.sent_bytes());
        EXPECT_EQ(report.received_bytes(), whole.received_bytes());
      }
    }
  }
}

TEST(CompressedAllReduceParts, RanksWithOtherBucketsRefuseEachOther) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, 2);
  const auto errors = run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
    const WorkerGroup group = make_worker_group(2, communicator);
    const Buckets other = {{6}, {5}, {4}, {2, 3}, {0}, {1}};
    CompressedAllReduce exchange(layout, group, options_of(ExchangeAlgorithm::kAllGather));
    Tensors mean = blank_tensors(layout);
    exchange_in(communicator->rank() == 0 ? kAllParts[0] : other, exchange,
                tables(workers, group.first_local_worker, 1), mean.table, 0);
  });
  for (const auto& error : errors) {
    ASSERT_NE(error, nullptr);
    EXPECT_THROW(std::rethrow_exception(error), CommunicationError);
  }
}

TEST(CompressedAllReduceParts, NonFiniteTensorsAreTreatedAndNamedAsInOneExchange) {
  const Layout layout = mixed_layout();
  for (const std::vector<Tensors>& workers : testing::damaged_gradients(layout)) {
    for (const OnNonfinite policy : {OnNonfinite::kStop, OnNonfinite::kSkip, OnNonfinite::kZero}) {
      for (const ExchangeAlgorithm algorithm : kAlgorithms) {
        CompressedAllReduceOptions options = options_of(algorithm);
        options.on_nonfinite = policy;
        const auto run = [&](const Buckets& parts, CompressedAllReduce& exchange, Tensors& mean) {
          return testing::report_of(
              [&] { return exchange_in(parts, exchange, tables(workers, 0, 3), mean.table, 12); });
        };
        CompressedAllReduce whole = local_exchange(layout, 3, options);
        Tensors expected = blank_tensors(layout);
        const ExchangeReport one = run(whole_bucket(layout), whole, expected);
        ASSERT_FALSE(one.nonfinite.empty());
        for (const Buckets& buckets : kAllParts) {
          CompressedAllReduce exchange = local_exchange(layout, 3, options);
          Tensors mean = blank_tensors(layout);
          const ExchangeReport report = run(buckets, exchange, mean);
          EXPECT_EQ(report.nonfinite, one.nonfinite);
          EXPECT_EQ(report.skipped, one.skipped);
          std::vector<float> out(7);
          if (policy == OnNonfinite::kZero) {
            EXPECT_TRUE(same_bits(expected.values, mean));
            EXPECT_NO_THROW(exchange.decode_local(0, 1, out));
          } else {
            EXPECT_THROW(exchange.decode_local(0, 1, out), InvalidArgument);
          }
        }
      }
    }
  }
}

TEST(CompressedAllReduceParts, ContinuesAfterASkippedStepAndAfterOneThatWasLeft) {
  const Layout layout = mixed_layout();
  auto options = options_of(ExchangeAlgorithm::kAllGather);
  options.on_nonfinite = OnNonfinite::kSkip;
  CompressedAllReduce exchange = local_exchange(layout, 3, options);
  Tensors mean = blank_tensors(layout);
  EXPECT_TRUE(
      exchange_in(kAllParts[0], exchange, tables(testing::damaged_gradients(layout)[0], 0, 3), mean.table, 0).skipped);
  const std::vector<Tensors> workers = worker_gradients(layout, 3);
  exchange.begin(1);
  exchange.exchange(kAllParts[0][0], tables(workers, 0, 3), mean.table);
  EXPECT_FALSE(exchange_in(kAllParts[0], exchange, tables(workers, 0, 3), mean.table, 1).skipped);
  CompressedAllReduce whole = local_exchange(layout, 3, options);
  Tensors expected = blank_tensors(layout);
  whole.exchange(tables(workers, 0, 3), expected.table, 1);
  EXPECT_TRUE(same_bits(expected.values, mean));
}

}  // namespace
}  // namespace terngrad::compressed_all_reduce_parts_test
