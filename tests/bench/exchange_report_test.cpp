#include "bench/exchange_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace terngrad::bench::exchange_report_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ExchangeReportHeader header() {
  return {.layout = "a model",
          .num_elements = 1000,
          .num_segments = 4,
          .num_workers = 2,
          .ranks = {"rank 0 on a", "rank 1 on b"},
          .num_threads = 3,
          .repetitions = 5,
          .link = {}};
}

ExchangeResult result() {
  const ExchangeTimes times{.measure_seconds = 0.001,
                            .encode_seconds = 0.002,
                            .wire_seconds = 0.08,
                            .decode_seconds = 0.004,
                            .total_seconds = 0.0875,
                            .sent_bytes = 1e6,
                            .received_bytes = 0.5e6};
  return {.codec = "t2", .exchange = "all_gather", .ranks = {times, {}}, .samples = {times}, .predicted = {}};
}

ExchangeResult predicted() {
  ExchangeResult with = result();
  with.predicted = ExchangeCost{
      .codec = "t2", .wire = {1e6, 2}, .encode_seconds = 0.005, .check_seconds = 0.006, .decode_seconds = 0.007};
  return with;
}

TEST(ExchangeReport, IsATable) {
  EXPECT_EQ(
      to_text(header(), {result()}),
      "a model: 1000 elements in 4 tensors, 2 workers in 2 processes, 3 threads each\n"
      "medians of 5, the slowest process's; ms; MB over a process's link in each direction\n"
      "codec      exchange          measure    encode      wire    decode     total      sent  received    Mbit/s\n"
      "t2         all_gather          1.000     2.000    80.000     4.000    87.500     1.000     0.500     100.0\n");
}

TEST(ExchangeReport, PredictionsStandUnderWhatWasMeasured) {
  ExchangeReportHeader with_link = header();
  with_link.link = LinkModel{0.001, 12.5e6};
  const std::string text = to_text(with_link, {predicted()});
  EXPECT_THAT(text, HasSubstr("link: 1000.0 us and 100.0 Mbit/s for each process\n"));
  // Wire time: 6 ms for checks, two latencies and 80 ms.
  EXPECT_THAT(
      text,
      HasSubstr(
          "\n           predicted                     5.000    88.000     7.000   100.000     1.000     1.000\n"));
  EXPECT_THAT(to_text(header(), {predicted()}), Not(HasSubstr("predicted")));
}

TEST(ExchangeReport, JsonHasEveryRank) {
  ExchangeReportHeader with_link = header();
  with_link.link = LinkModel{0.001, 12.5e6};
  const auto json = to_json(with_link, {predicted()});
  EXPECT_EQ(json["layout"], "a model");
  EXPECT_EQ(json["processes"].size(), 2u);
  EXPECT_EQ(json["link"]["bytes_per_second"], 12.5e6);
  const auto& entry = json["results"][0];
  EXPECT_EQ(entry["codec"], "t2");
  EXPECT_EQ(entry["exchange"], "all_gather");
  EXPECT_EQ(entry["slowest"]["bits_per_second"], 1e8);
  ASSERT_EQ(entry["samples"].size(), 1u);
  EXPECT_EQ(entry["samples"][0]["total_seconds"], 0.0875);
  ASSERT_EQ(entry["ranks"].size(), 2u);
  EXPECT_EQ(entry["ranks"][0]["sent_bytes"], 1e6);
  EXPECT_EQ(entry["ranks"][1]["sent_bytes"], 0);
  EXPECT_NEAR(entry["predicted"]["total_seconds"].get<double>(), 0.1, 1e-12);
  EXPECT_EQ(entry["predicted"]["rounds"], 2);
  const auto without = to_json(header(), {result()});
  EXPECT_FALSE(without.contains("link"));
  EXPECT_FALSE(without["results"][0].contains("predicted"));
}

TEST(ExchangeReport, NoLinkIsUnlimited) {
  ExchangeReportHeader alone = header();
  alone.ranks = {"rank 0"};
  alone.link = kNoLink;
  EXPECT_THAT(to_text(alone, {}),
              HasSubstr("2 workers in 1 process, 3 threads each\nnothing travels between processes: "));
  EXPECT_THAT(to_text(alone, {}), HasSubstr("link: 0.0 us and unlimited Mbit/s"));
  EXPECT_TRUE(to_json(alone, {})["link"]["bytes_per_second"].is_null());
}

}  // namespace
}  // namespace terngrad::bench::exchange_report_test
