#include "compress/transport/transport.h"

#include <gtest/gtest.h>

#include <memory>

#include "compress/transport/device_transport.h"
#include "compress/transport/exchange_peers.h"
#include "compress/transport/message_transport.h"
#include "support/exchanges.h"

namespace terngrad::transport_test {
namespace {

TEST(Transport, IsThatOfThePeersCommunicator) {
  const Layout layout = testing::mixed_layout();
  const CodecPlan plan(layout, with_workers({}, 3));
  TransportOptions options;
  options.route = make_route(ExchangeAlgorithm::kAllGather, layout, plan, 3);
  const ExchangePeers in_messages(make_worker_group(3, make_self_communicator()));
  const auto messages = make_transport(layout, plan, in_messages, options, Device::cpu());
  EXPECT_NE(dynamic_cast<MessageTransport*>(messages.get()), nullptr);
  const ExchangePeers in_places(worker_range(3, 0, 1), make_self_device_communicator());
  const auto places = make_transport(layout, plan, in_places, options, Device::cpu());
  EXPECT_NE(dynamic_cast<DeviceTransport*>(places.get()), nullptr);
}

}  // namespace
}  // namespace terngrad::transport_test
