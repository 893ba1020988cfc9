#include "trainers/hooks/interval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/fake_run.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::interval_test {
namespace {

TEST(Interval, TextKeepsAllButTimesExactly) {
  Interval interval;
  interval.steps = 3;
  interval.loss = 0.1 + 0.2;
  interval.accuracy = -0.0;
  interval.skipped_steps = 1;
  interval.nonfinite_steps = 2;
  interval.transform_counts = {.zeroed_elements = 5'000'000'000, .clipped_gradients = 7};
  interval.bytes.gradient = {.sent = 1, .received = 2};
  interval.bytes.servers = {.sent = 3, .received = 4};
  interval.bytes.num_workers = 6;
  interval.bytes.num_servers = 5;
  interval.seconds = 9;
  const Interval read = parse_interval(interval.to_text());
  EXPECT_EQ(read.steps, 3u);
  EXPECT_EQ(testing::bits_of(read.loss), testing::bits_of(interval.loss));
  EXPECT_EQ(testing::bits_of(read.accuracy), testing::bits_of(interval.accuracy));
  EXPECT_EQ(read.skipped_steps, 1u);
  EXPECT_EQ(read.nonfinite_steps, 2u);
  EXPECT_EQ(read.transform_counts.zeroed_elements, 5'000'000'000);
  EXPECT_EQ(read.transform_counts.clipped_gradients, 7);
  EXPECT_EQ(read.seconds, 0);
  EXPECT_EQ(read.bytes.gradient.received, 2);
  EXPECT_EQ(read.bytes.servers.sent, 3);
  EXPECT_EQ(read.bytes.num_workers, 6);
  EXPECT_EQ(read.bytes.num_servers, 5);
  EXPECT_EQ(read.frozen_elements, 0);
  interval.frozen_elements = 60;
  EXPECT_EQ(parse_interval(interval.to_text()).frozen_elements, 60);
  EXPECT_EQ(interval.mean_exchanged_elements(100), 70) << "two of three steps were exchanged";
  EXPECT_EQ(Interval().mean_exchanged_elements(100), 100);
  interval.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(parse_interval(interval.to_text()).loss));
  for (const std::string& text : {std::string(), std::string("1 2 3"), interval.to_text() + " 1",
                                  interval.to_text() + " frozen", std::string("x")}) {
    EXPECT_THROW(parse_interval(text), DataError) << text;
  }
}

TEST(Interval, OfAVersionBeforeIsReadButForItsBytes) {
  // 3 steps, loss 1.5, accuracy 0.5, counts, and the bytes of three legs.
  const std::string text = "3 3ff8000000000000 3fe0000000000000 1 2 5 7 80 90 300 310 60 70";
  const Interval read = parse_interval(text);
  EXPECT_EQ(read.steps, 3u);
  EXPECT_EQ(read.loss, 1.5);
  EXPECT_EQ(read.accuracy, 0.5);
  EXPECT_EQ(read.transform_counts.clipped_gradients, 7);
  EXPECT_EQ(read.bytes.sent_bytes() + read.bytes.received_bytes() + read.bytes.num_workers, 0);
  EXPECT_EQ(parse_interval(text + " 0:2,3:4;1;0").pushes.total(), 6u);
  EXPECT_THROW(parse_interval(text + " 1 2"), DataError);
}

}  // namespace
}  // namespace terngrad::interval_test
