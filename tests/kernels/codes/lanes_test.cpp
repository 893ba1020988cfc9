#include "kernels/codes/lanes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad::lanes_test {
namespace {

TEST(LaneBits, AreTheLeastThatHoldEverySum) {
  for (const int levels : {1, 2, 14, 254}) {
    for (int workers = 1; workers <= 300; ++workers) {
      int bits = 0;
      while ((1 << bits) < levels * workers + 1) ++bits;
      EXPECT_EQ(lane_bits(workers, levels), bits) << levels << " levels, " << workers << " workers";
    }
  }
  EXPECT_EQ(lane_bits(8), 5);     // ternary
  EXPECT_EQ(lane_bits(8, 1), 4);  // votes
  EXPECT_EQ(lane_bits(132104, 254), 25);
}

TEST(LaneBits, RefusesSumsThatFloat32DoesNotHold) {
  EXPECT_THROW(lane_bits(132105, 254), InvalidArgument);
  EXPECT_THROW(lane_bits(0, 14), InvalidArgument);
  EXPECT_THROW(lane_bits(1, 0), InvalidArgument);
}

TEST(LaneBias, IsThatOfTheCodes) {
  EXPECT_EQ(lane_bias(5), 5);
  EXPECT_EQ(lane_bias(5, 14), 35);
  EXPECT_EQ(lane_bias(5, 1), 0);  // votes are counts
}

TEST(Lanes, HoldWhatWasWritten) {
  std::mt19937_64 random(1);
  for (const int bits : {1, 2, 3, 4, 5, 8, 9, 13, 16, 17, 21, 22, 25}) {
    for (const std::size_t n : {0u, 1u, 2u, 63u, 64u, 65u, 1000u}) {
      std::vector<std::int32_t> counts(n);
      for (auto& count : counts) count = static_cast<std::int32_t>(random() & ((1u << bits) - 1));
      const auto per_word = static_cast<std::size_t>(lanes_per_word(bits));
      std::vector<std::uint64_t> words((n + per_word - 1) / per_word);
      LaneWriter writer(words.data(), bits);
      for (const std::int32_t count : counts) writer.add(static_cast<std::uint64_t>(count));
      writer.finish();
      writer.finish();  // writes nothing more
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint64_t lane = words[i / per_word] >> (i % per_word * static_cast<std::size_t>(bits));
        ASSERT_EQ(lane & ((1u << bits) - 1), static_cast<std::uint64_t>(counts[i])) << bits << " bits, lane " << i;
      }
      // At an address that is not a multiple of 8.
      std::vector<std::uint8_t> bytes(8 * words.size() + 4);
      if (n > 0) std::memcpy(bytes.data() + 4, words.data(), 8 * words.size());
      for (std::size_t first = 0; first < n; first += 7) {
        std::vector<std::int32_t> out(n - first);
        unpack_lanes(bytes.data() + 4, bits, static_cast<std::int64_t>(first), out);
        ASSERT_TRUE(std::equal(out.begin(), out.end(), counts.begin() + static_cast<std::ptrdiff_t>(first)));
      }
    }
  }
}

}  // namespace
}  // namespace terngrad::lanes_test
