// Tensors of a layout in device memory.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/copy.h"
#include "kernels/tensor/slice.h"
#include "support/cuda_device.h"
#include "support/exchanges.h"

namespace terngrad::testing {

/// Device copy of Tensors, one buffer per tensor.
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

}  // namespace terngrad::testing
