#include "compress/transport/transport.h"

#include "compress/transport/device_transport.h"
#include "compress/transport/exchange_peers.h"
#include "compress/transport/message_transport.h"

namespace terngrad {

std::unique_ptr<Transport> make_transport(const Layout& layout, const CodecPlan& plan, const ExchangePeers& peers,
                                          const TransportOptions& options, const Device& device) {
  if (peers.device != nullptr) {
    return std::make_unique<DeviceTransport>(layout, plan, peers.group, peers.device, options, device);
  }
  return std::make_unique<MessageTransport>(layout, plan, peers, options);
}

}  // namespace terngrad
