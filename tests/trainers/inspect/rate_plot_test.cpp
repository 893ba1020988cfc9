#include "trainers/inspect/rate_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace terngrad::rate_plot_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void add(Inspection& inspection, const std::string& codec, double bits, double snr) {
  InspectionResult result{.codec = {codec, codec, "none"}, .all = {}, .tensors = {}};
  result.all.message_bits = bits;
  result.all.snr_db = snr;
  inspection.results.push_back(result);
}

Inspection inspection() {
  Inspection made{.source = "runs/a & <b>", .steps = {1}, .layout = {}, .results = {}};
  add(made, "fp32", 32.01, INFINITY);
  add(made, "ternary:clip_factor=2.5,format=tmask", 1.26, -3.25);
  add(made, "sign", 1.01, 4.5);
  return made;
}

/// The numbers of an attribute, in the order of the image.
std::vector<double> numbers_of(const std::string& svg, const std::string& begin) {
  std::vector<double> numbers;
  for (std::size_t at = svg.find(begin); at != std::string::npos; at = svg.find(begin, at + 1)) {
    numbers.push_back(std::stod(svg.substr(at + begin.size(), 12)));
  }
  return numbers;
}

TEST(RatePlot, ShowsEveryCodecAsText) {
  const std::string svg = rate_plot(inspection());
  EXPECT_THAT(svg, HasSubstr("runs/a &amp; &lt;b&gt;"));
  for (const char* label : {">fp32 (exact)<", ">ternary:clip_factor=2.5,format=tmask<", ">sign<"}) {
    EXPECT_THAT(svg, HasSubstr(label));
  }
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_EQ(rate_plot(inspection()), svg);
}

TEST(RatePlot, FewerBitsAreFurtherLeftAndLessNoiseIsHigher) {
  const std::string svg = rate_plot(inspection());
  // In order of bits: sign, then ternary.
  const std::vector<double> x = numbers_of(svg, "cx=\""), y = numbers_of(svg, "cy=\"");
  ASSERT_EQ(x.size(), 2u);
  EXPECT_LT(x[0], x[1]);
  EXPECT_LT(y[0], y[1]);
}

TEST(RatePlot, LabelsOfPointsAtOnePlaceAreApart) {
  Inspection close{.source = "", .steps = {1}, .layout = {}, .results = {}};
  for (const char* codec : {"a", "b", "c", "d"}) add(close, codec, 2, 1);
  const std::string svg = rate_plot(close);
  const std::string begin = "font-size=\"11.5\">";
  std::vector<std::string> places;
  for (std::size_t at = svg.find(begin); at != std::string::npos; at = svg.find(begin, at + 1)) {
    const std::size_t x = svg.rfind(" x=", at);
    places.push_back(svg.substr(x, at - x));
  }
  ASSERT_EQ(places.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(places[i], places[j]);
  }
}

TEST(RatePlot, DrawsWhereThereIsNothingToDraw) {
  Inspection all_zero{.source = "", .steps = {1}, .layout = {}, .results = {}};
  EXPECT_THAT(rate_plot(all_zero), HasSubstr("</svg>"));
  add(all_zero, "fp32", 32, NAN);
  EXPECT_THAT(rate_plot(all_zero), Not(HasSubstr("fp32")));
}

}  // namespace
}  // namespace terngrad::rate_plot_test
