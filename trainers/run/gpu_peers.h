// GpuPeers: the connections of a GPU of a run.
#pragma once

#include <memory>

#include "compress/transport/exchange_peers.h"

namespace terngrad {

struct GpuPeers {
  std::shared_ptr<DeviceCommunicator> all;  // ranks are all GPUs in the order of their processes
  ExchangePeers exchange;                   // its workers, in groups with --workers_per_group
};

}  // namespace terngrad
