// ExchangePeers: the workers of an exchange, and how their ranks are connected.
#pragma once

#include <memory>

#include "compress/comm/communicator.h"
#include "compress/comm/device_communicator.h"
#include "compress/wire/gradient_transport.h"

namespace terngrad {

/// One of the two communicators: that of the group for gradients in host memory, or one for gradients in device memory.
struct ExchangePeers {
  // NOLINTBEGIN(google-explicit-constructor): either kind of peers stands for an exchange's.
  ExchangePeers(WorkerGroup workers, GradientTransport::MessageFilter message_filter = {})
      : group(std::move(workers)), filter(std::move(message_filter)) {}
  // NOLINTEND(google-explicit-constructor)
  ExchangePeers(const WorkerRange& workers, std::shared_ptr<DeviceCommunicator> communicator)
      : group{workers, nullptr}, device(std::move(communicator)) {}

  WorkerGroup group;                             // its communicator is null with gradients in device memory
  std::shared_ptr<DeviceCommunicator> device;    // null with gradients in host memory
  GradientTransport::MessageFilter filter = {};  // see MessageTransportOptions
};

}  // namespace terngrad
