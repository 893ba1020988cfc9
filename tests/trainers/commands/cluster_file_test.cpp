#include "trainers/commands/cluster_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "compress/cost/paper_clusters.h"
#include "kernels/runtime/errors.h"
#include "tests/trainers/cluster_lookup.h"

namespace terngrad::cluster_file_test {
namespace {

using testing::find_codec;
using testing::find_net;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// What the smallest file has, one worker alone.
constexpr const char* kAlone = R"({
  "schema": 1, "name": "alone", "machines": 1, "gpus_per_machine": 1, "measured_workers": 1, "links": {}
})";

constexpr const char* kFull = R"(// A comment.
{
  "schema": 1,
  "name": "sixteen-hosts",
  "machines": 16,
  "gpus_per_machine": 4,
  "measured_workers": 8, /* the most */
  "links": {
    "gpu": {"latency_us": 5, "gbytes_per_second": 11.9, "source": "given"},
    "host": {"latency_us": 0, "gbytes_per_second": 12, "source": "assumed"},
    "network": {"latency_us": 30, "gbits_per_second": 8, "source": "measured"}
  },
  "bisection_factor": {"value": 0.5, "source": "given"},
  "straggler_deviation": {"value": 0.02, "source": "measured"},
  "calibration": {"commit": "41a020bb6868", "machine": "a Xeon"},
  "nets": [{
    "name": "lenet",
    "examples_per_worker": 64,
    "compute": {"points": [{"examples": 32, "seconds": 0.5}, {"examples": 64, "seconds": 0.75}], "source": "measured"},
    "update": {"points": [{"elements": 1000, "seconds": 0.25}], "source": "given"},
    "backward_fraction": {"value": 0.75, "source": "measured"},
    "buckets": [
      {"elements": 900, "plain_elements": 0, "tensors": 3, "ready_fraction": 0.5},
      {"elements": 100, "plain_elements": 40, "tensors": 2, "ready_fraction": 1}
    ]
  }],
  "codecs": [{
    "name": "t2",
    "encode": {"points": [{"elements": 1000, "seconds": 2}], "source": "measured"},
    "decode": {"points": [{"elements": 1000, "seconds": 1}], "source": "assumed"}
  }]
})";

ClusterFile parsed(const std::string& text) { return parse_cluster(text, "x.json"); }

/// `text` with its first `from`, which it has, replaced.
std::string changed(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

/// What parsing the text says; empty if nothing is wrong.
std::string error_of(const std::string& text) {
  try {
    parsed(text);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

/// The full file with a change is refused, and the message names file and key.
void expect_refused(const std::string& from, const std::string& to, const std::vector<std::string>& words) {
  const std::string error = error_of(changed(kFull, from, to));
  EXPECT_THAT(error, StartsWith("cluster file 'x.json': ")) << to;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  for (const std::string& word : words) EXPECT_THAT(error, HasSubstr(word)) << to;
}

TEST(ClusterFile, HasWhatTheTextSays) {
  const ClusterFile file = parsed(kFull);
  const Cluster& cluster = file.cluster;
  EXPECT_EQ(cluster.name, "sixteen-hosts");
  EXPECT_EQ(cluster.num_workers(), 64);
  EXPECT_EQ(cluster.measured_workers, 8);
  EXPECT_DOUBLE_EQ(cluster.gpu.value.latency_seconds, 5e-6);
  EXPECT_EQ(cluster.gpu.value.bytes_per_second, 11.9e9);
  EXPECT_EQ(cluster.gpu.source, InputSource::kGiven);
  EXPECT_EQ(cluster.host.source, InputSource::kAssumed);
  EXPECT_EQ(cluster.network.value.bytes_per_second, 1e9);
  EXPECT_EQ(cluster.network.source, InputSource::kMeasured);
  EXPECT_EQ(cluster.bisection_factor.value, 0.5);
  EXPECT_EQ(cluster.straggler_deviation.value, 0.02);
  EXPECT_EQ(file.commit, "41a020bb6868");
  EXPECT_EQ(file.machine, "a Xeon");
}

TEST(ClusterFile, HasNetsAndCodecs) {
  const ClusterFile file = parsed(kFull);
  const ClusterNet* net = find_net(file, "lenet");
  ASSERT_NE(net, nullptr);
  EXPECT_EQ(net->examples_per_worker, 64);
  EXPECT_EQ(net->compute.value.seconds(128), 1.25);
  EXPECT_EQ(net->update.value.seconds(2000), 0.5);
  EXPECT_EQ(net->backward_fraction.value, 0.75);
  EXPECT_EQ(net->num_elements(), 1000);
  EXPECT_TRUE(net->overlaps());
  EXPECT_EQ(net->buckets[1].plain_elements, 40);
  EXPECT_EQ(net->buckets[1].num_tensors, 2);
  const CodecWork* codec = find_codec(file, "t2");
  ASSERT_NE(codec, nullptr);
  EXPECT_EQ(codec->encode.value.seconds(500), 1);
  EXPECT_EQ(codec->decode.source, InputSource::kAssumed);
  EXPECT_EQ(find_net(file, "vgg_a"), nullptr);
  EXPECT_EQ(find_codec(file, "t5"), nullptr);
}

TEST(ClusterFile, MayLackWhatIsAssumedOrMeasuredElsewhere) {
  const ClusterFile file = parsed(kAlone);
  EXPECT_EQ(file.cluster.num_workers(), 1);
  EXPECT_EQ(file.cluster.bisection_factor.value, 1);
  EXPECT_EQ(file.cluster.bisection_factor.source, InputSource::kAssumed);
  EXPECT_EQ(file.cluster.straggler_deviation.value, 0);
  EXPECT_TRUE(file.nets.empty());
  EXPECT_TRUE(file.codecs.empty());
  EXPECT_EQ(file.commit, "");
}

TEST(ClusterFile, AMeasuredLinkIsFittedToItsSamples) {
  const std::string link = R"({"latency_us": 30, "gbits_per_second": 8, "source": "measured"})";
  const std::string samples = R"({"samples": [
    {"bytes": 1000, "seconds": 0.002, "spread": [0.001, 0.003]},
    {"bytes": 2000, "seconds": 0.003}
  ]})";
  const ClusterFile file = parsed(changed(kFull, link, samples));
  EXPECT_NEAR(file.cluster.network.value.latency_seconds, 0.001, 1e-9);
  EXPECT_NEAR(file.cluster.network.value.bytes_per_second, 1e6, 1e-3);
  EXPECT_EQ(file.cluster.network.source, InputSource::kMeasured);
  expect_refused(link, R"({"samples": [{"bytes": 1000, "seconds": 1}, {"bytes": 1000, "seconds": 2}]})",
                 {"links.network.samples", "two sizes"});
  expect_refused(link, R"({"samples": []})", {"links.network.samples"});
  expect_refused(link, R"({"samples": [{"bytes": 1000, "seconds": 0}]})", {"links.network.samples[0].seconds"});
  expect_refused(link, R"({"samples": [{"bytes": 1, "seconds": 1}], "source": "given"})", {"links.network", "source"});
}

TEST(ClusterFile, RefusesUnknownKeys) {
  expect_refused(R"("schema")", R"("comment": "", "schema")", {"the file has the unknown key 'comment'", "machines"});
  expect_refused(R"("gpu":)", R"("gpus":)", {"links has the unknown key 'gpus'; accepted: gpu, host, network"});
  expect_refused(R"({"latency_us": 5,)", R"({"latency_ms": 1, "latency_us": 5,)", {"links.gpu", "'latency_ms'"});
  expect_refused(R"({"value": 0.5,)", R"({"values": 1, "value": 0.5,)", {"bisection_factor", "'values'"});
  expect_refused(R"("examples": 32)", R"("elements": 32)", {"nets[0].compute.points[0]", "'elements'"});
  expect_refused(R"("tensors": 2)", R"("tensor": 2)", {"nets[0].buckets[1]", "'tensor'"});
  expect_refused(R"("encode")", R"("encoded")", {"codecs[0]", "'encoded'"});
  expect_refused(R"("commit")", R"("commits")", {"calibration", "'commits'"});
}

TEST(ClusterFile, RefusesMissingKeys) {
  for (const char* key : {"schema", "name", "machines", "gpus_per_machine", "measured_workers"}) {
    const std::string quoted = "\"" + std::string(key) + "\"";
    std::string text = kAlone;
    const std::size_t begin = text.find(quoted);
    text.erase(begin, text.find(',', begin) + 1 - begin);
    EXPECT_THAT(error_of(text), HasSubstr("the file lacks the key '" + std::string(key) + "'"));
  }
  expect_refused(R"("latency_us": 5, )", "", {"links.gpu lacks the key 'latency_us'"});
  expect_refused(R"("gbytes_per_second": 11.9, )", "", {"links.gpu lacks the key 'gbytes_per_second'"});
  expect_refused(R"({"value": 0.5, "source": "given"})", R"({"value": 0.5})", {"bisection_factor lacks", "'source'"});
  expect_refused(R"("tensors": 3, )", "", {"nets[0].buckets[0] lacks the key 'tensors'"});
  expect_refused(R"("examples_per_worker": 64,)", "", {"nets[0] lacks the key 'examples_per_worker'"});
}

TEST(ClusterFile, RefusesKeysThatAreThereTwice) {
  expect_refused(R"("machines": 16)", R"("machines": 16, "machines": 17)", {"the key 'machines' is there twice"});
  expect_refused(R"("tensors": 3)", R"("tensors": 3, "tensors": 3)", {"'tensors' is there twice"});
  expect_refused(R"("codecs": [)", R"("codecs": [{
    "name": "t2",
    "encode": {"points": [{"elements": 1000, "seconds": 2}], "source": "measured"},
    "decode": {"points": [{"elements": 1000, "seconds": 1}], "source": "assumed"}
  }, )",
                 {"codecs[1] has the name of another one"});
}

TEST(ClusterFile, RefusesValuesOutOfRange) {
  expect_refused(R"("schema": 1)", R"("schema": 2)", {"schema must be from 1 to 1, got 2"});
  expect_refused(R"("machines": 16)", R"("machines": 0)", {"machines must be from 1 to ", "got 0"});
  expect_refused(R"("machines": 16)", R"("machines": 18446744073709551615)", {"machines must be from 1 to "});
  expect_refused(R"("measured_workers": 8)", R"("measured_workers": -8)", {"measured_workers", "got -8"});
  expect_refused(R"("latency_us": 5)", R"("latency_us": -5)", {"links.gpu.latency_us", "got -5"});
  expect_refused(R"("gbytes_per_second": 11.9)", R"("gbytes_per_second": 0)",
                 {"links.gpu.gbytes_per_second", "above 0"});
  expect_refused(R"("value": 0.5)", R"("value": 1.5)", {"bisection_factor.value", "above 0, at most 1, got 1.5"});
  expect_refused(R"("value": 0.02)", R"("value": -0.02)", {"straggler_deviation.value", "from 0 to 10, got -0.02"});
  expect_refused(R"("plain_elements": 40)", R"("plain_elements": 400)", {"nets[0].buckets[1].plain_elements"});
  expect_refused(R"("ready_fraction": 0.5)", R"("ready_fraction": 0)", {"nets[0].buckets[0].ready_fraction"});
  expect_refused(R"("examples": 32)", R"("examples": 64)", {"nets[0].compute.points", "second point"});
  expect_refused(R"({"examples": 32,)", R"({"examples": 16, "seconds": 0.5}, {"examples": 32,)", {"one or two points"});
  expect_refused(R"("name": "t2")", R"("name": "t3")", {"codecs[0].name is 't3'; accepted: fp32, bf16, t2"});
  expect_refused(R"("source": "given")", R"("source": "guessed")",
                 {"links.gpu.source is 'guessed'; accepted: measured"});
}

TEST(ClusterFile, RefusesValuesOfOtherTypes) {
  expect_refused(R"("schema": 1)", R"("schema": "1")", {"schema must be an integer"});
  expect_refused(R"("machines": 16)", R"("machines": 16.5)", {"machines must be an integer"});
  expect_refused(R"("name": "sixteen-hosts")", R"("name": 16)", {"name must be a text"});
  expect_refused(R"("name": "sixteen-hosts")", R"("name": "")", {"name must be a text that is not empty"});
  expect_refused(R"("latency_us": 5)", R"("latency_us": null)", {"links.gpu.latency_us must be a number"});
  expect_refused(R"({"value": 0.5, "source": "given"})", "0.5", {"bisection_factor must be an object"});
  expect_refused(R"("codecs": [)", R"("codecs": [7, )", {"codecs[0] must be an object"});
  EXPECT_THAT(error_of(changed(kAlone, R"("links")", R"("nets": {}, "links")")), HasSubstr("nets must be a list"));
  for (const char* text : {"", "[]", "7", "{", "{\"schema\": 1", "null", "{} {}", "{\"a\": 1e999}", "\xff"}) {
    EXPECT_THAT(error_of(text), StartsWith("cluster file 'x.json': ")) << text;
  }
}

TEST(ClusterFile, RefusesEveryBeginningOfAFile) {
  const std::string text = kFull;
  for (std::size_t size = 0; size < text.size(); ++size) EXPECT_NE(error_of(text.substr(0, size)), "") << size;
}

TEST(ClusterFile, LinksMustJoinWhatIsThere) {
  EXPECT_THAT(error_of(changed(kAlone, R"("machines": 1)", R"("machines": 2)")),
              HasSubstr("links lacks the key 'network'"));
  EXPECT_THAT(error_of(changed(kAlone, R"("gpus_per_machine": 1)", R"("gpus_per_machine": 2)")),
              HasSubstr("links lacks the key 'gpu'"));
  expect_refused(R"("host": {"latency_us": 0, "gbytes_per_second": 12, "source": "assumed"},)", "",
                 {"links lacks the key 'host'"});
  expect_refused(R"("gbytes_per_second": 12)", R"("gbytes_per_second": 12, "gbits_per_second": 96)",
                 {"links.host has both"});
}

TEST(ClusterFile, MeasuredNumbersSayWhatMeasuredThem) {
  expect_refused(R"("calibration": {"commit": "41a020bb6868", "machine": "a Xeon"},)", "",
                 {"the file lacks the key 'calibration'"});
  const std::string link = R"("links": {"gpu": {"latency_us": 1, "gbits_per_second": 1, "source": "measured"}})";
  EXPECT_THAT(error_of(changed(kAlone, R"("links": {})", link)), HasSubstr("'calibration'"));
}

TEST(ReadClusterFile, RefusesWhatCannotBeRead) {
  EXPECT_THROW(read_cluster_file("no/such/file.json"), DataError);
  EXPECT_THROW(read_cluster_file("/"), DataError);
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / "terngrad_cluster_file_test_of_2_mib.json";
  std::ofstream(path) << std::string(std::size_t{2} << 20, ' ');
  EXPECT_THROW(read_cluster_file(path.string()), DataError);
  std::filesystem::remove(path);
}

TEST(ReadClusterFile, TheClustersOfThePaperAreThoseOfTheModel) {
  for (const PaperCluster& paper : paper_clusters()) {
    const ClusterFile file = read_cluster_file("experiments/clusters/" + paper.name + ".json");
    EXPECT_EQ(file.cluster.name, paper.name);
    EXPECT_EQ(file.cluster.num_machines, paper.num_machines);
    EXPECT_EQ(file.cluster.gpus_per_machine, paper.gpus_per_machine);
    EXPECT_DOUBLE_EQ(file.cluster.gpu.value.bytes_per_second, paper.gpu_bandwidth);
    EXPECT_DOUBLE_EQ(file.cluster.host.value.bytes_per_second, paper.host_bandwidth);
    EXPECT_DOUBLE_EQ(file.cluster.network.value.bytes_per_second, paper.network_bandwidth);
    EXPECT_DOUBLE_EQ(file.cluster.network.value.latency_seconds, paper.latency_seconds);
    ASSERT_EQ(file.nets.size(), paper_nets().size());
    for (std::size_t i = 0; i < paper_nets().size(); ++i) {
      const PaperNet& net = paper_nets()[i];
      EXPECT_EQ(file.nets[i].name, net.name);
      EXPECT_EQ(file.nets[i].num_elements(), net.parameters);
      EXPECT_EQ(file.nets[i].buckets[0].plain_elements, net.last_layer);
      EXPECT_EQ(file.nets[i].examples_per_worker, net.examples_per_gpu);
      EXPECT_DOUBLE_EQ(file.nets[i].compute.value.seconds(net.examples_per_gpu), paper.step_seconds[i]);
    }
    ASSERT_NE(find_codec(file, "t2"), nullptr);
    EXPECT_DOUBLE_EQ(find_codec(file, "t2")->encode.value.seconds(paper.ternarized_per_second), 1);
  }
}

/// The step of one of the clusters of figure 5 by this model, in two levels with a ring, messages coded as the figure
/// counts them.
double ring_step(const std::string& name, const PaperNet& net, const std::string& codec, int num_gpus) {
  const ClusterFile file = read_cluster_file("experiments/clusters/" + name + ".json");
  return predict_step(file.cluster, *find_net(file, net.name), *find_codec(file, codec),
                      {.exchange = ClusterExchange::kRing, .two_levels = true, .downlink = codec}, num_gpus)
      .seconds();
}

TEST(ClusterFile, TwoLevelsAreTheFitOfFigure5) {
  for (const PaperNet& net : paper_nets()) {
    const auto expect_equal = [&](const std::string& cluster, int num_gpus, double tolerance) {
      const auto expect = [&](const char* name, const PaperCodec& codec) {
        const double fit = paper_step(*find_paper_cluster(cluster), net, codec, num_gpus).seconds();
        EXPECT_NEAR(ring_step(cluster, net, name, num_gpus) / fit, 1, tolerance) << cluster << net.name << num_gpus;
      };
      expect("fp32", kPaperFp32);
      expect("bf16", kPaperBf16);
      expect("t2", kPaperTernary);
    };
    for (const int num_gpus : {1, 2, 4, 8, 16, 512}) expect_equal("paper-infiniband", num_gpus, 1e-12);
    for (const int num_gpus : {1, 2, 4, 8}) expect_equal("paper-ethernet", num_gpus, 1e-12);
    expect_equal("paper-ethernet", 512, 0.01);  // a ring of 128 machines in place of a factor of 2
  }
}

TEST(ClusterFile, BeyondAThousandWorkersLanesLoseToBf16) {
  // At 4096 workers a lane is as wide as bf16, and has to be encoded; a downlink in two bits still gains.
  const ClusterFile file = read_cluster_file("experiments/clusters/paper-infiniband.json");
  const auto best = [&](const std::string& codec, const std::string& downlink, int num_workers) {
    double seconds = std::numeric_limits<double>::infinity();
    for (const ClusterPlan& plan : suitable_plans(file.cluster, codec, num_workers)) {
      if (plan.downlink != downlink) continue;
      seconds = std::min(
          seconds,
          predict_step(file.cluster, *find_net(file, "vgg_a"), *find_codec(file, codec), plan, num_workers).seconds());
    }
    return seconds;
  };
  EXPECT_LT(best("lanes", "lanes", 64), best("bf16", "bf16", 64));
  EXPECT_GT(best("lanes", "lanes", 4096), best("bf16", "bf16", 4096));
  EXPECT_LT(best("t2", "t2", 100'000), best("bf16", "bf16", 100'000));
}

}  // namespace
}  // namespace terngrad::cluster_file_test
