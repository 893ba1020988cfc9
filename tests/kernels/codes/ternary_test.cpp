#include "kernels/codes/ternary.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/runtime/errors.h"
#include "support/reference.h"

namespace terngrad::ternary_test {
namespace {

constexpr TernaryFormat kFormats[] = {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask,
                                      TernaryFormat::kLanes};

TEST(TernaryFormat, HasTheNumbersOfTheFormat) {
  EXPECT_EQ(static_cast<int>(TernaryFormat::kT2), 1);
  EXPECT_EQ(static_cast<int>(TernaryFormat::kT5), 2);
  EXPECT_EQ(static_cast<int>(TernaryFormat::kTMask), 3);
  EXPECT_EQ(static_cast<int>(TernaryFormat::kLanes), 4);
  EXPECT_EQ(static_cast<int>(TernaryFormat::kTrans), 5);
}

TEST(TernaryFormat, HasNames) {
  EXPECT_EQ(to_string(TernaryFormat::kT2), "t2");
  EXPECT_EQ(to_string(TernaryFormat::kT5), "t5");
  EXPECT_EQ(to_string(TernaryFormat::kTMask), "tmask");
  EXPECT_EQ(to_string(TernaryFormat::kTrans), "trans");
  EXPECT_EQ(to_string(TernaryFormat::kLanes), "lanes");
}

TEST(LaneBits, AreTheMinThatHoldASum) {
  for (int n = 1; n < 5000; ++n) ASSERT_EQ(lane_bits(n), reference::lane_bits(n)) << n;
  EXPECT_EQ(lane_bits(1), 2);
  EXPECT_EQ(lane_bits(2), 3);
  EXPECT_EQ(lane_bits(3), 3);
  EXPECT_EQ(lane_bits(4), 4);
  EXPECT_EQ(lane_bits(std::numeric_limits<int>::max()), 32);
}

TEST(LaneBits, RefuseNoWorkers) { EXPECT_THROW(lane_bits(0), InvalidArgument); }

TEST(PayloadBytes, AreThoseOfThePackedFormatAndEnoughForTmask) {
  for (std::int64_t n = 0; n < 9000; n += n < 300 ? 1 : 61) {
    const std::vector<std::int8_t> codes(static_cast<std::size_t>(n), 1);  // all non-zero: the longest tmask
    for (const TernaryFormat format : kFormats) {
      for (const int workers : {1, 2, 5, 16}) {
        ASSERT_EQ(payload_bytes(format, n, workers),
                  static_cast<std::int64_t>(reference::pack(codes, static_cast<int>(format), workers).size()))
            << to_string(format) << " of " << n;
      }
    }
  }
}

TEST(PayloadBytes, RefuseANegativeNumber) { EXPECT_THROW(payload_bytes(TernaryFormat::kT2, -1, 1), InvalidArgument); }

TEST(TMaskParts, FollowEachOther) {
  const TMaskParts parts = tmask_parts(4097);
  EXPECT_EQ(parts.num_chunks, 2);
  EXPECT_EQ(parts.masks_offset, 12);
  EXPECT_EQ(parts.signs_offset, 12 + 4 * 129);
}

}  // namespace
}  // namespace terngrad::ternary_test
