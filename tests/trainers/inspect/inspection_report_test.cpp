#include "trainers/inspect/inspection_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace terngrad::inspection_report_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Fictitious results of three codecs for two tensors of a run with two workers.
Inspection inspection() {
  Inspection made{.source = "runs/a & b", .steps = {10, 20}, .num_workers = 2, .layout = {}, .seed = 1, .results = {}};
  made.layout.add("conv/weights", {5, 5, 1, 32});
  made.layout.add("biases", {1});
  const auto add = [&](const char* given, const char* memory, double bits, double vnmse) {
    CodecDistortion row{.code_bits = bits,
                        .message_bits = bits + 0.0123,
                        .cosine = 0.98765,
                        .vnmse = vnmse,
                        .kept_norm = 123.45,
                        .zero_fraction = 0.5,
                        .max_error = 0.25,
                        .mean_vnmse = vnmse / 8};
    if (std::string(memory) != "none") row.residual_norm = 0.4567;
    made.results.push_back({.codec = {given, given, memory},
                            .all = row,
                            .tensors = {row, row},
                            .kept_bytes = 1.0625,
                            .residual_norms = {},
                            .encode_bytes_per_second = 1.234e9,
                            .decode_bytes_per_second = 23.44e9});
  };
  add("fp32", "none", 32, 0);
  add("ternary:clip_factor=2.5,format=tmask", "none", 1.25, 1.0125);
  add("efsignsgd", "ef:decay=1", 1, 0.0004);
  return made;
}

TEST(InspectionReport, FitsEightyColumns) {
  std::istringstream text(to_text(inspection(), /*per_tensor=*/true, 80));
  int num_lines = 0;
  for (std::string line; std::getline(text, line); ++num_lines) {
    EXPECT_LE(line.size(), 80u) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
  EXPECT_GT(num_lines, 20);
}

TEST(InspectionReport, SaysWhatWasFound) {
  const std::string text = to_text(inspection(), /*per_tensor=*/false, 120);
  EXPECT_THAT(text, HasSubstr("runs/a & b\n2 steps (10 to 20), 2 workers of 801 elements in 2 tensors\n"));
  EXPECT_THAT(text, HasSubstr("exact"));
  EXPECT_THAT(text, HasSubstr("efsignsgd keeps ef:decay=1, 1.062 bytes for an element and worker\n"));
  EXPECT_THAT(text, Not(HasSubstr("conv/weights")));
  std::istringstream lines(text);
  std::string row;
  while (std::getline(lines, row) && !row.starts_with("efsignsgd ")) {
  }
  std::istringstream cells(row);
  const std::vector<std::string> found{std::istream_iterator<std::string>(cells), {}};
  EXPECT_THAT(found, ::testing::ElementsAre("efsignsgd", "1.000", "1.012", "0.9877", "4.0e-04", "123.5", "0.500",
                                            "0.250", "5.0e-05", "0.457", "1.23", "23.4"));
  EXPECT_THAT(to_text(inspection(), /*per_tensor=*/true, 80),
              HasSubstr("\nconv/weights [5, 5, 1, 32], 800 elements\n"));
}

TEST(InspectionReport, GivesProgramsEveryNumber) {
  const nlohmann::ordered_json json = to_json(inspection());
  EXPECT_EQ(json["steps"], (nlohmann::json{10, 20}));
  EXPECT_EQ(json["num_elements"], 801);
  ASSERT_EQ(json["codecs"].size(), 3u);
  EXPECT_EQ(json["codecs"][0]["vnmse"], 0);
  EXPECT_FALSE(json["codecs"][0].contains("residual_norm"));
  const auto& row = json["codecs"][2];
  EXPECT_EQ(row["memory"], "ef:decay=1");
  EXPECT_EQ(row["message_bits_per_element"], 1.0123);
  EXPECT_EQ(row["mean_vnmse"], 0.00005);
  EXPECT_EQ(row["kept_bytes_per_element"], 1.0625);
  EXPECT_EQ(row["residual_norm"], 0.4567);
  EXPECT_EQ(row["encode_bytes_per_second"], 1.234e9);
  EXPECT_EQ(row["tensors"][0]["name"], "conv/weights");
  EXPECT_EQ(row["tensors"][1]["max_error"], 0.25);
  // No values that JSON readers cannot parse.
  EXPECT_THAT(json.dump(), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace terngrad::inspection_report_test
