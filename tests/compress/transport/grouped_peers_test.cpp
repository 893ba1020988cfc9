#include "compress/transport/grouped_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/thread_communicator.h"
#include "support/thread_device_communicator.h"

namespace terngrad::grouped_peers_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::run_ranks;

/// "groups first+count of all; workers first+count of a group by ranks, ..." of each rank.
std::vector<std::string> places(int num_workers, int workers_per_group, int num_ranks) {
  std::vector<std::string> places(static_cast<std::size_t>(num_ranks));
  run_ranks(num_ranks, [&](const std::shared_ptr<Communicator>& communicator) {
    const ExchangePeers peers = grouped_peers(make_worker_group(num_workers, communicator), workers_per_group);
    const auto range_text = [](const WorkerRange& range) {
      return std::to_string(range.first_local_worker) + "+" + std::to_string(range.num_local_workers) + " of " +
             std::to_string(range.num_workers);
    };
    std::string text = range_text(peers.group);
    EXPECT_EQ(peers.takes_part(), peers.group.num_local_workers > 0);
    if (peers.takes_part()) text += " by " + std::to_string(peers.group.communicator->size());
    for (const WorkerGroup& group : peers.members.groups) {
      text += ", " + range_text(group) + " by " + std::to_string(group.communicator->size());
    }
    places[static_cast<std::size_t>(communicator->rank())] = text;
  });
  return places;
}

TEST(GroupedPeers, AreWholeGroupsOrRanksOfOne) {
  EXPECT_THAT(places(4, 2, 1), ElementsAre("0+2 of 2 by 1, 0+2 of 2 by 1, 0+2 of 2 by 1"));
  EXPECT_THAT(places(4, 2, 2), ElementsAre("0+1 of 2 by 2, 0+2 of 2 by 1", "1+1 of 2 by 2, 0+2 of 2 by 1"));
  EXPECT_THAT(places(6, 3, 4), ElementsAre("0+1 of 2 by 2, 0+1 of 3 by 2", "0+0 of 2, 1+2 of 3 by 2",
                                           "1+1 of 2 by 2, 0+1 of 3 by 2", "1+0 of 2, 1+2 of 3 by 2"));
  EXPECT_THAT(places(2, 1, 2), ElementsAre("0+1 of 2 by 2", "1+1 of 2 by 2"));
}

TEST(GroupedPeers, AHostsWorkersMayBeAGroup) {
  using Hosts = std::vector<std::string>;
  EXPECT_EQ(workers_per_host(4, Hosts{"a", "a", "b", "b"}), 2);
  EXPECT_EQ(workers_per_host(12, Hosts{"b", "b", "a", "a"}), 6);
  EXPECT_EQ(workers_per_host(6, Hosts{"a", "b"}), 3);
  EXPECT_EQ(workers_per_host(6, Hosts{"a", "a", "a", "b", "b", "b"}), 3);
  EXPECT_EQ(workers_per_host(4, Hosts{"a", "a", "a", "a"}), 1) << "one host";
  EXPECT_EQ(workers_per_host(4, Hosts{"a", "b", "a", "b"}), 1) << "ranks of a host are not consecutive";
  EXPECT_EQ(workers_per_host(4, Hosts{"a", "a", "a", "b"}), 1) << "unequal hosts";
  EXPECT_EQ(workers_per_host(3, Hosts{"a", "a", "b"}), 1) << "unequal hosts";
  EXPECT_EQ(workers_per_host(5, Hosts{"a", "a", "b", "b"}), 1) << "unequal numbers of workers";
}

TEST(GroupedPeers, SayWhatNumbersWouldDo) {
  EXPECT_EQ(groups_unsupported_reason(8, 2, 2), "");
  EXPECT_EQ(groups_unsupported_reason(8, 2, 8), "");
  EXPECT_EQ(groups_unsupported_reason(7, 1, 3), "");
  EXPECT_EQ(groups_unsupported_reason(8, 3, 1), "it must divide the 8 workers");
  EXPECT_EQ(groups_unsupported_reason(8, 0, 1), "it must divide the 8 workers");
  EXPECT_EQ(groups_unsupported_reason(8, 8, 1), "there must be two groups or more of the 8 workers");
  EXPECT_THAT(groups_unsupported_reason(8, 2, 3), HasSubstr("3 ranks cannot share 4 groups evenly"));
  const WorkerGroup alone = make_worker_group(8, make_self_communicator());
  EXPECT_THROW(grouped_peers(alone, 3), InvalidArgument);
}

TEST(GroupedPeers, BeginAfterAGroupThatTheRankBeforeHasBegun) {
  EXPECT_EQ(first_group_from(0, 4), 0);
  EXPECT_EQ(first_group_from(4, 4), 1);
  // Worker 3 of groups of 2 belongs to group 1, for which the rank of worker 2 exchanges.
  EXPECT_EQ(first_group_from(3, 2), 2);
  EXPECT_EQ(first_group_from(3, 1), 3);
}

TEST(GroupedPeers, OnGpusAreWholeGroupsOrGpusOfOne) {
  const auto meeting = std::make_shared<testing::Meeting>(2);
  const auto second = std::make_shared<testing::ThreadDeviceCommunicator>(meeting, 1);
  const ExchangePeers peers = grouped_peers(worker_range(8, 1, 2), 2, second);
  EXPECT_EQ(peers.group.first_local_worker, 2);
  EXPECT_EQ(peers.members.groups.size(), 2u);
  EXPECT_EQ(peers.device, second);
  EXPECT_THROW(grouped_peers(worker_range(2, 1, 2), 3, second), InvalidArgument);
  const auto errors = testing::run_device_ranks(4, [](const std::shared_ptr<DeviceCommunicator>& all) {
    const ExchangePeers shared = grouped_peers(worker_range(4, all->rank(), 4), 2, all);
    EXPECT_EQ(shared.members.device->size(), 2);
    EXPECT_EQ(shared.members.device->rank(), all->rank() % 2);
    EXPECT_EQ(shared.takes_part(), all->rank() % 2 == 0);
    ASSERT_EQ(shared.device != nullptr, shared.takes_part());
    EXPECT_TRUE(!shared.takes_part() || shared.device->rank() == all->rank() / 2);
  });
  for (const auto& error : errors) EXPECT_FALSE(error);
}

}  // namespace
}  // namespace terngrad::grouped_peers_test
