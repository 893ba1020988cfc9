// Groups of ranks for the conformance tests of DeviceCommunicator.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "compress/comm/device_communicator.h"
#include "compress/comm/nccl/nccl_communicator.h"
#include "support/thread_device_communicator.h"

namespace terngrad::testing {

struct DeviceGroup {
  enum class Kind { kSelf, kThreads, kNccl };
  Kind kind = Kind::kSelf;
  int size = 1;
  DeviceKind device = DeviceKind::kCpu;

  std::string name() const {
    const char* const kind_name = kind == Kind::kSelf ? "self" : kind == Kind::kThreads ? "threads" : "nccl";
    return std::string(kind_name) + std::to_string(size) + (device == DeviceKind::kCpu ? "_cpu" : "_cuda");
  }
  friend std::ostream& operator<<(std::ostream& out, const DeviceGroup& group) { return out << group.name(); }
};

/// Reason why the group cannot run on this machine, else empty.
inline std::string why_not(const DeviceGroup& group) {
  if (group.device == DeviceKind::kCuda && num_cuda_devices() == 0) return "no GPU: " + cuda_unavailable_reason();
  if (group.kind == DeviceGroup::Kind::kNccl && num_cuda_devices() < group.size) {
    return std::to_string(group.size) + " ranks of NCCL need as many GPUs, there are " +
           std::to_string(num_cuda_devices());
  }
  return "";
}

/// Runs body(communicator, stream) on all ranks concurrently. @throws the first rank's exception, if any
template <class Body>
void run_group(const DeviceGroup& group, const Body& body) {
  const auto stream_of = [&] { return Stream(group.device == DeviceKind::kCpu ? Device::cpu() : Device::cuda(), 1); };
  if (group.kind == DeviceGroup::Kind::kSelf) {
    Stream stream = stream_of();
    const auto communicator = make_self_device_communicator();
    return body(*communicator, stream);
  }
  const NcclUniqueId id = group.kind == DeviceGroup::Kind::kNccl ? make_nccl_unique_id() : NcclUniqueId();
  const auto errors = run_device_ranks(group.size, [&](std::shared_ptr<DeviceCommunicator> communicator) {
    if (group.kind == DeviceGroup::Kind::kNccl) {
      const Device gpu = Device::cuda(communicator->rank());
      Stream stream(gpu);
      NcclCommunicator nccl(id, communicator->rank(), group.size, gpu);
      body(nccl, stream);
      return stream.synchronize();
    }
    Stream stream = stream_of();
    body(*communicator, stream);
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace terngrad::testing
