// Exchange between the workers of one GPU.
#pragma once

#include <utility>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "support/device_tensors.h"
#include "support/exchanges.h"

namespace terngrad::testing {

/// CompressedAllReduce with the workers' gradients and the mean in device memory.
struct DeviceExchange {
  Layout layout;
  Stream stream{Device::cuda()};
  CompressedAllReduce exchange;
  std::vector<DeviceTensors> gradients;
  std::vector<TensorTable> tables;
  DeviceTensors mean;

  DeviceExchange(const Layout& shapes, const std::vector<Tensors>& workers, const CompressedAllReduceOptions& options)
      : layout(shapes), exchange(layout, alone(workers), options, stream), mean(layout, blank_tensors(layout), stream) {
    put(workers);
  }
  /// Uses a given plan, for all tensors.
  DeviceExchange(const Layout& shapes, const std::vector<Tensors>& workers, CodecPlan plan,
                 const CompressedAllReduceOptions& options)
      : layout(shapes),
        exchange(layout, std::move(plan), alone(workers), options, stream),
        mean(layout, blank_tensors(layout), stream) {
    put(workers);
  }

  /// Submits a step of all tensors.
  void submit(const DeviceStep& step) {
    exchange.begin(step);
    exchange.exchange(exchange.all_tensors(), tables, mean.table);
    exchange.finish();
  }

 private:
  static ExchangePeers alone(const std::vector<Tensors>& workers) {
    return {worker_range(static_cast<int>(workers.size()), 0, 1), make_self_device_communicator()};
  }
  void put(const std::vector<Tensors>& workers) {
    for (const Tensors& worker : workers) gradients.emplace_back(layout, worker, stream);
    for (const DeviceTensors& worker : gradients) tables.push_back(worker.table);
  }
};

}  // namespace terngrad::testing
