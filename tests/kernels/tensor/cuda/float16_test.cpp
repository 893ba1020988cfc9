// Conversions to and from float16 on a GPU against the CPU backend, bit for bit.
#include "kernels/tensor/float16.h"

#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "support/conversion_cases.h"
#include "support/cuda_device.h"

namespace terngrad::cuda_float16_test {
namespace {

using CudaFloat16 = testing::CudaTest;
constexpr testing::Conversion kConversion{encode_float16, decode_float16, round_to_float16};

TEST_F(CudaFloat16, IsTheCpusAtRaggedLengthsAndEveryAlignment) { testing::expect_same_at_ragged_lengths(kConversion); }

TEST_F(CudaFloat16, DecodesEveryValueAsTheCpuDoes) { testing::expect_same_decoding(kConversion); }

TEST_F(CudaFloat16, RoundsAsTheCpuDoes) { testing::expect_same_rounding(kConversion); }

TEST_F(CudaFloat16, RefusesLengthsThatDiffer) {
  Stream cuda(Device::cuda());
  Buffer<float> floats(3, Device::cuda());
  Buffer<std::uint16_t> halves(2, Device::cuda());
  EXPECT_THROW(encode_float16(floats.span(), halves.span(), cuda), InvalidArgument);
  EXPECT_THROW(decode_float16(halves.span(), floats.span(), cuda), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_float16_test
