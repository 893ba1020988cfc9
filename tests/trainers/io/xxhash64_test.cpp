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

// Computed with version 3 of the reference implementation's Python binding. The hash of nothing is also in the
// specification.
struct Known {
  std::size_t num_bytes;
  std::uint64_t hash;
};
constexpr Known kKnown[] = {{0, 0xEF46DB3751D8E999u},   {1, 0x1F25C8D0BC1F4BB6u},  {3, 0x31D2363F52E564C9u},
                            {4, 0x9BB64B7D66EE9FDAu},   {7, 0x9A7B149959CE60D8u},  {8, 0xDAB99D95C6F90092u},
                            {31, 0xA2AA5F33CC4A6119u},  {32, 0x23C3C17EF790FD97u}, {33, 0x50A7CFC7BA588784u},
                            {63, 0x5E3E54B431C7493Cu},  {64, 0x0EB64B3EF6EEB01Fu}, {100, 0xA61F8D4C170FE531u},
                            {1000, 0x5F235FA033F1A3FBu}};

TEST(Xxhash64, KnownAnswers) {
  for (const Known& known : kKnown) {
    EXPECT_EQ(Xxhash64().add(test_bytes(known.num_bytes)).value(), known.hash) << known.num_bytes;
  }
}

TEST(Xxhash64, DoesNotDependOnHowTheInputIsCut) {
  const std::string bytes = test_bytes(100);
  for (std::size_t first = 0; first <= 100; ++first) {
    for (std::size_t second = first; second <= 100; second += 7) {
      Xxhash64 hash;
      hash.add(bytes.substr(0, first)).add(bytes.substr(first, second - first)).add(bytes.substr(second));
      ASSERT_EQ(hash.value(), 0xA61F8D4C170FE531u) << first << ", " << second;
    }
  }
}

TEST(Xxhash64, IntegersAreEightLittleEndianBytes) {
  EXPECT_EQ(Xxhash64().add(std::uint64_t{0x0807060504030201u}).value(),
            Xxhash64().add(std::string_view("\1\2\3\4\5\6\7\x08")).value());
}

}  // namespace
}  // namespace terngrad::xxhash64_test
