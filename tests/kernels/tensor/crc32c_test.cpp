#include "kernels/tensor/crc32c.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "support/reference.h"

namespace terngrad::crc32c_test {
namespace {

std::vector<std::uint8_t> random_bytes(std::size_t n) {
  std::mt19937 random(static_cast<unsigned>(n));
  std::vector<std::uint8_t> bytes(n);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

// RFC 3720, appendix B.4.
TEST(Crc32c, GivesTheValuesOfRfc3720) {
  std::vector<std::uint8_t> bytes(32, 0);
  EXPECT_EQ(crc32c(bytes), 0x8a9136aau);
  bytes.assign(32, 0xff);
  EXPECT_EQ(crc32c(bytes), 0x62a8ab43u);
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::uint8_t>(i);
  EXPECT_EQ(crc32c(bytes), 0x46dd794eu);
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::uint8_t>(31 - i);
  EXPECT_EQ(crc32c(bytes), 0x113fdb5cu);
  // An iSCSI SCSI Read (10) command PDU.
  const std::vector<std::uint8_t> pdu = {0x01, 0xc0, 0, 0, 0, 0, 0,    0, 0,    0, 0, 0,    0, 0, 0, 0,
                                         0x14, 0,    0, 0, 0, 0, 0x04, 0, 0,    0, 0, 0x14, 0, 0, 0, 0x18,
                                         0x28, 0,    0, 0, 0, 0, 0,    0, 0x02, 0, 0, 0,    0, 0, 0, 0};
  EXPECT_EQ(crc32c(pdu), 0xd9963a56u);
}

TEST(Crc32c, GivesTheCheckValue) {
  constexpr std::string_view text = "123456789";
  EXPECT_EQ(crc32c({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}), 0xe3069283u);
}

TEST(Crc32c, OfNothingIsZero) { EXPECT_EQ(crc32c({}), 0u); }

TEST(Crc32c, AgreesWithTheReferenceAtManyLengths) {
  const std::vector<std::uint8_t> bytes = random_bytes(9300);
  const std::span<const std::uint8_t> all(bytes);
  for (std::size_t n = 0; n <= bytes.size(); n += n < 300 ? 1 : 97) {
    ASSERT_EQ(crc32c(all.first(n)), reference::crc32c(all.first(n))) << n;
  }
}

TEST(Crc32c, ContinuesFromTheBytesBefore) {
  const std::vector<std::uint8_t> bytes = random_bytes(8000);
  const std::span<const std::uint8_t> all(bytes);
  for (const std::size_t cut : {0u, 1u, 8u, 3073u, 8000u}) {
    ASSERT_EQ(crc32c(all.subspan(cut), crc32c(all.first(cut))), reference::crc32c(all)) << cut;
  }
}

}  // namespace
}  // namespace terngrad::crc32c_test
