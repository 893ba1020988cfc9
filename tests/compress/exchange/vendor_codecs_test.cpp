#include "compress/exchange/vendor_codecs.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad::vendor_codecs_test {
namespace {

TEST(VendorCodecs, AreNamesOfTypes) {
  EXPECT_EQ(vendor_codec_names(), (std::vector<std::string>{"fp32", "bf16", "fp16"}));
  EXPECT_EQ(vendor_element_type("fp32"), ElementType::kFloat32);
  EXPECT_EQ(vendor_element_type("bf16"), ElementType::kBfloat16);
  EXPECT_EQ(vendor_element_type("fp16"), ElementType::kFloat16);
  EXPECT_THROW(vendor_element_type("t2"), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::vendor_codecs_test
