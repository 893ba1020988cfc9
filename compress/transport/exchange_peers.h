// ExchangePeers: the workers of an exchange, and how their ranks are connected.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "compress/comm/communicator.h"
#include "compress/comm/device_communicator.h"

namespace terngrad {

/// Called with each worker's gradient message between writing and sending, concurrently for several workers. Tests
/// damage messages with it. With a filter, messages are made and read even if this process has all workers.
using MessageFilter = std::function<void(int worker, std::span<std::uint8_t> message)>;

/// One of the two communicators: that of the group for gradients in host memory, or one for gradients in device memory.
struct ExchangePeers {
  // NOLINTBEGIN(google-explicit-constructor): either kind of peers stands for an exchange's.
  ExchangePeers(WorkerGroup workers, MessageFilter message_filter = {})
      : group(std::move(workers)), filter(std::move(message_filter)) {}
  // NOLINTEND(google-explicit-constructor)
  ExchangePeers(const WorkerRange& workers, std::shared_ptr<DeviceCommunicator> communicator)
      : group{workers, nullptr}, device(std::move(communicator)) {}

  WorkerGroup group;                           // its communicator is null with gradients in device memory
  std::shared_ptr<DeviceCommunicator> device;  // null with gradients in host memory
  MessageFilter filter = {};
};

}  // namespace terngrad
