#include "trainers/io/xxhash64.h"

#include <gtest/gtest.h>

#include <string>

namespace terngrad::xxhash64_test {
namespace {

std::string test_bytes(std::size_t num_bytes) {
  std::string bytes(num_bytes, '\0');
  for (std::size_t i = 0; i < num_bytes; ++i) bytes[i] = static_cast<char>(static_cast<unsigned char>(i * 7 + 3));
  return bytes;
}

// Part of the checkpoint format. Computed by version 3 of the reference implementation's Python binding; the hash of
// empty input is also in the specification.
TEST(Xxhash64, KnownAnswers) {
  EXPECT_EQ(Xxhash64().value(), 0xEF46DB3751D8E999u);
  EXPECT_EQ(Xxhash64().add(test_bytes(7)).value(), 0x9A7B149959CE60D8u);
  EXPECT_EQ(Xxhash64().add(test_bytes(1000)).value(), 0x5F235FA033F1A3FBu);
}

TEST(Xxhash64, DoesNotDependOnHowTheInputIsCut) {
  const std::string bytes = test_bytes(100);
  Xxhash64 hash;
  hash.add(bytes.substr(0, 5)).add(bytes.substr(5, 0)).add(bytes.substr(5, 60));
  EXPECT_EQ(hash.value(), Xxhash64().add(bytes.substr(0, 65)).value());
  EXPECT_EQ(hash.add(bytes.substr(65)).value(), 0xA61F8D4C170FE531u);
}

TEST(Xxhash64, IntegersAreEightLittleEndianBytes) {
  EXPECT_EQ(Xxhash64().add(std::uint64_t{0x0807060504030201u}).value(),
            Xxhash64().add(std::string_view("\1\2\3\4\5\6\7\x08")).value());
}

}  // namespace
}  // namespace terngrad::xxhash64_test
