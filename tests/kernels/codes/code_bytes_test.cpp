#include "kernels/codes/cpu/code_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/bits.h"
#include "support/simd_targets.h"

namespace terngrad::code_bytes_test {
namespace {

using testing::bits_of;

std::vector<std::uint8_t> bytes_below(std::size_t count, unsigned end) {
  std::vector<std::uint8_t> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(i * 7919 / 8 % end);
  return bytes;
}

TEST(CodeBytes, ArePackedToNibblesAndBack) {
  testing::for_each_target([&](const std::string& target) {
    for (std::size_t count = 0; count <= 400; count += 8) {
      const std::vector<std::uint8_t> codes = bytes_below(count, 16);
      std::vector<std::uint8_t> packed(count / 2);
      cpu::pack_nibbles(codes.data(), static_cast<std::int64_t>(count), packed.data());
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(packed[i / 2] >> (i % 2 * 4) & 15, codes[i]) << target << ", " << i << " of " << count;
      }
      std::vector<std::uint8_t> back(count);
      cpu::unpack_nibbles(packed.data(), static_cast<std::int64_t>(packed.size()), back.data());
      ASSERT_EQ(back, codes) << target << ", " << count;
    }
    for (std::size_t num_bytes = 0; num_bytes < 70; ++num_bytes) {
      const std::vector<std::uint8_t> packed = bytes_below(num_bytes, 256);
      std::vector<std::uint8_t> codes(2 * num_bytes);
      cpu::unpack_nibbles(packed.data(), static_cast<std::int64_t>(num_bytes), codes.data());
      for (std::size_t i = 0; i < codes.size(); ++i) ASSERT_EQ(codes[i], packed[i / 2] >> (i % 2 * 4) & 15) << target;
    }
  });
}

TEST(CodeBytes, AreScaledWithoutTheirBias) {
  testing::for_each_target([&](const std::string& target) {
    for (std::size_t count = 0; count <= 70; ++count) {
      const std::vector<std::uint8_t> codes = bytes_below(count, 255);
      std::vector<float> out(count);
      cpu::scale_codes(codes.data(), static_cast<std::int64_t>(count), 127, 0.3f, out.data());
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(bits_of(out[i]), bits_of(0.3f * static_cast<float>(codes[i] - 127))) << target << ", " << i;
      }
    }
  });
}

TEST(CodeBytes, AreAddedUp) {
  testing::for_each_target([&](const std::string& target) {
    for (std::size_t count = 0; count <= 140; ++count) {
      const std::vector<std::uint8_t> codes = bytes_below(count, 256);
      std::vector<std::uint16_t> sums(count, 65535 - 255);
      cpu::add_codes(codes.data(), static_cast<std::int64_t>(count), sums.data());
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(sums[i], 65535 - 255 + codes[i]) << target << ", " << i;
    }
  });
}

}  // namespace
}  // namespace terngrad::code_bytes_test
