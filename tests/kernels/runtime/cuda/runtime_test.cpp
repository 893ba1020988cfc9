// Devices, streams and buffers on a GPU.
#include "kernels/runtime/cuda/runtime.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "kernels/runtime/errors.h"
#include "support/cuda_device.h"

namespace terngrad::cuda_runtime_test {
namespace {

template <class Exception, class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

using CudaDevice = testing::CudaTest;

TEST_F(CudaDevice, IsCalledByItsNumber) {
  const Device device = Device::cuda();
  EXPECT_EQ(device.name(), "cuda:0");
  EXPECT_EQ(device.index(), 0);
  EXPECT_TRUE(device.is_cuda());
  EXPECT_FALSE(device.is_cpu());
  EXPECT_EQ(device, Device::cuda(0));
  EXPECT_NE(device, Device::cpu());
  EXPECT_EQ(Device::cuda(num_cuda_devices() - 1).index(), num_cuda_devices() - 1);
}

TEST_F(CudaDevice, ThatDoesNotExistIsRefusedByName) {
  const std::string last = std::to_string(num_cuda_devices() - 1);
  EXPECT_EQ(message_of<NotSupported>([] { Device::cuda(99); }),
            "[Device] cuda:99 does not exist; there are GPUs 0 to " + last);
  EXPECT_EQ(message_of<NotSupported>([] { Device::cuda(-1); }),
            "[Device] cuda:-1 does not exist; there are GPUs 0 to " + last);
}

using CudaStream = testing::CudaTest;

TEST_F(CudaStream, IsAQueueThatItsCopiesShare) {
  const Stream stream(Device::cuda(), 5);
  EXPECT_NE(stream.native(), nullptr);
  EXPECT_EQ(stream.num_threads(), 1);
  EXPECT_EQ(stream.device(), Device::cuda());
  const Stream same = stream;  // NOLINT(performance-unnecessary-copy-initialization): the copy is what is tested
  EXPECT_EQ(same.native(), stream.native());
  EXPECT_NE(Stream(Device::cuda()).native(), stream.native());
  EXPECT_NO_THROW(same.synchronize());
  EXPECT_EQ(Stream(Device::cpu()).native(), nullptr);
}

TEST_F(CudaStream, OfSomebodyElseIsTheSameQueueAndIsLeftToThem) {
  const Stream owned(Device::cuda());
  for (int i = 0; i < 3; ++i) {
    Stream borrowed = Stream::borrow(Device::cuda(), owned.native());
    EXPECT_EQ(borrowed.native(), owned.native());
    EXPECT_EQ(borrowed.device(), Device::cuda());
    borrowed.synchronize();
  }
  owned.synchronize();  // still valid
}

TEST_F(CudaStream, OutlivesTheOneItIsACopyOf) {
  Stream copy(Device::cpu());
  {
    const Stream stream(Device::cuda());
    copy = stream;
  }
  const Buffer<float> values = testing::to_device<float>(std::vector<float>(10, 2.0f), copy);
  EXPECT_EQ(testing::to_host<float>(values.span(), copy), std::vector<float>(10, 2.0f));
}

using CudaBuffer = testing::CudaTest;

TEST_F(CudaBuffer, IsAlignedForTheWidestAccess) {
  for (const std::int64_t count : {1, 2, 3, 1000}) {
    const Buffer<float> buffer(count, Device::cuda());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256, 0u);
    EXPECT_EQ(buffer.num_elements(), count);
    EXPECT_EQ(buffer.device(), Device::cuda());
  }
  EXPECT_EQ(Buffer<float>(0, Device::cuda()).data(), nullptr);
}

TEST_F(CudaBuffer, MovesBetweenDevices) {
  Stream stream(Device::cuda());
  Buffer<int> buffer(3);
  Buffer<int> on_device = testing::to_device<int>(std::vector<int>{7, 8, 9}, stream);
  const int* memory = on_device.data();
  buffer = std::move(on_device);
  EXPECT_EQ(buffer.device(), Device::cuda());
  EXPECT_EQ(buffer.data(), memory);
  EXPECT_EQ(testing::to_host<int>(buffer.span(), stream), (std::vector<int>{7, 8, 9}));
}

TEST_F(CudaBuffer, LargerThanTheDeviceIsAnErrorThatLeavesNothingBehind) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 50;
  EXPECT_EQ(message_of<DeviceError>([] { Buffer<std::int8_t>(kBytes, Device::cuda()); }),
            "[Buffer] out of memory on cuda:0: 1125899906842624 bytes asked for");
  Stream stream(Device::cuda());
  EXPECT_NO_THROW(Buffer<std::int8_t>(1000, Device::cuda()));
  EXPECT_NO_THROW(stream.synchronize());
}

TEST_F(CudaBuffer, RefusesSizesThatNobodyCanMean) {
  EXPECT_THROW(Buffer<double>(-1, Device::cuda()), std::bad_alloc);
  EXPECT_THROW(Buffer<double>(std::int64_t{1} << 61, Device::cuda()), std::bad_alloc);
}

}  // namespace
}  // namespace terngrad::cuda_runtime_test
