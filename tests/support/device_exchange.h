// Exchange between the workers of one GPU.
#pragma once

#include <utility>
#include <vector>

#include "compress/exchange/device/device_all_reduce.h"
#include "support/device_tensors.h"
#include "support/exchanges.h"

namespace terngrad::testing {

/// DeviceAllReduce with the workers' gradients and the mean in device memory.
struct DeviceExchange {
  Layout layout;
  Stream stream{Device::cuda()};
  DeviceAllReduce exchange;
  std::vector<DeviceTensors> gradients;
  std::vector<TensorTable> tables;
  DeviceTensors mean;

  DeviceExchange(const Layout& shapes, const std::vector<Tensors>& workers, const CompressedAllReduceOptions& options)
      : layout(shapes),
        exchange(layout, make_worker_group(static_cast<int>(workers.size()), make_self_communicator()), options,
                 stream),
        mean(layout, blank_tensors(layout), stream) {
    put(workers);
  }
  /// Uses a given plan, for all tensors.
  DeviceExchange(const Layout& shapes, const std::vector<Tensors>& workers, CodecPlan plan,
                 const CompressedAllReduceOptions& options)
      : layout(shapes),
        exchange(layout, std::move(plan), make_worker_group(static_cast<int>(workers.size()), make_self_communicator()),
                 options, stream),
        mean(layout, blank_tensors(layout), stream) {
    put(workers);
  }

 private:
  void put(const std::vector<Tensors>& workers) {
    for (const Tensors& worker : workers) gradients.emplace_back(layout, worker, stream);
    for (const DeviceTensors& worker : gradients) tables.push_back(worker.table);
  }
};

}  // namespace terngrad::testing
