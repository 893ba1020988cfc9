#include "trainers/inspect/distortion_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace terngrad::distortion_sums_test {
namespace {

TEST(DistortionSums, AreOfAllAsOneVector) {
  // h = (3, -4, 0, 1) in two parts, d = (2, -4, 1, 0).
  DistortionSums first, second;
  first.add(std::vector<float>{3, -4}, std::vector<float>{2, -4});
  second.add(std::vector<float>{0, 1}, std::vector<float>{1, 0});
  first.code_bytes = 1;
  second.code_bytes = 2;
  const CodecDistortion all = (first += second).distortion(16);
  EXPECT_EQ(all.code_bits, 6);
  EXPECT_EQ(all.message_bits, 32);
  EXPECT_DOUBLE_EQ(all.cosine, 22 / std::sqrt(26.0 * 21));
  EXPECT_DOUBLE_EQ(all.vnmse, 3 / 26.0);
  EXPECT_DOUBLE_EQ(all.kept_norm, std::sqrt(21.0 / 26));
  EXPECT_EQ(all.zero_fraction, 0.25);
  // Maximum error / |h|: 1 / 4 in the first part, 1 / 1 in the second.
  EXPECT_EQ(all.max_error, 1);
}

TEST(DistortionSums, SayNothingOfNothing) {
  DistortionSums sums;
  sums.add(std::vector<float>{0, 0}, std::vector<float>{0, 0});
  const CodecDistortion zeros = sums.distortion(8);
  EXPECT_TRUE(std::isnan(zeros.cosine));
  EXPECT_TRUE(std::isnan(zeros.vnmse));
  EXPECT_TRUE(std::isnan(zeros.kept_norm));
  EXPECT_EQ(zeros.zero_fraction, 1);
  EXPECT_EQ(zeros.max_error, 0);
  EXPECT_TRUE(std::isnan(DistortionSums().distortion(0).code_bits));
}

TEST(Ratios, AreOfPowers) {
  EXPECT_EQ(ratio_of(1, 4), 0.25);
  EXPECT_EQ(ratio_of(1, 0), INFINITY);
  EXPECT_TRUE(std::isnan(ratio_of(0, 0)));
  EXPECT_EQ(power_of(std::vector<float>{3, -4}), 25);
  EXPECT_EQ(root_of_ratio(4, 1), 2);
}

}  // namespace
}  // namespace terngrad::distortion_sums_test
