// Conversions to and from bfloat16 on a GPU against the CPU backend, bit for bit.
#include "kernels/tensor/bfloat16.h"

#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "support/conversion_cases.h"
#include "support/cuda_device.h"

namespace terngrad::cuda_bfloat16_test {
namespace {

using CudaBfloat16 = testing::CudaTest;
constexpr testing::Conversion kConversion{encode_bfloat16, decode_bfloat16, round_to_bfloat16};

TEST_F(CudaBfloat16, IsTheCpusAtRaggedLengthsAndEveryAlignment) { testing::expect_same_at_ragged_lengths(kConversion); }

TEST_F(CudaBfloat16, DecodesEveryValueAsTheCpuDoes) { testing::expect_same_decoding(kConversion); }

TEST_F(CudaBfloat16, RoundsAsTheCpuDoes) { testing::expect_same_rounding(kConversion); }

TEST_F(CudaBfloat16, RefusesLengthsThatDiffer) {
  Stream cuda(Device::cuda());
  Buffer<float> floats(3, Device::cuda());
  Buffer<std::uint16_t> halves(2, Device::cuda());
  EXPECT_THROW(encode_bfloat16(floats.span(), halves.span(), cuda), InvalidArgument);
  EXPECT_THROW(decode_bfloat16(halves.span(), floats.span(), cuda), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_bfloat16_test
