#include "compress/transport/device_transport.h"

#include <gtest/gtest.h>

#include <memory>

#include "kernels/runtime/errors.h"
#include "support/exchanges.h"
#include "support/thread_device_communicator.h"

namespace terngrad::device_transport_test {
namespace {

using testing::mixed_layout;

/// Options of an algorithm for five workers.
struct FiveWorkers {
  Layout layout = mixed_layout();
  CodecPlan plan{layout, with_workers(testing::options_of(ExchangeAlgorithm::kAuto).codecs, 5)};
  TransportOptions options;

  explicit FiveWorkers(ExchangeAlgorithm algorithm) { options.route = make_route(algorithm, layout, plan, 5); }
  DeviceTransport make(const WorkerRange& workers, std::shared_ptr<DeviceCommunicator> communicator) const {
    return {layout, plan, workers, std::move(communicator), options, Device::cpu()};
  }
};

TEST(DeviceTransport, RefusesWorkersOfAnotherRank) {
  const auto meeting = std::make_shared<testing::Meeting>(2);
  const auto second = std::make_shared<testing::ThreadDeviceCommunicator>(meeting, 1);
  const FiveWorkers five(ExchangeAlgorithm::kAllGather);
  EXPECT_NO_THROW(five.make(worker_range(5, 1, 2), second));
  EXPECT_THROW(five.make(worker_range(5, 0, 2), second), InvalidArgument);
  EXPECT_THROW(five.make(worker_range(1, 0, 1), second), InvalidArgument);
  // Several ranks need a communicator.
  EXPECT_THROW(five.make(worker_range(5, 1, 2), make_self_device_communicator()), InvalidArgument);
}

TEST(DeviceTransport, CountsTheSameBytesForAnyNumberOfRanks) {
  for (const ExchangeAlgorithm algorithm :
       {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce, ExchangeAlgorithm::kIntegerSum}) {
    const FiveWorkers five(algorithm);
    const ExchangeBytes alone = five.make(worker_range(5, 0, 1), make_self_device_communicator()).bytes();
    EXPECT_EQ(alone.num_workers, 5);
    EXPECT_EQ(alone.sent_bytes(), alone.received_bytes());
    ExchangeBytes sum;
    const auto meeting = std::make_shared<testing::Meeting>(3);
    for (int rank = 0; rank < 3; ++rank) {
      sum += five.make(worker_range(5, rank, 3), std::make_shared<testing::ThreadDeviceCommunicator>(meeting, rank))
                 .bytes();
    }
    EXPECT_EQ(sum.sent_bytes(), alone.sent_bytes()) << word_of(algorithm);
    EXPECT_EQ(sum.received_bytes(), alone.received_bytes()) << word_of(algorithm);
  }
}

TEST(DeviceTransport, HasNoServers) {
  const FiveWorkers five(ExchangeAlgorithm::kScatterReduce);
  DeviceTransport transport = five.make(worker_range(5, 0, 1), make_self_device_communicator());
  EXPECT_THROW(transport.share_overflow({}), NotSupported);
  EXPECT_TRUE(transport.own_shards().slices.empty());
}

}  // namespace
}  // namespace terngrad::device_transport_test
