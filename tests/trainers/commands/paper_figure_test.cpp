// tests/compress/cost has the tests of the bars and of the model itself.
#include "trainers/commands/paper_figure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "kernels/runtime/errors.h"

namespace terngrad::paper_figure_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

PaperFigure ethernet() { return make_paper_figure(*find_paper_cluster("paper-ethernet")); }

TEST(PaperFigure, HasBarsAndModelOfItsCluster) {
  const PaperFigure figure = ethernet();
  ASSERT_EQ(figure.bars.size(), 6u);
  for (const ModelledBars& row : figure.bars) {
    EXPECT_EQ(row.bars.cluster, "paper-ethernet");
    ASSERT_EQ(row.model.size(), paper_gpus().size());
    for (std::size_t i = 0; i < row.model.size(); ++i) {
      EXPECT_EQ(row.model[i],
                paper_throughput(figure.cluster, paper_net(row.bars.net), row.bars.codec(), paper_gpus()[i]));
    }
  }
  EXPECT_NEAR(figure.rms_percent, 1.86, 0.005);
}

TEST(PaperFigure, HasGainsWhereTheTextHasThem) {
  const PaperFigure figure = ethernet();
  ASSERT_EQ(figure.gains.size(), 6u);
  EXPECT_EQ(figure.gains[0].net, "alexnet");
  EXPECT_EQ(figure.gains[0].num_gpus, 8);
  EXPECT_NEAR(figure.gains[0].chart, 3.04, 0.005);
  EXPECT_NEAR(figure.gains[0].model, 3.05, 0.005);
  EXPECT_EQ(figure.gains[5].net, "vgg_a");
  EXPECT_EQ(figure.gains[5].num_gpus, 512);
  EXPECT_NEAR(figure.gains[5].chart, 7.55, 0.005);
  EXPECT_NEAR(figure.gains[5].model, 7.57, 0.0075);
}

TEST(PaperFigure, IsTablesOfAHundredColumns) {
  const std::string text = to_text(ethernet());
  EXPECT_THAT(text,
              StartsWith("Figure 5 (a) of Wen et al., NIPS 2017: images/s of its bars and of a model, rms 1.86 %\n"));
  EXPECT_THAT(text, HasSubstr("\n 512   25709 "));
  EXPECT_THAT(text, HasSubstr("\non 8 GPUs                           3.04  | 3.05 "));
  EXPECT_THAT(text, HasSubstr("\nsums, 11 bits                       2.73  | 1.56 "));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100u) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
}

TEST(PaperFigure, HasAllItsNumbersInJson) {
  const nlohmann::ordered_json json = to_json(ethernet());
  EXPECT_EQ(json["figure"], "a");
  EXPECT_EQ(json["gpus"].size(), 10u);
  ASSERT_EQ(json["bars"].size(), 6u);
  EXPECT_EQ(json["bars"][1]["net"], "alexnet");
  EXPECT_EQ(json["bars"][1]["gradients"], "ternary");
  EXPECT_EQ(json["bars"][1]["chart"][9], 99417);
  EXPECT_EQ(json["bars"][4]["weights"][5], 0.3);
  EXPECT_EQ(json["speed_ups"].size(), 6u);
  const nlohmann::ordered_json& by_downlink = json["by_downlink"];
  EXPECT_EQ(by_downlink["gpus"], 512);
  ASSERT_EQ(by_downlink["rows"].size(), 4u);
  EXPECT_EQ(by_downlink["rows"][1]["downlink"], "lanes");
  EXPECT_EQ(by_downlink["rows"][1]["downlink_bits"], 11);
  EXPECT_EQ(by_downlink["rows"][1]["uplink_bits"], 2);
  EXPECT_EQ(by_downlink["rows"][3]["speed_ups"][2]["net"], "vgg_a");
  EXPECT_LT(by_downlink["rows"][3]["speed_ups"][2]["over_bf16"], 1);
}

TEST(PaperFigure, NeedsAClusterWithBars) {
  PaperCluster other = *find_paper_cluster("paper-ethernet");
  other.name = "sixteen-hosts";
  EXPECT_THROW(make_paper_figure(other), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::paper_figure_test
