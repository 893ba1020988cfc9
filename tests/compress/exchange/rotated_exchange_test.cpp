// Exchanges of rotated tensors: the mean is rotated back, by all algorithms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "compress/codecs/qsgd_codec.h"
#include "compress/codecs/ternary_codec.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "compress/exchange/shard_update.h"
#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"
#include "support/exchanges.h"
#include "support/thread_communicator.h"

namespace terngrad::rotated_exchange_test {
namespace {

using testing::blank_tensors;
using testing::exchange_in;
using testing::kAlgorithms;
using testing::kDownlinkCodecs;
using testing::mixed_layout;
using testing::options_of;
using testing::run_ranks;
using testing::same_bits;
using testing::tables;
using testing::Tensors;
using testing::worker_gradients;

constexpr int kWorkers = 5;
constexpr std::uint64_t kStep = 4;
const Buckets kBuckets = {{6, 5}, {4, 2, 3}, {0, 1}};

/// Codecs whose codes can be summed; below, codecs with unshared scalers.
constexpr const char* kShared[] = {"thc", "qsgd:bits=8,sharing=max,rotate=64", "ternary:rotate=4096",
                                   "ternary:scope=block,block=192,sharing=mean,format=tmask,rotate=256"};
constexpr const char* kOwn[] = {"qsgd:rotate=1024",
                                "qsgd:bits=2,norm=l2,block=0,rotate=128",
                                "ternary:sharing=none,rotate=512",
                                "ternary:levels=asymmetric,rotate=2048",
                                "sign:scale=drive,rotate=1024",
                                "sign:block=64,rotate=64",
                                "eden:rotate=1024",
                                "eden:levels=8,scale=least"};

CompressedAllReduceOptions options_for(const char* codec, ExchangeAlgorithm algorithm,
                                       DownlinkCodec downlink = DownlinkCodec::kFloat32) {
  CompressedAllReduceOptions options = options_of(algorithm, downlink);
  options.codecs.codec = codec;
  return options;
}

Tensors alone(const Layout& layout, const std::vector<Tensors>& workers, const CompressedAllReduceOptions& options) {
  Tensors mean = blank_tensors(layout);
  CompressedAllReduce exchange = testing::local_exchange(layout, kWorkers, options);
  exchange.exchange(tables(workers, 0, kWorkers), mean.table, kStep);
  return mean;
}

/// Expects the mean on each of `size` ranks, with these buckets.
void expect_on_ranks(const Tensors& expected, const Layout& layout, const std::vector<Tensors>& workers,
                     const CompressedAllReduceOptions& options, int size, const Buckets& buckets) {
  std::vector<Tensors> means;
  for (int rank = 0; rank < size; ++rank) means.push_back(blank_tensors(layout));
  const auto errors = run_ranks(size, [&](std::shared_ptr<Communicator> communicator) {
    const auto rank = static_cast<std::size_t>(communicator->rank());
    const WorkerGroup group = make_worker_group(kWorkers, std::move(communicator));
    CompressedAllReduce exchange(layout, group, options);
    exchange_in(buckets, exchange, tables(workers, group.first_local_worker, group.num_local_workers),
                means[rank].table, kStep);
  });
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  for (const Tensors& mean : means) {
    ASSERT_TRUE(same_bits(expected.values, mean))
        << testing::options_text(options) << ", " << size << " ranks, " << buckets.size() << " buckets";
  }
}

// Contract B2. The mean also equals that of the workers' messages, each rotated back.
TEST(RotatedExchange, GivesOneMeanByEveryAlgorithmOnAnyRanksInAnyBuckets) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, kWorkers);
  const Buckets whole = {{0, 1, 2, 3, 4, 5, 6}};
  const auto check = [&](const char* codec, DownlinkCodec downlink, bool has_sums) {
    const Tensors expected = alone(layout, workers, options_for(codec, ExchangeAlgorithm::kAllGather, downlink));
    for (const ExchangeAlgorithm algorithm : kAlgorithms) {
      if (algorithm == ExchangeAlgorithm::kIntegerSum && !has_sums) continue;
      for (const int size : {1, 2, 3}) {
        const CompressedAllReduceOptions options = options_for(codec, algorithm, downlink);
        expect_on_ranks(expected, layout, workers, options, size, whole);
        if (algorithm != ExchangeAlgorithm::kIntegerSum) {
          expect_on_ranks(expected, layout, workers, options, size, kBuckets);
        }
      }
    }
  };
  for (const char* codec : kShared) {
    for (const DownlinkCodec downlink : kDownlinkCodecs) check(codec, downlink, true);
  }
  for (const char* codec : kOwn) {
    for (const DownlinkCodec downlink : {DownlinkCodec::kFloat32, DownlinkCodec::kBfloat16}) {
      check(codec, downlink, false);
    }
  }
}

TEST(RotatedExchange, GivesTheMeanOfWhatWorkersSent) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, kWorkers);
  const auto check = [&](const char* codec, DownlinkCodec downlink, double tolerance) {
    CompressedAllReduce exchange =
        testing::local_exchange(layout, kWorkers, options_for(codec, ExchangeAlgorithm::kScatterReduce, downlink));
    const Tensors mean = blank_tensors(layout);
    exchange.exchange(tables(workers, 0, kWorkers), mean.table, kStep);
    for (int segment = 0; segment < layout.num_segments(); ++segment) {
      const auto n = static_cast<std::size_t>(layout.segment(segment).num_elements);
      std::vector<double> sum(n);
      for (int worker = 0; worker < kWorkers; ++worker) {
        std::vector<float> sent(n);
        exchange.decode_local(worker, segment, sent);
        for (std::size_t i = 0; i < n; ++i) sum[i] += static_cast<double>(sent[i]);
      }
      const std::vector<float>& found = mean.values[static_cast<std::size_t>(segment)];
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_NEAR(static_cast<double>(found[i]), sum[i] / kWorkers, tolerance)
            << codec << ", " << word_of(downlink) << ", tensor " << segment << ", element " << i;
      }
    }
  };
  for (const char* codec : kShared)
    check(codec, DownlinkCodec::kSums, codec == std::string("ternary:rotate=4096") ? 1e-4 : 2e-5);
  for (const char* codec : kOwn) check(codec, DownlinkCodec::kFloat32, 2e-5);
  // Rounding errors of the rotated mean, with elements up to 8, spread over a run.
  check("qsgd:rotate=1024", DownlinkCodec::kBfloat16, 0.03);
}

// The memory keeps h - d, with d rotated back: sums of sent values follow those of gradients, bit for bit on any
// device.
TEST(RotatedExchange, KeepsWhatIsMissingOfTheGradientItself) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, kWorkers);
  for (const char* codec :
       {"thc", "ternary:rounding=nearest,clip_factor=1.22,rotate=1024", "sign:rotate=256", "eden"}) {
    CompressedAllReduce exchange(layout, make_worker_group(kWorkers, make_self_communicator()),
                                 options_for(codec, ExchangeAlgorithm::kAllGather), parse_memory("ef"));
    constexpr int kTensor = 3;
    const auto n = static_cast<std::size_t>(layout.segment(kTensor).num_elements);
    const auto at = static_cast<std::size_t>(layout.segment(kTensor).offset);
    std::vector<double> missing(n);
    for (std::uint64_t step = 0; step < 4; ++step) {
      const Tensors mean = blank_tensors(layout);
      exchange.exchange(tables(workers, 0, kWorkers), mean.table, step);
      std::vector<float> sent(n);
      exchange.decode_local(2, kTensor, sent);
      for (std::size_t i = 0; i < n; ++i) {
        missing[i] += static_cast<double>(workers[2].values[kTensor][i]) - static_cast<double>(sent[i]);
        ASSERT_NEAR(static_cast<double>(exchange.memory()->state(2)[at + i]), missing[i], 2e-5)
            << codec << ", step " << step << ", element " << i;
      }
    }
  }
}

/// Copies the values that it is given, without changing them.
class NotingUpdate final : public ShardUpdate {
 public:
  explicit NotingUpdate(const TensorTable& noted) : noted_(noted) {}
  void update(std::size_t, std::span<const Slice> slices, const TensorTable& values, std::uint64_t) override {
    for (const Slice& slice : slices) std::copy_n(values.slice(slice), slice.count, noted_.slice(slice));
  }

 private:
  const TensorTable& noted_;
};

// Parameters that are sent instead of a mean are not rotated.
TEST(RotatedExchange, ServersUpdateWithTheMeanAndSendTheUpdate) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, kWorkers);
  for (const char* codec : {"thc", "qsgd:rotate=1024", "sign:scale=drive,rotate=4096", "eden"}) {
    CompressedAllReduceOptions options = options_for(codec, ExchangeAlgorithm::kAuto);
    const Tensors expected = alone(layout, workers, options);
    options.owners = ShardOwners::kServers;
    for (const int size : {1, 2, 3}) {
      std::vector<Tensors> means;
      for (int rank = 0; rank < size; ++rank) means.push_back(blank_tensors(layout));
      const Tensors noted = blank_tensors(layout);
      const auto errors = run_ranks(size, [&](std::shared_ptr<Communicator> communicator) {
        const auto rank = static_cast<std::size_t>(communicator->rank());
        const WorkerGroup group = make_worker_group(kWorkers, std::move(communicator), size == 3 ? 1 : 0);
        NotingUpdate update(noted.table);
        CompressedAllReduceOptions own = options;
        own.update = &update;
        CompressedAllReduce exchange(layout, group, own);
        const int first = group.is_server() ? 0 : group.first_local_worker;
        exchange.exchange(tables(workers, first, group.num_local_workers), means[rank].table, kStep);
      });
      for (const auto& error : errors) {
        if (error) std::rethrow_exception(error);
      }
      ASSERT_TRUE(same_bits(expected.values, noted)) << codec << ", " << size << " ranks";
      for (const Tensors& mean : means) ASSERT_TRUE(same_bits(expected.values, mean)) << codec << ", " << size;
    }
  }
}

// Scalers are measured after the rotation: measured before, a block of zeros would lose its part of the rotated run.
TEST(RotatedExchange, MeasuresWhatItEncodes) {
  Layout layout;
  layout.add("w", {1024});
  std::vector<Tensors> workers;
  workers.push_back(blank_tensors(layout));
  std::fill(workers[0].values[0].begin(), workers[0].values[0].end(), 0.0f);
  const std::vector<float> half = testing::gaussian(512, 3);
  std::copy(half.begin(), half.end(), workers[0].values[0].begin());
  CompressedAllReduceOptions options = options_for("thc", ExchangeAlgorithm::kAllGather);
  options.codecs.rules.clear();
  CompressedAllReduce exchange = testing::local_exchange(layout, 1, options);
  const Tensors mean = blank_tensors(layout);
  exchange.exchange(tables(workers, 0, 1), mean.table, kStep);
  double error = 0;
  double power = 0;
  for (std::size_t i = 0; i < 1024; ++i) {
    const auto g = static_cast<double>(workers[0].values[0][i]);
    error += std::pow(static_cast<double>(mean.values[0][i]) - g, 2);
    power += g * g;
  }
  EXPECT_LT(error / power, 0.04);
}

// Sums of finite numbers may overflow fp32: the tensor is reported, and counts as zeros.
TEST(RotatedExchange, ReportsWhatOverflows) {
  Layout layout;
  layout.add("w", {4096});
  std::vector<Tensors> workers;
  workers.push_back(blank_tensors(layout));
  for (const char* codec : {"qsgd:sharing=max,rotate=4096", "qsgd:norm=rms,rotate=4096", "ternary:rotate=4096",
                            "ternary:sharing=none,scope=block,block=4096,rotate=4096", "sign:rotate=4096", "eden"}) {
    CompressedAllReduceOptions options = options_for(codec, ExchangeAlgorithm::kAllGather);
    options.codecs.rules.clear();
    options.on_nonfinite = OnNonfinite::kZero;
    CompressedAllReduce exchange = testing::local_exchange(layout, 1, options);
    const Tensors mean = blank_tensors(layout);
    for (const float value : {0x1p100f, 0x1p124f}) {
      std::fill(workers[0].values[0].begin(), workers[0].values[0].end(), value);
      const ExchangeReport report = exchange.exchange(tables(workers, 0, 1), mean.table, kStep);
      const bool is_zero = std::ranges::all_of(mean.values[0], [](float x) { return x == 0; });
      EXPECT_EQ(report.nonfinite.empty(), value == 0x1p100f) << codec;
      EXPECT_EQ(is_zero, value == 0x1p124f) << codec;
    }
  }
  // The rotation of one large element is finite, and what is turned back overflows.
  for (const char* codec : {"sign:rotate=4096", "ternary:rotate=4096", "eden"}) {
    CompressedAllReduceOptions options = options_for(codec, ExchangeAlgorithm::kAllGather);
    options.codecs.rules.clear();
    options.on_nonfinite = OnNonfinite::kSkip;
    CompressedAllReduce exchange = testing::local_exchange(layout, 1, options);
    const Tensors mean = blank_tensors(layout);
    std::ranges::fill(workers[0].values[0], 0.0f);
    workers[0].values[0][0] = 1e37f;
    const ExchangeReport report = exchange.exchange(tables(workers, 0, 1), mean.table, kStep);
    EXPECT_TRUE(report.skipped) << codec;
  }
}

TEST(RotatedExchange, RefusesVotesAndRunsOfOtherLengths) {
  const auto refusal = [](const std::string& spec) -> std::string {
    try {
      make_codec(spec, {});
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal("sign:reduce=vote,rotate=64"),
              ::testing::HasSubstr("[sign] rotate=64: a vote is no sum, so it cannot be turned back; accepted with "
                                   "reduce=vote: rotate=0"));
  EXPECT_THAT(refusal("qsgd:rotate=100"),
              ::testing::HasSubstr("[qsgd] rotate=100 is refused; accepted: one of 0, 64, 128, 256, 512, 1024, 2048, "
                                   "4096"));
  EXPECT_EQ(refusal("sign:reduce=vote,rotate=0"), "");
  EXPECT_THROW(QsgdCodec({.rotation = 32}), InvalidArgument);
  EXPECT_THROW(TernaryCodec({.rotation = 8192}), InvalidArgument);
}

// Without rotation the texts are unchanged.
TEST(RotatedExchange, IsInTheCodecsTextsWhereThereIsARotation) {
  EXPECT_EQ(make_codec("qsgd", {})->options_text(),
            "bits=4 norm=max block=512 rounding=stochastic sharing=none workers=1");
  EXPECT_EQ(make_codec("qsgd:rotate=64", {})->options_text(),
            "bits=4 norm=max block=512 rounding=stochastic sharing=none rotate=64 workers=1");
  EXPECT_EQ(to_string(canonical_codec_spec("sign:rotate=0")), "sign:reduce=mean,scale=l1,zeros=alternate,block=0");
  EXPECT_EQ(to_string(canonical_codec_spec("sign:rotate=128")),
            "sign:reduce=mean,scale=l1,zeros=alternate,block=0,rotate=128");
}

}  // namespace
}  // namespace terngrad::rotated_exchange_test
