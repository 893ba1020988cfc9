#include "compress/route/shard_owners.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/thread_communicator.h"

namespace terngrad::shard_owners_test {
namespace {

/// The worker group of rank `rank` of `size`; the ranks do not communicate.
WorkerGroup group_of(int num_workers, int rank, int size, int num_servers) {
  const auto meeting = std::make_shared<testing::Meeting>(size);
  return make_worker_group(num_workers, std::make_shared<testing::ThreadCommunicator>(meeting, rank), num_servers);
}

TEST(ShardOwners, OfWorkersAreTheWorkersThemselves) {
  const WorkerGroup group = group_of(5, 0, 2, 0);
  EXPECT_EQ(num_shards(group, ShardOwners::kWorkers), 5);
  EXPECT_EQ(shards_of(group, ShardOwners::kWorkers, 0).first, 0u);
  EXPECT_EQ(shards_of(group, ShardOwners::kWorkers, 0).count, 2u);
  EXPECT_EQ(shards_of(group, ShardOwners::kWorkers, 1).first, 2u);
  EXPECT_EQ(shards_of(group, ShardOwners::kWorkers, 1).end(), 5u);
}

TEST(ShardOwners, OfServersAreTheLastRanks) {
  const WorkerGroup group = group_of(5, 0, 4, 2);
  EXPECT_EQ(num_shards(group, ShardOwners::kServers), 2);
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < 4; ++rank) counts.push_back(shards_of(group, ShardOwners::kServers, rank).count);
  EXPECT_EQ(counts, (std::vector<std::size_t>{0, 0, 1, 1}));
  EXPECT_EQ(shards_of(group, ShardOwners::kServers, 2).first, 0u);
  EXPECT_EQ(shards_of(group, ShardOwners::kServers, 3).first, 1u);
}

TEST(ShardOwners, WithoutServersTheFirstRankServes) {
  const WorkerGroup group = group_of(5, 1, 3, 0);
  EXPECT_EQ(num_shards(group, ShardOwners::kServers), 1);
  EXPECT_EQ(shards_of(group, ShardOwners::kServers, 0).count, 1u);
  EXPECT_EQ(shards_of(group, ShardOwners::kServers, 1).count, 0u);
  EXPECT_EQ(shards_of(group, ShardOwners::kServers, 2).count, 0u);
}

TEST(WorkerGroupWithServers, SpreadsWorkersOverTheOtherRanks) {
  for (int rank = 0; rank < 5; ++rank) {
    const WorkerGroup group = group_of(7, rank, 5, 2);
    EXPECT_EQ(group.is_server(), rank >= 3);
    EXPECT_EQ(static_cast<const WorkerRange&>(group),
              rank < 3 ? worker_range(7, rank, 3)
                       : (WorkerRange{.num_workers = 7, .first_local_worker = 7, .num_local_workers = 0}));
    for (int other = 0; other < 3; ++other) EXPECT_EQ(group.range_of(other), worker_range(7, other, 3));
    EXPECT_EQ(group.range_of(4).num_local_workers, 0);
    EXPECT_THROW(group.range_of(5), InvalidArgument);
  }
}

TEST(WorkerGroupWithServers, NeedsARankWithWorkersAndAWorkerForEach) {
  EXPECT_THROW(group_of(4, 0, 2, 2), InvalidArgument);
  EXPECT_THROW(group_of(4, 0, 2, -1), InvalidArgument);
  EXPECT_THROW(group_of(1, 0, 3, 1), InvalidArgument);
  EXPECT_NO_THROW(group_of(1, 0, 3, 2));
}

TEST(ShardOwners, HaveNames) {
  EXPECT_EQ(to_string(ShardOwners::kWorkers), "workers");
  EXPECT_EQ(to_string(ShardOwners::kServers), "servers");
}

TEST(ShardOwners, OfRanksThatAllHaveWorkersAreTheseOrTheFirst) {
  const std::vector<WorkerRange> ranks = {worker_range(5, 0, 2), worker_range(5, 1, 2)};
  const std::vector<ShardRange> of_workers = shards_of_ranks(ranks, ShardOwners::kWorkers);
  ASSERT_EQ(of_workers.size(), 2u);
  EXPECT_EQ(of_workers[0].first, 0u);
  EXPECT_EQ(of_workers[0].count, 2u);
  EXPECT_EQ(of_workers[1].first, 2u);
  EXPECT_EQ(of_workers[1].count, 3u);
  const std::vector<ShardRange> of_server = shards_of_ranks(ranks, ShardOwners::kServers);
  ASSERT_EQ(of_server.size(), 2u);
  EXPECT_TRUE(of_server[0].has(0));
  EXPECT_EQ(of_server[0].count, 1u);
  EXPECT_EQ(of_server[1].count, 0u);
  EXPECT_FALSE(of_server[1].has(0));
  EXPECT_FALSE(of_server[1].has(1));
}

}  // namespace
}  // namespace terngrad::shard_owners_test
