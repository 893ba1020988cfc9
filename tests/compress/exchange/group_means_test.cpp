// Exchanges in two levels: groups of workers exchange the mean of their gradients as one worker each.
#include "compress/exchange/group_means.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "compress/memory/worker_memory.h"
#include "compress/transport/grouped_peers.h"
#include "kernels/runtime/errors.h"
#include "support/exchanges.h"
#include "support/thread_communicator.h"
#include "support/thread_device_communicator.h"

namespace terngrad::group_means_test {
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

constexpr std::uint64_t kSteps = 2;

CompressedAllReduceOptions options_with(const std::string& codec, OnNonfinite on_nonfinite = OnNonfinite::kStop) {
  CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAuto);
  options.codecs.codec = codec;
  options.on_nonfinite = on_nonfinite;
  return options;
}

/// The uncompressed mean of each group, by exchanges of their own.
std::vector<Tensors> means_of_groups(const Layout& layout, const std::vector<Tensors>& workers, int workers_per_group) {
  std::vector<Tensors> means;
  for (int first = 0; first < static_cast<int>(workers.size()); first += workers_per_group) {
    CompressedAllReduceOptions plain;
    plain.codecs.codec = "fp32";
    CompressedAllReduce exchange = testing::local_exchange(layout, workers_per_group, plain);
    means.push_back(blank_tensors(layout));
    exchange.exchange(tables(workers, first, workers_per_group), means.back().table, 0);
  }
  return means;
}

struct Expected {
  Tensors mean;
  ExchangeBytes bytes;
};

/// The exchange of the groups' means by one process.
Expected expected_of(const Layout& layout, const std::vector<Tensors>& groups, const std::string& codec,
                     const std::string& memory) {
  const auto num_groups = static_cast<int>(groups.size());
  CompressedAllReduce exchange(layout, make_worker_group(num_groups, make_self_communicator()), options_with(codec),
                               parse_memory(memory));
  Expected expected{blank_tensors(layout), {}};
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    expected.bytes = exchange.exchange(tables(groups, 0, num_groups), expected.mean.table, step);
  }
  return expected;
}

/// Sums of bytes over ranks, which are threads.
class Total {
 public:
  void add(const ExchangeBytes& bytes) {
    const std::lock_guard lock(mutex_);
    sum_ += bytes;
  }
  const ExchangeBytes& sum() const { return sum_; }

 private:
  std::mutex mutex_;
  ExchangeBytes sum_;
};

struct Groups {
  int num_workers;
  int workers_per_group;
  int num_ranks;
};

/// Several groups a rank; one; 2, 3 or 4 ranks a group; one worker a rank or several.
const std::vector<Groups> kGroups = {{8, 2, 1}, {8, 2, 2}, {8, 2, 4}, {8, 2, 8}, {8, 4, 1}, {8, 4, 2},
                                     {8, 4, 4}, {8, 4, 8}, {6, 3, 2}, {6, 3, 4}, {6, 3, 6}};

TEST(GroupMeans, HaveTheBitsOfWorkersWithTheirMeansOnAnyRanks) {
  const Layout layout = mixed_layout();
  for (const auto& [codec, memory] :
       std::vector<std::pair<std::string, std::string>>{{"ternary:clip_factor=2.5", "none"},
                                                        {"sign", "ef"},
                                                        {"topk:density=0.1", "ef"},
                                                        {"powersgd", "ef"},
                                                        {"eden", "ef21:decay=0.5"}}) {
    for (const auto& [num_workers, workers_per_group, num_ranks] : kGroups) {
      const std::vector<Tensors> workers = worker_gradients(layout, num_workers);
      const std::vector<Tensors> groups = means_of_groups(layout, workers, workers_per_group);
      const Expected expected = expected_of(layout, groups, codec, memory);
      const std::string what = codec + " " + std::to_string(num_workers) + " / " + std::to_string(workers_per_group) +
                               " on " + std::to_string(num_ranks);
      Total total;
      const auto errors = run_ranks(num_ranks, [&](const std::shared_ptr<Communicator>& communicator) {
        const WorkerGroup own = make_worker_group(num_workers, communicator);
        CompressedAllReduce exchange(layout, grouped_peers(own, workers_per_group), options_with(codec),
                                     parse_memory(memory));
        Tensors mean = blank_tensors(layout);
        const auto gradients = tables(workers, own.first_local_worker, own.num_local_workers);
        ExchangeReport report;
        for (std::uint64_t step = 0; step < kSteps; ++step) report = exchange.exchange(gradients, mean.table, step);
        EXPECT_TRUE(same_bits(expected.mean.values, mean)) << what << ", rank " << communicator->rank();
        total.add(report);
      });
      for (const auto& error : errors) EXPECT_FALSE(error) << what;
      // Groups are the nodes whose bytes count.
      EXPECT_EQ(total.sum().num_workers, num_workers / workers_per_group) << what;
      EXPECT_EQ(total.sum().sent_bytes(), expected.bytes.sent_bytes()) << what;
      EXPECT_EQ(total.sum().received_bytes(), expected.bytes.received_bytes()) << what;
    }
  }
}

TEST(GroupMeans, HaveTheSameBitsInFixedPlacesAndInParts) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, 8);
  const Expected expected = expected_of(layout, means_of_groups(layout, workers, 2), "ternary", "none");
  const auto in_parts = [&](CompressedAllReduce& exchange, const WorkerRange& own) {
    Tensors mean = blank_tensors(layout);
    const auto gradients = tables(workers, own.first_local_worker, own.num_local_workers);
    testing::exchange_in({{6, 5}, {2}, {4, 3, 1, 0}}, exchange, gradients, mean.table, kSteps - 1);
    EXPECT_TRUE(same_bits(expected.mean.values, mean));
  };
  for (const int num_ranks : {2, 8}) {
    const auto errors = testing::run_device_ranks(num_ranks, [&](const std::shared_ptr<DeviceCommunicator>& all) {
      const WorkerRange own = worker_range(8, all->rank(), num_ranks);
      CompressedAllReduce exchange(layout, grouped_peers(own, 2, all), options_with("ternary"),
                                   Stream(Device::cpu(), 1));
      in_parts(exchange, own);
    });
    for (const auto& error : errors) EXPECT_FALSE(error);
  }
  const auto errors = run_ranks(8, [&](const std::shared_ptr<Communicator>& communicator) {
    const WorkerGroup own = make_worker_group(8, communicator);
    CompressedAllReduce exchange(layout, grouped_peers(own, 2), options_with("ternary"));
    in_parts(exchange, own);
  });
  for (const auto& error : errors) EXPECT_FALSE(error);
}

TEST(GroupMeans, AreWhatIsEncodedByTheFirstRank) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, 4);
  const std::vector<Tensors> groups = means_of_groups(layout, workers, 2);
  const auto errors = run_ranks(4, [&](const std::shared_ptr<Communicator>& communicator) {
    const int rank = communicator->rank();
    CompressedAllReduce exchange(layout, grouped_peers(make_worker_group(4, communicator), 2), options_with("ternary"));
    Tensors mean = blank_tensors(layout);
    exchange.exchange(tables(workers, rank, 1), mean.table, 0);
    std::vector<float> sent(7);
    if (rank % 2 == 1) {
      EXPECT_EQ(exchange.workers().num_local_workers, 0);
      EXPECT_THROW(exchange.decode_local(0, 1, sent), InvalidArgument);
      EXPECT_THROW(exchange.group_mean(0, 1), InvalidArgument);
      return;
    }
    EXPECT_GT(exchange.decode_local(0, 1, sent), 0);
    EXPECT_TRUE(exchange.encoded(0, 1).empty());
    const std::span<const float> given = exchange.group_mean(0, 1);
    EXPECT_EQ(std::vector<float>(given.begin(), given.end()), groups[static_cast<std::size_t>(rank) / 2].values[1]);
  });
  for (const auto& error : errors) EXPECT_FALSE(error);
}

TEST(GroupMeans, NameTheGroupWhoseMeanIsNotFinite) {
  const Layout layout = mixed_layout();
  for (const OnNonfinite policy : {OnNonfinite::kSkip, OnNonfinite::kStop, OnNonfinite::kZero}) {
    for (const int num_ranks : {1, 2, 4}) {
      const auto errors = run_ranks(num_ranks, [&](const std::shared_ptr<Communicator>& communicator) {
        std::vector<Tensors> workers = worker_gradients(layout, 4);
        workers[3].values[3].back() = std::numeric_limits<float>::infinity();
        const WorkerGroup own = make_worker_group(4, communicator);
        CompressedAllReduce exchange(layout, grouped_peers(own, 2), options_with("ternary", policy));
        Tensors mean = blank_tensors(layout);
        const auto gradients = tables(workers, own.first_local_worker, own.num_local_workers);
        std::string message;
        try {
          const ExchangeReport report = exchange.exchange(gradients, mean.table, 12);
          EXPECT_EQ(report.skipped, policy == OnNonfinite::kSkip);
          message = report.nonfinite;
        } catch (const NonFiniteError& error) {
          EXPECT_EQ(policy, OnNonfinite::kStop);
          message = error.what();
        }
        EXPECT_THAT(message, HasSubstr("step 12: tensor 'fc/weights' of group 1 holds NaN")) << num_ranks;
        // The next step is an ordinary one.
        workers[3].values[3].back() = 1;
        EXPECT_FALSE(exchange.exchange(gradients, mean.table, 13).skipped);
      });
      for (const auto& error : errors) EXPECT_FALSE(error);
    }
  }
}

TEST(GroupMeans, TakeAsManyGradientsAsThereAreWorkers) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, 4);
  CompressedAllReduce exchange(layout, grouped_peers(make_worker_group(4, make_self_communicator()), 2),
                               options_with("ternary"));
  Tensors mean = blank_tensors(layout);
  EXPECT_THROW(exchange.exchange(tables(workers, 0, 2), mean.table, 0), InvalidArgument);
  EXPECT_THROW(exchange.exchange(tables(workers, 0, 3), mean.table, 0), InvalidArgument);
  EXPECT_NO_THROW(exchange.exchange(tables(workers, 0, 4), mean.table, 0));
}

TEST(GroupMeans, RefuseServers) {
  CompressedAllReduceOptions served = options_with("ternary");
  served.owners = ShardOwners::kServers;
  const ExchangePeers groups = grouped_peers(make_worker_group(4, make_self_communicator()), 2);
  EXPECT_THROW(CompressedAllReduce(mixed_layout(), groups, served), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::group_means_test
