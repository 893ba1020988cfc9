#include "compress/cost/probe_samples.h"

#include <gtest/gtest.h>

namespace terngrad::probe_samples_test {
namespace {

TEST(ProbeSamples, EachPartHasItsMedianAndEachSampleItsSum) {
  ProbeSamples samples;
  EXPECT_TRUE(samples.empty());
  samples.add({1, 20, 300});
  samples.add({3, 10, 200});
  samples.add({2, 30, 100});
  EXPECT_EQ(samples.count(), 3);
  EXPECT_EQ(samples.medians(), (ProbeSamples::Parts{2, 20, 200}));
  EXPECT_EQ(samples.sums(), (std::vector<double>{321, 213, 132}));
}

TEST(ProbeSamples, TwoThatAreSlowerAreBeaten) {
  ProbeSamples samples;
  samples.add({1, 1, 1});
  EXPECT_FALSE(samples.are_beaten(2, 0));  // one slow sample may be an accident
  samples.add({2, 1, 1});
  EXPECT_TRUE(samples.are_beaten(2, 0));
  EXPECT_FALSE(samples.are_beaten(3, 0));  // the first sample is faster
  EXPECT_TRUE(samples.are_beaten(3, 0.5));
}

}  // namespace
}  // namespace terngrad::probe_samples_test
