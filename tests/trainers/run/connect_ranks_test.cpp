#include "trainers/run/connect_ranks.h"

#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "tests/support/cuda_device.h"
#include "tests/support/thread_communicator.h"
#include "trainers/options/train_devices.h"
#include "trainers/options/train_options.h"
#include "trainers/run/gpu_peers.h"

namespace terngrad::connect_ranks_test {
namespace {

TrainOptions groups_of(int num_nodes, int workers_per_group) {
  TrainOptions o;
  o.num_nodes = num_nodes;
  o.workers_per_group = workers_per_group;
  return o;
}

TEST(ConnectGroups, MakesThemOnlyWhereAsked) {
  EXPECT_EQ(connect_groups(groups_of(4, 1), make_self_communicator()), nullptr);
  const auto errors = testing::run_ranks(4, [](const std::shared_ptr<Communicator>& communicator) {
    const auto peers = connect_groups(groups_of(4, 2), communicator);
    EXPECT_EQ(peers->group.num_workers, 2);
    EXPECT_EQ(peers->members.groups.at(0).communicator->size(), 2);
    EXPECT_EQ(peers->takes_part(), communicator->rank() % 2 == 0);
  });
  for (const auto& error : errors) EXPECT_FALSE(error);
}

TEST(FailingProcess, IsNamedAmongSeveral) {
  EXPECT_EQ(failing_process(*make_self_communicator()), "terngrad_train: error");
  const auto meeting = std::make_shared<testing::Meeting>(3);
  EXPECT_EQ(failing_process(testing::ThreadCommunicator(meeting, 2)), "terngrad_train: error: rank 2");
}

class CudaConnectGpus : public testing::CudaTest {};

TEST_F(CudaConnectGpus, OneGpuHasAllWorkersAndGroups) {
  const TrainDevices one{.gpus = {Device::cuda()}};
  const auto processes = make_self_communicator();
  const auto plain = connect_gpus(groups_of(4, 1), one, *processes, 0);
  ASSERT_EQ(plain->size(), 1u);
  EXPECT_EQ(plain->front().exchange.device, plain->front().all);
  EXPECT_EQ(plain->front().exchange.group.num_local_workers, 4);
  const auto groups = connect_gpus(groups_of(4, 2), one, *processes, 0);
  EXPECT_EQ(groups->front().exchange.group.num_local_workers, 2);
  EXPECT_EQ(groups->front().exchange.members.groups.size(), 2u);
}

}  // namespace
}  // namespace terngrad::connect_ranks_test
