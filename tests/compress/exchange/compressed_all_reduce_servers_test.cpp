// Parameter servers, in ranks of their own or together with workers.
#include "compress/exchange/all_reduce_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "compress/exchange/shard_update.h"
#include "kernels/runtime/errors.h"
#include "support/exchanges.h"
#include "support/thread_communicator.h"

namespace terngrad::compressed_all_reduce_servers_test {
namespace {

using testing::blank_tensors;
using testing::kDownlinkCodecs;
using testing::local_exchange;
using testing::mixed_layout;
using testing::options_of;
using testing::run_ranks;
using testing::same_bits;
using testing::tables;
using testing::Tensors;
using testing::worker_gradients;

CompressedAllReduceOptions servers_of(DownlinkCodec downlink_codec = DownlinkCodec::kFloat32) {
  CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAuto, downlink_codec);
  options.owners = ShardOwners::kServers;
  return options;
}

/// Options for a layout with ternary tensors only.
CompressedAllReduceOptions plain_servers() {
  CompressedAllReduceOptions options = servers_of();
  options.codecs.rules.clear();
  return options;
}

struct Ranks {
  int size = 1;
  int num_servers = 0;
};

constexpr Ranks kRanks[] = {{1, 0}, {2, 0}, {3, 0}, {2, 1}, {3, 1}, {4, 2}, {5, 3}};

/// Reports and means by rank.
struct Outcome {
  std::vector<ExchangeReport> reports;
  std::vector<Tensors> means;
};

/// Runs one exchange between ranks. @param update  makes each rank's update; nullptr: none
Outcome run(const Layout& layout, const std::vector<Tensors>& workers, const CompressedAllReduceOptions& options,
            const Ranks& ranks, const std::function<std::unique_ptr<ShardUpdate>(const WorkerGroup&)>& update = {}) {
  Outcome outcome;
  outcome.reports.resize(static_cast<std::size_t>(ranks.size));
  for (int rank = 0; rank < ranks.size; ++rank) outcome.means.push_back(blank_tensors(layout));
  const auto errors = run_ranks(ranks.size, [&](std::shared_ptr<Communicator> communicator) {
    const auto rank = static_cast<std::size_t>(communicator->rank());
    const WorkerGroup group =
        make_worker_group(static_cast<int>(workers.size()), std::move(communicator), ranks.num_servers);
    CompressedAllReduceOptions own = options;
    const std::unique_ptr<ShardUpdate> own_update = update ? update(group) : nullptr;
    own.update = own_update.get();
    CompressedAllReduce exchange(layout, group, own);
    const int first = group.is_server() ? 0 : group.first_local_worker;
    outcome.reports[rank] =
        exchange.exchange(tables(workers, first, group.num_local_workers), outcome.means[rank].table, 4);
  });
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return outcome;
}

TEST(CompressedAllReduceServers, GiveEveryRankTheBitsOfWorkersThatAggregateThemselves) {
  const Layout layout = mixed_layout();
  const auto workers = worker_gradients(layout, 5);
  for (const DownlinkCodec downlink_codec : kDownlinkCodecs) {
    CompressedAllReduce alone =
        local_exchange(layout, 5, options_of(ExchangeAlgorithm::kScatterReduce, downlink_codec));
    Tensors expected = blank_tensors(layout);
    alone.exchange(tables(workers, 0, 5), expected.table, 4);
    for (const Ranks& ranks : kRanks) {
      const Outcome outcome = run(layout, workers, servers_of(downlink_codec), ranks);
      for (const Tensors& mean : outcome.means) {
        ASSERT_TRUE(same_bits(expected.values, mean))
            << word_of(downlink_codec) << ", " << ranks.size << " ranks, " << ranks.num_servers << " servers";
      }
    }
  }
}

TEST(CompressedAllReduceServers, ReportTheBytesOfAllLegs) {
  Layout layout;
  layout.add("a", {2 * kChunkElements});
  const auto workers = worker_gradients(layout, 3);
  const std::int64_t shard = 64 + 48 + 8 + kChunkElements / 4;  // header, record, scaler, codes
  const std::int64_t mean = 64 + 48 + kChunkElements * 4;
  const std::int64_t scalers = 64 + 48 + 8;
  const Outcome outcome = run(layout, workers, plain_servers(), {.size = 4, .num_servers = 2});
  // Ranks 0 and 1 have one and two workers; ranks 2 and 3 serve one shard each.
  EXPECT_EQ(outcome.reports[0].gradient.sent, 2 * shard);
  EXPECT_EQ(outcome.reports[1].gradient.sent, 4 * shard);
  EXPECT_EQ(outcome.reports[0].gradient.received + outcome.reports[1].gradient.received, 0);
  EXPECT_EQ(outcome.reports[0].mean.received, 2 * mean);
  EXPECT_EQ(outcome.reports[1].mean.received, 4 * mean);
  // Servers receive the scalers, too.
  EXPECT_EQ(outcome.reports[1].scalers.sent, 4 * 2 * scalers);
  EXPECT_EQ(outcome.reports[1].scalers.received, (3 + 3 - 2) * scalers);
  EXPECT_EQ(outcome.reports[1].num_workers, 2);
  for (const std::size_t server : {2u, 3u}) {
    // A shard of the mean goes to three workers and the other server.
    EXPECT_EQ(outcome.reports[server].servers.sent, 4 * mean);
    EXPECT_EQ(outcome.reports[server].servers.received, 3 * scalers + 3 * shard + mean);
    EXPECT_EQ(outcome.reports[server].workers().sent + outcome.reports[server].workers().received, 0);
    EXPECT_EQ(outcome.reports[server].num_workers, 0);
    EXPECT_EQ(outcome.reports[server].num_servers, 1);
  }
}

TEST(CompressedAllReduceServers, BesideWorkersSendToTheOthers) {
  Layout layout;
  layout.add("a", {kChunkElements});
  const Outcome outcome = run(layout, worker_gradients(layout, 3), plain_servers(), {});
  const ExchangeReport& report = outcome.reports[0];
  const std::int64_t shard = 64 + 48 + 8 + kChunkElements / 4;
  const std::int64_t mean = 64 + 48 + kChunkElements * 4;
  const std::int64_t scalers = 64 + 48 + 8;
  // Worker 0's process is the server: it does not count as a worker, and keeps its own gradient.
  EXPECT_EQ(report.num_workers, 2);
  EXPECT_EQ(report.num_servers, 1);
  EXPECT_EQ(report.gradient.sent, 2 * shard);
  EXPECT_EQ(report.mean.received, 2 * mean);
  EXPECT_EQ(report.servers.sent, 2 * (scalers + mean));
  EXPECT_EQ(report.servers.received, 2 * (scalers + shard));
}

/// Adds a number to all elements, and records the shards.
class AddingUpdate final : public ShardUpdate {
 public:
  AddingUpdate(float summand, std::multiset<std::size_t>& seen, std::mutex& mutex)
      : summand_(summand), seen_(seen), mutex_(mutex) {}
  void update(std::size_t shard, std::span<const Slice> slices, const TensorTable& values,
              std::uint64_t step) override {
    EXPECT_EQ(step, 4u);
    for (const Slice& slice : slices) {
      for (std::int64_t i = 0; i < slice.count; ++i) values.slice(slice)[i] += summand_;
    }
    const std::lock_guard lock(mutex_);
    seen_.insert(shard);
  }

 private:
  float summand_;
  std::multiset<std::size_t>& seen_;
  std::mutex& mutex_;
};

class ShardUpdates : public ::testing::Test {
 protected:
  Outcome run_adding(const std::vector<Tensors>& workers, const CompressedAllReduceOptions& options,
                     const Ranks& ranks) {
    return run(layout_, workers, options, ranks,
               [this](const WorkerGroup&) { return std::make_unique<AddingUpdate>(0.5f, seen_, mutex_); });
  }
  Layout layout_ = mixed_layout();
  std::multiset<std::size_t> seen_;
  std::mutex mutex_;
};

TEST_F(ShardUpdates, TravelInPlaceOfTheMean) {
  const auto workers = worker_gradients(layout_, 4);
  Tensors expected = blank_tensors(layout_);
  local_exchange(layout_, 4, options_of(ExchangeAlgorithm::kAllGather))
      .exchange(tables(workers, 0, 4), expected.table, 4);
  for (auto& tensor : expected.values) {
    for (float& value : tensor) value += 0.5f;
  }
  for (const Ranks& ranks : {Ranks{1, 0}, Ranks{3, 1}, Ranks{5, 3}}) {
    seen_.clear();
    const Outcome outcome = run_adding(workers, servers_of(), ranks);
    for (const Tensors& mean : outcome.means) ASSERT_TRUE(same_bits(expected.values, mean)) << ranks.size;
    EXPECT_EQ(seen_.size(), static_cast<std::size_t>(std::max(ranks.num_servers, 1)));
    EXPECT_EQ(std::set(seen_.begin(), seen_.end()).size(), seen_.size());
  }
}

TEST_F(ShardUpdates, DoNotHappenInAStepThatIsDropped) {
  auto options = servers_of();
  options.on_nonfinite = OnNonfinite::kSkip;
  options.codecs.codec = "fp32";
  const Ranks ranks{4, 2};
  // A non-finite gradient, and finite gradients whose mean overflows in the last server's shard.
  for (const bool overflows : {false, true}) {
    auto workers = worker_gradients(layout_, 4);
    if (overflows) {
      for (Tensors& worker : workers) worker.values[5][100] = std::numeric_limits<float>::max();
    } else {
      workers[2].values[0][7] = std::numeric_limits<float>::infinity();
    }
    seen_.clear();
    const Outcome outcome = run_adding(workers, options, ranks);
    for (const ExchangeReport& report : outcome.reports) {
      EXPECT_TRUE(report.skipped);
      EXPECT_EQ(report.nonfinite, outcome.reports[0].nonfinite);
      EXPECT_THAT(report.nonfinite, ::testing::HasSubstr(overflows ? "'plain'" : "'conv/weights' of worker 2"));
    }
    EXPECT_TRUE(seen_.empty());
  }
}

TEST_F(ShardUpdates, OfAMeanThatOverflowsCanCountAsZero) {
  auto options = servers_of();
  options.on_nonfinite = OnNonfinite::kZero;
  options.codecs.codec = "fp32";
  auto workers = worker_gradients(layout_, 4);
  for (Tensors& worker : workers) worker.values[3][8000] = std::numeric_limits<float>::max();
  const Outcome outcome = run_adding(workers, options, {4, 2});
  for (const Tensors& mean : outcome.means) {
    // Zeros in the whole tensor, although each server has only a part.
    EXPECT_THAT(mean.values[3], ::testing::Each(0.5f));
    EXPECT_NE(mean.values[0][0], 0.5f);
  }
  EXPECT_FALSE(outcome.reports[3].skipped);
  EXPECT_THAT(outcome.reports[3].nonfinite, ::testing::HasSubstr("'fc/weights'"));
}

TEST_F(ShardUpdates, AndServersRefuseWhatTheyCannotDo) {
  AddingUpdate update(0, seen_, mutex_);
  const auto expect_refused = [&](const CompressedAllReduceOptions& options, const std::string& why) {
    try {
      local_exchange(layout_, 2, options);
      ADD_FAILURE() << "expected: " << why;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(why));
    }
  };
  auto options = servers_of();
  options.algorithm = ExchangeAlgorithm::kAllGather;
  expect_refused(options, "algorithm all_gather");
  options = servers_of(DownlinkCodec::kTernary);
  options.update = &update;
  expect_refused(options, "downlink_codec ternary");
  options = options_of(ExchangeAlgorithm::kScatterReduce);
  options.update = &update;
  expect_refused(options, "needs servers that own them");
  options = servers_of();
  options.update = &update;
  const WorkerGroup group = make_worker_group(2, make_self_communicator());
  CompressedAllReduce exchange(layout_, group, options);
  EXPECT_THROW(exchange.part(std::vector{0, 1, 2}), InvalidArgument);
  EXPECT_THROW(exchange.part(std::vector{1, 0, 2, 3, 4, 5, 6}), InvalidArgument);
  EXPECT_NO_THROW(exchange.part(std::vector{0, 1, 2, 3, 4, 5, 6}));
  const auto meeting = std::make_shared<testing::Meeting>(2);
  const WorkerGroup served = make_worker_group(2, std::make_shared<testing::ThreadCommunicator>(meeting, 0), 1);
  EXPECT_THROW(CompressedAllReduce(layout_, served, options_of(ExchangeAlgorithm::kAuto)), InvalidArgument);
}

TEST_F(ShardUpdates, OfSomeRanksOnlyAreRefused) {
  const auto workers = worker_gradients(layout_, 2);
  const auto on_server_only = [&](const WorkerGroup& group) -> std::unique_ptr<ShardUpdate> {
    if (!group.is_server()) return nullptr;
    return std::make_unique<AddingUpdate>(0.5f, seen_, mutex_);
  };
  EXPECT_THROW(run(layout_, workers, servers_of(), {3, 1}, on_server_only), CommunicationError);
}

}  // namespace
}  // namespace terngrad::compressed_all_reduce_servers_test
