#include "kernels/sparse/nonzeros.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/bits.h"

namespace terngrad::nonzeros_test {
namespace {

using testing::bits_of;
using Payload = std::vector<std::uint8_t>;

/// Every `step`-th element is non-zero.
std::vector<float> with_values(std::size_t count, std::size_t step) {
  std::vector<float> values(count, 0.0f);
  for (std::size_t i = 0; i < count; i += step) values[i] = static_cast<float>(i) + 0.5f;
  return values;
}

Payload written(const std::vector<float>& values, std::int64_t max_places) {
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<std::uint64_t> words(static_cast<std::size_t>((max_nonzero_bytes(count, max_places) + 7) / 8));
  auto* const payload = reinterpret_cast<std::uint8_t*>(words.data());
  const std::int64_t bytes = write_nonzeros(values, max_places, payload);
  EXPECT_LE(bytes, max_nonzero_bytes(count, max_places));
  return {payload, payload + bytes};
}

TEST(Nonzeros, GiveAnArrayBackBitForBit) {
  for (const std::size_t count : {0u, 1u, 127u, 128u, 129u, 5000u}) {
    for (const std::size_t step : {1u, 2u, 7u, 300u, 100000u}) {
      std::vector<float> values = with_values(count, step);
      if (count > 100) {
        values[5] = -0.0f;
        values[6] = std::numeric_limits<float>::denorm_min();
        values[70] = std::numeric_limits<float>::infinity();
        values[71] = std::numeric_limits<float>::quiet_NaN();
      }
      const Payload payload = written(values, static_cast<std::int64_t>(count));
      check_nonzeros(static_cast<std::int64_t>(count), static_cast<std::int64_t>(count), payload);
      std::vector<float> back(count, 9);
      read_nonzeros(payload, back);
      EXPECT_EQ(bits_of(back), bits_of(values)) << count << ", " << step;
    }
  }
}

TEST(Nonzeros, AreAsShortAsTheyAreFew) {
  EXPECT_EQ(written(std::vector<float>(10000, 0.0f), 10000).size(), 8u) << "the number of places, and 0";
  // 100 places: header, two words for the group, 100 gaps of 7 bits, values.
  EXPECT_EQ(written(with_values(10000, 100), 10000).size(), 4u * (2 + 2 + 22 + 100));
}

TEST(Nonzeros, GoldenBytes) {
  std::vector<float> values(10, 0.0f);
  values[2] = 1;
  values[7] = -2;
  // 2, 0; first place 2, W = 0 and w = 3; gaps 0 and 4; values.
  const std::vector<std::uint32_t> expected = {2, 0, 2, 3, 4u << 3, 0x3f800000u, 0xc0000000u};
  const Payload payload = written(values, 10);
  ASSERT_EQ(payload.size(), 4 * expected.size());
  EXPECT_EQ(std::memcmp(payload.data(), expected.data(), payload.size()), 0);
}

TEST(Nonzeros, RefuseMorePlacesThanThereCanBe) {
  std::vector<std::uint64_t> room(1000);
  EXPECT_THROW(write_nonzeros(with_values(100, 2), 49, reinterpret_cast<std::uint8_t*>(room.data())), InvalidArgument);
}

TEST(Nonzeros, DamagedPayloadsAreRefused) {
  const Payload good = written(with_values(1000, 9), 1000);
  EXPECT_NO_THROW(check_nonzeros(1000, 112, good));
  EXPECT_THROW(check_nonzeros(1000, 111, good), CommunicationError) << "more than there can be";
  EXPECT_THROW(check_nonzeros(900, 1000, good), CommunicationError) << "places beyond the end";
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_THROW(check_nonzeros(1000, 112, std::span(good).first(bytes)), CommunicationError) << bytes;
  }
  Payload zero = good;
  std::fill_n(zero.end() - 4, 4, std::uint8_t{0});
  EXPECT_THROW(check_nonzeros(1000, 112, zero), CommunicationError) << "a value that would not be sent";
}

}  // namespace
}  // namespace terngrad::nonzeros_test
