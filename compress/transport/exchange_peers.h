// ExchangePeers: the workers of an exchange, and how their ranks are connected.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/comm/device_communicator.h"
#include "compress/wire/message_filter.h"

namespace terngrad {

/// The workers of this rank by group, if groups exchange the mean of their workers' gradients as one worker each.
struct GroupMembers {
  /// One per group of which this rank has workers, who are numbered within it. Connected by the group's communicator,
  /// unless `device` is set.
  std::vector<WorkerGroup> groups = {};
  std::shared_ptr<DeviceCommunicator> device = nullptr;
};

/// One of the two communicators: that of the group for gradients in host memory, or one for gradients in device memory.
struct ExchangePeers {
  /// Also a conversion: an exchange in host memory takes a WorkerGroup.
  ExchangePeers(WorkerGroup workers, MessageFilter message_filter = {})
      : group(std::move(workers)), filter(std::move(message_filter)) {}
  ExchangePeers(const WorkerRange& workers, std::shared_ptr<DeviceCommunicator> communicator)
      : group{workers, nullptr}, device(std::move(communicator)) {}

  /// False on a rank for which another rank of its group exchanges.
  bool takes_part() const { return group.communicator != nullptr || device != nullptr; }

  WorkerGroup group;                           // its communicator is null with gradients in device memory
  std::shared_ptr<DeviceCommunicator> device;  // null with gradients in host memory
  MessageFilter filter = {};
  GroupMembers members = {};  // empty: the workers exchange themselves; else `group` counts groups as workers
};

}  // namespace terngrad
