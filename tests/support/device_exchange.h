// Exchanges between workers of a GPU.
#pragma once

#include <vector>

#include "compress/device_all_reduce.h"
#include "support/cuda_device.h"
#include "support/exchanges.h"

namespace terngrad::testing {

/// Tensors of a layout in device memory, one buffer each.
struct DeviceTensors {
  std::vector<Buffer<float>> buffers;
  TensorTable table;

  DeviceTensors(const Layout& layout, const Tensors& tensors, Stream& stream) {
    std::vector<float*> pointers;
    for (const std::vector<float>& values : tensors.values) {
      buffers.push_back(to_device<float>(values, stream));
      pointers.push_back(buffers.back().data());
    }
    table = TensorTable(layout, pointers);
  }

  void write(const Tensors& tensors, Stream& stream) {
    for (std::size_t t = 0; t < buffers.size(); ++t) copy<float>(tensors.values[t], buffers[t].span(), stream);
  }

  Tensors read(const Layout& layout, Stream& stream) const {
    std::vector<std::vector<float>> values;
    for (const Buffer<float>& buffer : buffers) values.push_back(to_host<float>(buffer.span(), stream));
    return {layout, std::move(values)};
  }
};

/// An exchange on the device with its gradients and mean.
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
    for (const Tensors& worker : workers) gradients.emplace_back(layout, worker, stream);
    for (const DeviceTensors& worker : gradients) tables.push_back(worker.table);
  }
};

}  // namespace terngrad::testing
