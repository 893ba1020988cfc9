// From a cluster whose numbers are easily worked out by hand; compress/cost/cluster_model_test.cpp has the model's own
// cases.
#include "trainers/commands/cluster_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "compress/cost/paper_clusters.h"
#include "kernels/runtime/errors.h"
#include "tests/trainers/cluster_lookup.h"

namespace terngrad::cluster_advice_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::find_codec;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Two machines of one GPU, 8 MB/s, no latency. A gradient of 4 MB in fp32; computing takes 1 s for 10 examples.
constexpr const char* kSmall = R"({
  "schema": 1, "name": "small", "machines": 2, "gpus_per_machine": 1, "measured_workers": 2,
  "links": {"network": {"latency_us": 0, "gbytes_per_second": 0.008, "source": "measured"}},
  "calibration": {"commit": "41a020bb6868", "machine": "a Xeon"},
  "nets": [{
    "name": "net", "examples_per_worker": 10,
    "compute": {"points": [{"examples": 10, "seconds": 1}], "source": "measured"},
    "update": {"points": [{"elements": 1000000, "seconds": 0.25}], "source": "given"},
    "buckets": [{"elements": 1000000, "plain_elements": 0, "tensors": 0, "ready_fraction": 1}]
  }],
  "codecs": [
    {"name": "fp32", "encode": {"points": [{"elements": 1, "seconds": 0}], "source": "given"},
                     "decode": {"points": [{"elements": 1, "seconds": 0}], "source": "given"}},
    {"name": "t2", "encode": {"points": [{"elements": 1000000, "seconds": 0.125}], "source": "measured"},
                   "decode": {"points": [{"elements": 1000000, "seconds": 0.0625}], "source": "assumed"}}
  ]
})";

ClusterAdvice small() { return make_cluster_advice(parse_cluster(kSmall, "small.json")); }

ClusterAdvice ethernet() { return make_cluster_advice(read_cluster_file("experiments/clusters/paper-ethernet.json")); }

const AdvisedStep& step_of(const AdvisedNet& net, int num_workers, const std::string& codec,
                           const std::string& downlink) {
  const auto found = std::ranges::find_if(net.steps, [&](const AdvisedStep& step) {
    const StepPrediction& p = step.prediction;
    return p.num_workers == num_workers && p.uplink == codec && p.downlink == downlink;
  });
  if (found == net.steps.end()) throw std::runtime_error("no step of " + codec + ", " + downlink);
  return *found;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(AdvisedWorkers, ArePowersOfTwoInWholeMachines) {
  const std::vector<int> four = advised_workers(4);
  EXPECT_EQ(four.size(), 18u);
  EXPECT_EQ(four.front(), 1);
  EXPECT_EQ(four[16], 65'536);
  EXPECT_EQ(four.back(), 100'000);
  const std::vector<int> three = advised_workers(3);
  EXPECT_THAT(std::vector<int>(three.begin(), three.begin() + 6), ElementsAre(1, 2, 3, 6, 15, 30));
  EXPECT_EQ(three.back(), 99'999);
  EXPECT_THAT(advised_workers(65'536), Not(Contains(100'000)));
  EXPECT_EQ(advised_workers(100'000).back(), 100'000);
}

TEST(ClusterAdvice, AStepHasThePartsOfTheFastestPlan) {
  const ClusterAdvice advice = small();
  ASSERT_EQ(advice.nets.size(), 1u);
  // A ring of two moves 4 MB in 0.5 s, a tree 8 MB.
  const AdvisedStep& fp32 = step_of(advice.nets[0], 2, "fp32", "fp32");
  EXPECT_EQ(fp32.prediction.exchange, "ring");
  EXPECT_EQ(fp32.prediction.parts.exposed_exchange, 0.5);
  EXPECT_EQ(fp32.prediction.seconds(), 1 + 0.5 + 0.25);
  EXPECT_EQ(fp32.images_per_second, 20 / 1.75);
  EXPECT_EQ(fp32.over_fp32, 1);
  EXPECT_EQ(fp32.over_bf16, std::nullopt);
  // 0.25 MB to the other worker; two messages to decode.
  const AdvisedStep& gathered = step_of(advice.nets[0], 2, "t2", "");
  EXPECT_EQ(gathered.prediction.message.up, 250'000);
  EXPECT_EQ(gathered.prediction.parts.exposed_exchange, 0.03125);
  EXPECT_EQ(gathered.prediction.seconds(), 1 + 0.125 + 0.03125 + 2 * 0.0625 + 0.25);
  EXPECT_EQ(gathered.over_fp32, 1.75 / 1.53125);
  EXPECT_FALSE(gathered.prediction.extrapolated);
  EXPECT_TRUE(step_of(advice.nets[0], 16, "t2", "").prediction.extrapolated);
}

TEST(ClusterAdvice, OneDownlinkIsTheBestOfItsCodec) {
  const ClusterAdvice advice = ethernet();
  ASSERT_EQ(advice.nets.size(), 3u);
  for (const AdvisedNet& net : advice.nets) {
    for (const int num_workers : advice.workers) {
      for (const CodecWork& codec : advice.file.codecs) {
        const AdvisedStep* best = nullptr;
        double fewest = 1e300;
        for (const AdvisedStep& step : net.steps) {
          if (step.prediction.num_workers != num_workers || step.prediction.uplink != codec.codec) continue;
          fewest = std::min(fewest, step.prediction.seconds());
          if (!step.is_best_of_codec) continue;
          EXPECT_EQ(best, nullptr) << num_workers << codec.codec;
          best = &step;
        }
        ASSERT_NE(best, nullptr);
        EXPECT_EQ(best->prediction.seconds(), fewest);
      }
      // And of each downlink no plan is faster.
      for (const ClusterPlan& plan : suitable_plans(advice.file.cluster, "t2", num_workers)) {
        const double seconds =
            predict_step(advice.file.cluster, net.net, *find_codec(advice.file, "t2"), plan, num_workers).seconds();
        EXPECT_LE(step_of(net, num_workers, "t2", plan.downlink).prediction.seconds(), seconds);
      }
    }
  }
}

TEST(ClusterAdvice, ClustersOfThePaperHaveTheirFigure) {
  ASSERT_TRUE(ethernet().figure.has_value());
  EXPECT_EQ(ethernet().figure->cluster.name, "paper-ethernet");
  EXPECT_FALSE(small().figure.has_value());
}

TEST(ClusterAdvice, NeedsNetsAndCodecs) {
  const auto error_without = [](const std::string& key) {
    ClusterFile file = parse_cluster(kSmall, "small.json");
    (key == "nets" ? file.nets.clear() : file.codecs.clear());
    try {
      make_cluster_advice(file);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(error_without("nets"), StartsWith("the file lacks the key 'nets'"));
  EXPECT_THAT(error_without("codecs"), StartsWith("the file lacks the key 'codecs'"));
}

TEST(ClusterAdvice, IsAScreenOfAHundredColumns) {
  for (const ClusterAdvice& advice : {small(), ethernet()}) {
    for (const std::string& line : lines_of(to_text(advice))) EXPECT_LE(line.size(), 100u) << line;
  }
}

TEST(ClusterAdvice, SaysWhereNumbersComeFrom) {
  const std::string text = to_text(small());
  EXPECT_THAT(text, StartsWith("small: 2 machines of 1 GPU, 2 workers; measured by commit 41a020bb6868 on a Xeon\n"
                               "links: network 0.064 Gbit/s, 0 us (measured)\n"
                               "inputs were observed with 2 workers; * marks steps extrapolated to more than 8\n"));
  EXPECT_THAT(text, HasSubstr("\ninputs measured: compute, encode t2, network link; given: update, encode fp32, decode "
                              "fp32; assumed:\n  decode t2, straggler deviation, host link, bisection factor\n"));
}

TEST(ClusterAdvice, HasALineForEachNumberOfWorkers) {
  const std::vector<std::string> lines = lines_of(to_text(small()));
  EXPECT_THAT(lines, Contains("net: 1,000,000 elements, 0 of them always as floats; 10 examples a worker"));
  EXPECT_THAT(lines, Contains(" workers         fp32     t2   fastest"));
  EXPECT_THAT(lines, Contains("       2           11   1.14   t2 by all_gather"));
  EXPECT_THAT(lines, Contains(StartsWith("       8 ")));
  EXPECT_THAT(lines, Contains(StartsWith("      16*")));
  EXPECT_THAT(lines, Contains(StartsWith(" 100,000*")));
  EXPECT_THAT(lines, Contains("fp32  fp32  ring              1  1000.0  0.000   500.0  0.000  250.0  1750.0  4.00  4.00"
                              "  1.00     -"));
}

TEST(ClusterAdvice, HasAllItsNumbersInJson) {
  const nlohmann::ordered_json json = to_json(small());
  EXPECT_EQ(json["command"], "terngrad_advise");
  EXPECT_EQ(json["cluster"]["name"], "small");
  EXPECT_EQ(json["cluster"]["extrapolated_above"], 8);
  EXPECT_EQ(json["cluster"]["links"]["network"]["source"], "measured");
  EXPECT_TRUE(json["cluster"]["links"]["gpu"].is_null());
  EXPECT_EQ(json["calibration"]["commit"], "41a020bb6868");
  EXPECT_EQ(json["workers"].size(), 18u);
  EXPECT_TRUE(json["figure5"].is_null());
  const nlohmann::ordered_json& net = json["nets"][0];
  EXPECT_EQ(net["num_elements"], 1'000'000);
  ASSERT_EQ(net["steps"].size(), 18u * 5);  // fp32, and t2 with no downlink and three
  const nlohmann::ordered_json& fp32 = net["steps"][5];
  EXPECT_EQ(fp32["workers"], 2);
  EXPECT_EQ(fp32["codec"], "fp32");
  EXPECT_EQ(fp32["exchange"], "ring");
  EXPECT_EQ(fp32["step_seconds"], 1.75);
  EXPECT_EQ(fp32["speed_up"]["fp32"], 1);
  EXPECT_TRUE(fp32["speed_up"]["bf16"].is_null());
  EXPECT_EQ(fp32["message_bytes"]["down"], 4'000'000);
  EXPECT_EQ(fp32["parts"]["exposed_exchange_seconds"], 0.5);
  EXPECT_EQ(fp32["exchange_parts"]["network_seconds"], 0.5);
  EXPECT_EQ(fp32["inputs"]["measured"], nlohmann::ordered_json::array({"compute", "network link"}));
  const nlohmann::ordered_json& gathered = net["steps"][6];
  EXPECT_EQ(gathered["codec"], "t2");
  EXPECT_TRUE(gathered["downlink"].is_null());
  EXPECT_TRUE(gathered["message_bytes"]["down"].is_null());
  EXPECT_EQ(gathered["best_of_codec"], true);
  EXPECT_EQ(gathered["extrapolated"], false);
  EXPECT_EQ(to_json(ethernet())["figure5"]["figure"], "a");
  EXPECT_TRUE(to_json(ethernet())["calibration"].is_null());
}

}  // namespace
}  // namespace terngrad::cluster_advice_test
