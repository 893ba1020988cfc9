#include "compress/cost/paper_bars.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>

#include "kernels/runtime/errors.h"

namespace terngrad::paper_bars_test {
namespace {

TEST(PaperBars, Are60OfEachCluster) {
  std::set<std::string> kinds;
  for (const PaperBars& bars : paper_bars()) {
    EXPECT_NE(find_paper_cluster(bars.cluster), nullptr);
    EXPECT_EQ(bars.images_per_second.size(), paper_gpus().size());
    EXPECT_EQ(bars.weights.size(), paper_gpus().size());
    kinds.insert(bars.cluster + paper_net(bars.net).name + (bars.is_ternary ? "ternary" : "fp32"));
  }
  EXPECT_EQ(paper_bars().size(), 12u);
  EXPECT_EQ(kinds.size(), 12u);
  EXPECT_EQ(paper_gpus().size(), 10u);
  EXPECT_EQ(paper_gpus().back(), 512);
}

TEST(PaperBars, OneIsFoundByItsPlace) {
  EXPECT_EQ(paper_bar("paper-ethernet", "alexnet", false, 1), 394);
  EXPECT_EQ(paper_bar("paper-ethernet", "vgg_a", true, 8), 322);
  EXPECT_EQ(paper_bar("paper-infiniband", "googlenet", false, 512), 93931);
  EXPECT_THROW(paper_bar("paper-infiniband", "googlenet", false, 3), InvalidArgument);
  EXPECT_THROW(paper_bar("paper-infiniband", "lenet", false, 2), InvalidArgument);
  EXPECT_THROW(paper_bar("none", "googlenet", false, 2), InvalidArgument);
}

TEST(PaperBars, TwoThatAreThreePixelsHighWeighLess) {
  for (const PaperBars& bars : paper_bars()) {
    const bool has_short = bars.cluster == "paper-ethernet" && bars.net == "vgg_a" && !bars.is_ternary;
    for (std::size_t i = 0; i < paper_gpus().size(); ++i) {
      const bool is_short = has_short && (paper_gpus()[i] == 32 || paper_gpus()[i] == 64);
      EXPECT_EQ(bars.weights[i], is_short ? 0.3 : 1);
    }
  }
}

TEST(PaperRmsPercent, IsOfWeightedLogarithms) {
  PaperCluster slow = *find_paper_cluster("paper-infiniband");
  const double fitted = paper_rms_percent(slow);
  for (double& seconds : slow.step_seconds) seconds *= 1000;
  // Computing is all that counts: every bar is off by about ln(1000) = 691 %.
  EXPECT_NEAR(paper_rms_percent(slow), 691, 40);
  EXPECT_LT(fitted, 1);
  slow.name = "none";
  EXPECT_THROW(paper_rms_percent(slow), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::paper_bars_test
