#include "compress/exchange/bucketed_all_reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "compress/codecs/ternary_spec.h"
#include "kernels/runtime/errors.h"
#include "support/exchanges.h"
#include "support/thread_communicator.h"

namespace terngrad::bucketed_all_reduce_test {
namespace {

using testing::blank_tensors;
using ::testing::HasSubstr;
using testing::kAlgorithms;
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

/// From one tensor per bucket to one bucket, in several orders. Tensor 2 is empty.
const Buckets kBuckets[] = {
    {{6}, {5}, {4}, {2, 3}, {1}, {0}}, {{5, 6}, {4, 2, 3}, {0, 1}}, {{0, 3, 6}, {1, 2, 4, 5}}, {{6, 5, 4, 3, 2, 1, 0}}};

BucketedAllReduce local_buckets(const Layout& layout, int num_workers, const CompressedAllReduceOptions& options,
                                const Buckets& buckets) {
  return {layout, make_worker_group(num_workers, make_self_communicator()), options, buckets};
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
TEST(BucketedAllReduce, HasTheBitsOfOneExchangeForAnyBuckets) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, 3);
  for (const CompressedAllReduceOptions& options : all_options()) {
    CompressedAllReduce whole = local_exchange(layout, 3, options);
    Tensors expected = blank_tensors(layout);
    whole.exchange(tables(workers, 0, 3), expected.table, 5);
    for (const Buckets& buckets : kBuckets) {
      BucketedAllReduce exchange = local_buckets(layout, 3, options, buckets);
      Tensors mean = blank_tensors(layout);
      exchange.exchange(tables(workers, 0, 3), mean.table, 5);
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

TEST(BucketedAllReduce, OneBucketHasTheVeryMessagesAndMoreHaveAHeaderEach) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, 3);
  for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce}) {
    const auto bytes_of = [&](GradientExchange& exchange) {
      Tensors mean = blank_tensors(layout);
      return exchange.exchange(tables(workers, 0, 3), mean.table, 5);
    };
    CompressedAllReduce one = local_exchange(layout, 3, options_of(algorithm));
    const ExchangeReport whole = bytes_of(one);
    for (const Buckets& buckets : kBuckets) {
      BucketedAllReduce exchange = local_buckets(layout, 3, options_of(algorithm), buckets);
      const ExchangeReport report = bytes_of(exchange);
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

TEST(BucketedAllReduce, HasTheSameBitsAndBytesOnAnyNumberOfRanks) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, 4);
  for (const ExchangeAlgorithm algorithm : kAlgorithms) {
    const CompressedAllReduceOptions options = options_of(algorithm);
    BucketedAllReduce alone = local_buckets(layout, 4, options, kBuckets[1]);
    Tensors expected = blank_tensors(layout);
    const ExchangeReport all = alone.exchange(tables(workers, 0, 4), expected.table, 9);
    for (const int size : {2, 3, 4}) {
      ExchangeReport sum;
      std::mutex mutex;
      const auto errors = run_ranks(size, [&](const std::shared_ptr<Communicator>& communicator) {
        const WorkerGroup group = make_worker_group(4, communicator);
        BucketedAllReduce exchange(layout, group, options, kBuckets[1]);
        Tensors mean = blank_tensors(layout);
        const auto report =
            exchange.exchange(tables(workers, group.first_local_worker, group.num_local_workers), mean.table, 9);
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(same_bits(expected.values, mean)) << to_string(algorithm) << ", ranks " << size;
        sum += report;
      });
      for (const auto& error : errors) ASSERT_EQ(error, nullptr);
      EXPECT_EQ(sum.sent_bytes(), all.sent_bytes());
      EXPECT_EQ(sum.received_bytes(), all.received_bytes());
    }
  }
}

TEST(BucketedAllReduce, RanksWithOtherBucketsRefuseEachOther) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, 2);
  const auto errors = run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
    const WorkerGroup group = make_worker_group(2, communicator);
    const Buckets other = {{6}, {5}, {4}, {2, 3}, {0}, {1}};
    BucketedAllReduce exchange(layout, group, options_of(ExchangeAlgorithm::kAllGather),
                               communicator->rank() == 0 ? kBuckets[0] : other);
    Tensors mean = blank_tensors(layout);
    exchange.exchange(tables(workers, group.first_local_worker, 1), mean.table, 0);
  });
  for (const auto& error : errors) {
    ASSERT_NE(error, nullptr);
    EXPECT_THROW(std::rethrow_exception(error), CommunicationError);
  }
}

/// Worker gradients with non-finite elements in several tensors.
std::vector<Tensors> spoiled(const Layout& layout) {
  std::vector<Tensors> workers = worker_gradients(layout, 3);
  workers[2].values[0].back() = kInfinity;
  workers[1].values[3].back() = -kInfinity;
  workers[0].values[5].back() = kInfinity;
  return workers;
}

TEST(BucketedAllReduce, NonFiniteTensorsAreTreatedAndNamedAsInOneExchange) {
  const Layout layout = mixed_layout();
  std::vector<Tensors> overflowing = worker_gradients(layout, 3);
  for (Tensors& worker : overflowing) worker.values[5].back() = worker.values[6].back() = 3e38f;
  std::vector<Tensors> both = spoiled(layout);
  for (Tensors& worker : both) worker.values[6].back() = 3e38f;
  for (const auto& workers : {spoiled(layout), overflowing, both}) {
    for (const OnNonfinite policy : {OnNonfinite::kStop, OnNonfinite::kSkip, OnNonfinite::kZero}) {
      for (const ExchangeAlgorithm algorithm : kAlgorithms) {
        CompressedAllReduceOptions options = options_of(algorithm);
        options.on_nonfinite = policy;
        const auto run = [&](GradientExchange& exchange, Tensors& mean) -> ExchangeReport {
          try {
            return exchange.exchange(tables(workers, 0, 3), mean.table, 12);
          } catch (const NonFiniteError& error) {
            ExchangeReport report;
            report.nonfinite = std::string("thrown: ") + error.what();
            return report;
          }
        };
        CompressedAllReduce whole = local_exchange(layout, 3, options);
        Tensors expected = blank_tensors(layout);
        const ExchangeReport one = run(whole, expected);
        ASSERT_FALSE(one.nonfinite.empty());
        for (const Buckets& buckets : kBuckets) {
          BucketedAllReduce exchange = local_buckets(layout, 3, options, buckets);
          Tensors mean = blank_tensors(layout);
          const ExchangeReport report = run(exchange, mean);
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

TEST(BucketedAllReduce, ContinuesAfterASkippedStepAndAfterOneThatWasLeft) {
  const Layout layout = mixed_layout();
  auto options = options_of(ExchangeAlgorithm::kAllGather);
  options.on_nonfinite = OnNonfinite::kSkip;
  BucketedAllReduce exchange = local_buckets(layout, 3, options, kBuckets[0]);
  Tensors mean = blank_tensors(layout);
  EXPECT_TRUE(exchange.exchange(tables(spoiled(layout), 0, 3), mean.table, 0).skipped);
  const std::vector<Tensors> workers = worker_gradients(layout, 3);
  exchange.begin(tables(workers, 0, 3), mean.table, 1);
  exchange.exchange_bucket(0);
  EXPECT_FALSE(exchange.exchange(tables(workers, 0, 3), mean.table, 1).skipped);
  CompressedAllReduce whole = local_exchange(layout, 3, options);
  Tensors expected = blank_tensors(layout);
  whole.exchange(tables(workers, 0, 3), expected.table, 1);
  EXPECT_TRUE(same_bits(expected.values, mean));
}

TEST(BucketedAllReduce, RefusesBucketsOutOfOrder) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, 2);
  BucketedAllReduce exchange = local_buckets(layout, 2, options_of(ExchangeAlgorithm::kAuto), kBuckets[2]);
  Tensors mean = blank_tensors(layout);
  EXPECT_THROW(exchange.exchange_bucket(0), InvalidArgument);
  EXPECT_THROW(exchange.begin(tables(workers, 0, 1), mean.table, 0), InvalidArgument);
  exchange.begin(tables(workers, 0, 2), mean.table, 0);
  EXPECT_THROW(exchange.exchange_bucket(1), InvalidArgument);
  exchange.exchange_bucket(0);
  EXPECT_THROW(exchange.exchange_bucket(0), InvalidArgument);
  EXPECT_THROW(exchange.finish(), InvalidArgument);
  exchange.exchange_bucket(1);
  EXPECT_THROW(exchange.exchange_bucket(2), InvalidArgument);
  EXPECT_NO_THROW(exchange.finish());
  EXPECT_THROW(exchange.finish(), InvalidArgument);
}

TEST(BucketedAllReduce, ACodecThatNeedsAllTensorsTakesOneBucket) {
  const Layout layout = mixed_layout();
  auto options = options_of(ExchangeAlgorithm::kAuto);
  options.codecs.codec = "ternary:scope=model";
  EXPECT_NO_THROW(local_buckets(layout, 2, options, kBuckets[3]));
  try {
    local_buckets(layout, 2, options, kBuckets[2]);
    FAIL() << "nothing was thrown";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("scaler_scope model"));
  }
  EXPECT_THROW(local_buckets(layout, 2, options_of(ExchangeAlgorithm::kAuto), {{0, 1}}), InvalidArgument);
}

TEST(BucketedAllReduce, IntegerSumNeedsSumsInSomeBucket) {
  const Layout layout = mixed_layout();
  auto options = options_of(ExchangeAlgorithm::kIntegerSum);
  options.codecs.rules = {};
  options.codecs.codec = "fp32";
  for (const Buckets& buckets : kBuckets) {
    EXPECT_THROW(local_buckets(layout, 2, options, buckets), InvalidArgument);
  }
}

}  // namespace
}  // namespace terngrad::bucketed_all_reduce_test
