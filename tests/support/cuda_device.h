// Fixture and copies for tests of the CUDA backend, which run on a GPU or in the emulation of tests/simt.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/device.h"

namespace terngrad::testing {

/// Fixture that skips its tests, with the reason, where there is no GPU.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (num_cuda_devices() == 0) GTEST_SKIP() << "no GPU: " << cuda_unavailable_reason();
  }
};

template <class T>
Buffer<T> to_device(std::span<const T> values, Stream& stream) {
  Buffer<T> buffer(static_cast<std::int64_t>(values.size()), stream.device());
  copy<T>(values, buffer.span(), stream);
  return buffer;
}

template <class T>
std::vector<T> to_host(std::span<const T> values, Stream& stream) {
  std::vector<T> result(values.size());
  copy<T>(values, std::span<T>(result), stream);
  stream.synchronize();
  return result;
}

}  // namespace terngrad::testing
