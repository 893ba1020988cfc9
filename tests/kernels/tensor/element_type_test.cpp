#include "kernels/tensor/element_type.h"

#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/reference.h"

namespace terngrad::element_type_test {
namespace {

using testing::bits_of;

TEST(ElementType, HasASizeAndAName) {
  EXPECT_EQ(element_bytes(ElementType::kFloat32), 4u);
  EXPECT_EQ(element_bytes(ElementType::kBfloat16), 2u);
  EXPECT_EQ(element_bytes(ElementType::kFloat16), 2u);
  EXPECT_EQ(element_type_name(ElementType::kFloat32), std::string("fp32"));
  EXPECT_EQ(element_type_name(ElementType::kBfloat16), std::string("bf16"));
  EXPECT_EQ(element_type_name(ElementType::kFloat16), std::string("fp16"));
  EXPECT_THROW(element_bytes(static_cast<ElementType>(3)), InvalidArgument);
  EXPECT_THROW(element_type_name(static_cast<ElementType>(3)), InvalidArgument);
}

TEST(Widen, IsExactForEveryValueOf16Bits) {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  std::vector<float> out(halves.size());
  Stream stream(Device::cpu(), 1);
  widen(halves.data(), ElementType::kBfloat16, out, stream);
  for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(bits_of(out[i]), bits_of(reference::from_bfloat16(halves[i])));
  widen(halves.data(), ElementType::kFloat16, out, stream);
  for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(bits_of(out[i]), bits_of(reference::from_float16(halves[i])));
}

TEST(Widen, KeepsTheBitsOfFloat32) {
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper < 65536; ++upper) values.push_back(std::bit_cast<float>(upper << 16 | 0x1234u));
  std::vector<float> out(values.size());
  Stream stream(Device::cpu(), 1);
  widen(values.data(), ElementType::kFloat32, out, stream);
  EXPECT_EQ(bits_of(out), bits_of(values));
}

TEST(Widen, TakesNothing) {
  Stream stream(Device::cpu(), 1);
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16, ElementType::kFloat16}) {
    EXPECT_NO_THROW(widen(nullptr, type, {}, stream));
  }
}

TEST(Widen, RefusesMisalignedElementsAndOtherTypes) {
  alignas(4) const std::uint8_t bytes[16] = {};
  std::vector<float> out(2);
  Stream stream(Device::cpu(), 1);
  EXPECT_THROW(widen(bytes + 2, ElementType::kFloat32, out, stream), InvalidArgument);
  EXPECT_THROW(widen(bytes + 1, ElementType::kBfloat16, out, stream), InvalidArgument);
  EXPECT_THROW(widen(bytes + 1, ElementType::kFloat16, out, stream), InvalidArgument);
  EXPECT_THROW(widen(bytes, static_cast<ElementType>(3), out, stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::element_type_test
