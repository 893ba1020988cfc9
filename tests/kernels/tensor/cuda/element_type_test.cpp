// Widening on a GPU against the CPU backend, bit for bit.
#include "kernels/tensor/element_type.h"

#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/guarded_array.h"

namespace terngrad::cuda_element_type_test {
namespace {

using testing::bits_of;
using testing::GuardedArray;
using CudaElementType = testing::CudaTest;

/// All 16-bit values; as float32, in the upper half, with other bits below.
template <class T>
std::vector<T> every_value(std::size_t n) {
  std::vector<T> values;
  for (std::uint32_t i = 0; i < n; ++i) {
    if constexpr (sizeof(T) == 4) {
      values.push_back(std::bit_cast<T>(i << 16 | (i * 40503u & 0xffffu)));
    } else {
      values.push_back(static_cast<T>(i));
    }
  }
  return values;
}

template <class T>
void expect_same_widening(ElementType type) {
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  for (const std::size_t n : {0u, 1u, 3u, 4u, 70u, 4097u, 65536u}) {
    const std::vector<T> values = every_value<T>(n);
    std::vector<float> expected(n);
    widen(values.data(), type, expected, cpu);
    for (const std::size_t start : {0u, 1u, 3u}) {
      GuardedArray<T> on_device(values, start, cuda);
      GuardedArray<float> found(std::vector<float>(n), 0, cuda);
      widen(on_device.data(), type, found.span(), cuda);
      ASSERT_EQ(bits_of(found.values()), bits_of(expected)) << element_type_name(type) << ' ' << n << ' ' << start;
    }
  }
}

TEST_F(CudaElementType, WidensAsTheCpuDoes) {
  expect_same_widening<float>(ElementType::kFloat32);
  expect_same_widening<std::uint16_t>(ElementType::kBfloat16);
  expect_same_widening<std::uint16_t>(ElementType::kFloat16);
}

TEST_F(CudaElementType, RefusesMisalignedElements) {
  Stream cuda(Device::cuda());
  Buffer<std::uint8_t> bytes(16, Device::cuda());
  Buffer<float> out(2, Device::cuda());
  EXPECT_THROW(widen(bytes.data() + 2, ElementType::kFloat32, out.span(), cuda), InvalidArgument);
  EXPECT_THROW(widen(bytes.data() + 1, ElementType::kBfloat16, out.span(), cuda), InvalidArgument);
  EXPECT_THROW(widen(bytes.data() + 3, ElementType::kFloat16, out.span(), cuda), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_element_type_test
