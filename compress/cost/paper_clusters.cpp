#include "compress/cost/paper_clusters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "kernels/codes/ternary.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

namespace {

constexpr double kGiga = 1e9;
constexpr double kGigabits = 1e9 / 8;

/// g GPUs as i machines of j.
struct PaperWorld {
  int num_machines = 1;
  int gpus_per_machine = 1;
};

PaperWorld world_of(const PaperCluster& cluster, int num_gpus) {
  const int per_machine = cluster.gpus_per_machine;
  if (num_gpus >= 1 && num_gpus <= per_machine) return {1, num_gpus};
  TERNGRAD_REQUIRE(num_gpus >= 1 && num_gpus <= cluster.num_gpus() && num_gpus % per_machine == 0, "[paper_step] ",
                   cluster.name, " has ", cluster.num_machines, " machines of ", per_machine, " GPUs; ", num_gpus,
                   " GPUs are neither in one machine nor all of several");
  return {num_gpus / per_machine, per_machine};
}

/// T1. The net's name decides: its sizes may be others.
double step_seconds_of(const PaperCluster& cluster, const PaperNet& net) {
  TERNGRAD_REQUIRE(cluster.step_seconds.size() == paper_nets().size(), "[paper_step] ", cluster.name, " has ",
                   cluster.step_seconds.size(), " step_seconds for ", paper_nets().size(), " nets");
  return cluster.step_seconds[static_cast<std::size_t>(&paper_net(net.name) - paper_nets().data())];
}

template <class Named>
const Named* find_by_name(const std::vector<Named>& all, const std::string& name) {
  const auto found = std::ranges::find(all, name, &Named::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

const std::vector<PaperNet>& paper_nets() {
  static const std::vector<PaperNet> nets = {
      {.name = "alexnet", .parameters = 60'969'321, .last_layer = 4'101'097, .examples_per_gpu = 256},
      {.name = "googlenet", .parameters = 6'618'649, .last_layer = 1'026'025, .examples_per_gpu = 64},
      {.name = "vgg_a", .parameters = 132'867'433, .last_layer = 4'101'097, .examples_per_gpu = 32},
  };
  return nets;
}

const PaperNet& paper_net(const std::string& name) {
  const PaperNet* net = find_by_name(paper_nets(), name);
  TERNGRAD_REQUIRE(net != nullptr, "[paper_net] '", name, "' is none of alexnet, googlenet, vgg_a");
  return *net;
}

double network_factor(NetworkFactor factor, int num_machines) {
  TERNGRAD_REQUIRE(num_machines >= 1, "[network_factor] num_machines must be at least 1, got ", num_machines);
  const double machines = num_machines;
  return factor == NetworkFactor::kRing ? 2 * (machines - 1) / machines : std::min(std::log2(machines), 2.0);
}

const std::vector<PaperCluster>& paper_clusters() {
  static const std::vector<PaperCluster> clusters = {
      {.name = "paper-ethernet",
       .figure = "a",
       .num_machines = 128,
       .gpus_per_machine = 4,
       .step_seconds = {0.652, 0.361, 0.337},
       .gpu_bandwidth = 11.9 * kGiga,
       .host_bandwidth = 2.2 * kGiga,
       .network_bandwidth = 0.94 * kGigabits,
       .latency_seconds = 290e-6,
       .ternarized_per_second = 5.8 * kGiga,
       .factor = NetworkFactor::kLog2UpToTwo},
      {.name = "paper-infiniband",
       .figure = "b",
       .num_machines = 128,
       .gpus_per_machine = 4,
       .step_seconds = {0.581, 0.327, 0.298},
       .gpu_bandwidth = 51.7 * kGiga,
       .host_bandwidth = 3.75 * kGiga,
       .network_bandwidth = 24.2 * kGigabits,
       .latency_seconds = 0,
       .ternarized_per_second = 4.6 * kGiga,
       .factor = NetworkFactor::kRing},
  };
  return clusters;
}

const PaperCluster* find_paper_cluster(const std::string& name) { return find_by_name(paper_clusters(), name); }

double message_bytes(const PaperNet& net, const PaperCodec& codec) {
  const auto coded = static_cast<double>(net.parameters - net.last_layer);
  return coded * (codec.uplink_bits + codec.downlink_bits) / 16 +
         static_cast<double>(net.last_layer) * codec.last_layer_bits / 8;
}

PaperStep paper_step(const PaperCluster& cluster, const PaperNet& net, const PaperCodec& codec, int num_gpus) {
  const PaperWorld world = world_of(cluster, num_gpus);
  const double bytes = message_bytes(net, codec);
  const double gpus = world.gpus_per_machine;
  PaperStep step{.compute = step_seconds_of(cluster, net),
                 .gpu = 2 * (gpus - 1) / gpus * bytes / cluster.gpu_bandwidth};
  if (codec.ternarizes) step.ternarize = static_cast<double>(net.parameters) / cluster.ternarized_per_second;
  if (world.num_machines == 1) return step;
  step.host = bytes / cluster.host_bandwidth;
  step.network = network_factor(cluster.factor, world.num_machines) * bytes / cluster.network_bandwidth;
  step.latency = 2 * (world.num_machines - 1) * cluster.latency_seconds;
  return step;
}

double paper_throughput(const PaperCluster& cluster, const PaperNet& net, const PaperCodec& codec, int num_gpus) {
  return net.examples_per_gpu * num_gpus / paper_step(cluster, net, codec, num_gpus).seconds();
}

double paper_speed_up(const PaperCluster& cluster, const PaperNet& net, const PaperCodec& codec,
                      const PaperCodec& baseline, int num_gpus) {
  return paper_step(cluster, net, baseline, num_gpus).seconds() / paper_step(cluster, net, codec, num_gpus).seconds();
}

std::vector<DownlinkRow> speed_ups_by_downlink(const PaperCluster& cluster, int num_gpus) {
  world_of(cluster, num_gpus);  // refuses what lane_bits would, with less to say
  const std::array<std::pair<const char*, double>, 4> downlinks = {
      {{"t2", 2.0}, {"lanes", lane_bits(num_gpus)}, {"bf16", 16.0}, {"fp32", 32.0}}};
  std::vector<DownlinkRow> rows;
  for (const auto& [name, bits] : downlinks) {
    DownlinkRow row{.downlink = name, .downlink_bits = bits, .speed_ups = {}};
    const PaperCodec codec{.uplink_bits = 2, .downlink_bits = bits, .last_layer_bits = 32, .ternarizes = true};
    for (const PaperNet& net : paper_nets()) {
      row.speed_ups.push_back({.over_fp32 = paper_speed_up(cluster, net, codec, kPaperFp32, num_gpus),
                               .over_bf16 = paper_speed_up(cluster, net, codec, kPaperBf16, num_gpus)});
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace terngrad
