// ExchangePeers: the workers of an exchange, and how their ranks are connected.
#pragma once

#include <memory>
#include <utility>

#include "compress/comm/communicator.h"
#include "compress/comm/device_communicator.h"
#include "compress/wire/message_filter.h"

namespace terngrad {

/// One of the two communicators: that of the group for gradients in host memory, or one for gradients in device memory.
struct ExchangePeers {
  /// Also a conversion: an exchange in host memory takes a WorkerGroup.
  ExchangePeers(WorkerGroup workers, MessageFilter message_filter = {})
      : group(std::move(workers)), filter(std::move(message_filter)) {}
  ExchangePeers(const WorkerRange& workers, std::shared_ptr<DeviceCommunicator> communicator)
      : group{workers, nullptr}, device(std::move(communicator)) {}

  WorkerGroup group;                           // its communicator is null with gradients in device memory
  std::shared_ptr<DeviceCommunicator> device;  // null with gradients in host memory
  MessageFilter filter = {};
};

}  // namespace terngrad
