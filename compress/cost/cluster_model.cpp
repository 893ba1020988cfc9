#include "compress/cost/cluster_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "kernels/codes/ternary.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

namespace {

constexpr double kBytesOfScaler = 4;

bool is_plain(const std::string& codec) { return codec == "fp32" || codec == "bf16"; }
bool adds_in_transit(ClusterExchange exchange) {
  return exchange == ClusterExchange::kRing || exchange == ClusterExchange::kHalvingDoubling ||
         exchange == ClusterExchange::kTree;
}

/// Whether a machine's link carries the messages of each of its workers, and the middle of the network those of all.
bool crosses_network(ClusterExchange exchange) {
  return exchange != ClusterExchange::kRing && exchange != ClusterExchange::kTree;
}

/// N workers as machines of GPUs.
struct UsedMachines {
  int num_machines = 1;
  int gpus_per_machine = 1;
};

UsedMachines machines_of(const Cluster& cluster, int num_workers) {
  const int gpus = cluster.gpus_per_machine;
  TERNGRAD_REQUIRE(gpus >= 1, "[predict_step] gpus_per_machine must be at least 1, got ", gpus);
  if (num_workers >= 1 && num_workers <= gpus) return {1, num_workers};
  TERNGRAD_REQUIRE(num_workers >= 1 && num_workers % gpus == 0, "[predict_step] ", num_workers,
                   " workers are neither in one machine of ", gpus, " GPUs nor all of several");
  return {num_workers / gpus, gpus};
}

/// One prediction's question.
struct StepQuestion {
  const Cluster& cluster;
  const ClusterNet& net;
  const CodecWork& work;
  const ClusterPlan& plan;
  int num_workers = 1;
  Sourced<double> nonzero_fraction;
  UsedMachines used = {};

  bool is_one_machine() const { return used.num_machines == 1; }
  bool has_two_levels() const { return plan.two_levels && !is_one_machine(); }
  /// Between whom the plan's exchange is.
  int num_participants() const { return has_two_levels() ? used.num_machines : num_workers; }
  bool uses_gpu_link() const { return is_one_machine() || (has_two_levels() && used.gpus_per_machine > 1); }
  bool has_scalers() const { return !is_plain(work.codec); }
  /// Whether what is sent is a sum of ternary codes in as many bits as one of them.
  bool ternarizes_again() const {
    if (is_plain(work.codec) || work.codec == "lanes" || num_workers == 1) return false;
    return adds_in_transit(plan.exchange) || (has_two_levels() && used.gpus_per_machine > 1);
  }
};

void check_link(const char* name, const LinkModel& link) {
  TERNGRAD_REQUIRE(link.latency_seconds >= 0 && std::isfinite(link.latency_seconds) && link.bytes_per_second > 0,
                   "[predict_step] the ", name, " link has a latency of ", link.latency_seconds, " s and moves ",
                   link.bytes_per_second, " bytes/s; accepted: 0 or more, and above 0");
}

void check_cluster(const Cluster& cluster) {
  check_link("gpu", cluster.gpu.value);
  check_link("host", cluster.host.value);
  check_link("network", cluster.network.value);
  TERNGRAD_REQUIRE(cluster.bisection_factor.value > 0 && cluster.bisection_factor.value <= 1,
                   "[predict_step] bisection_factor must be above 0 and at most 1, got ",
                   cluster.bisection_factor.value);
  TERNGRAD_REQUIRE(cluster.measured_workers >= 1, "[predict_step] measured_workers must be at least 1, got ",
                   cluster.measured_workers);
}

void check_net(const ClusterNet& net) {
  const auto is_fraction = [](double value) { return value > 0 && value <= 1; };
  for (const GradientBucket& bucket : net.buckets) {
    TERNGRAD_REQUIRE(bucket.plain_elements >= 0 && bucket.plain_elements <= bucket.elements, "[predict_step] ",
                     bucket.plain_elements, " of ", bucket.elements, " elements of a bucket of ", net.name,
                     " are not coded");
    TERNGRAD_REQUIRE(bucket.num_tensors >= 0, "[predict_step] a bucket of ", net.name, " has ", bucket.num_tensors,
                     " tensors");
    TERNGRAD_REQUIRE(is_fraction(bucket.ready_fraction),
                     "[predict_step] ready_fraction must be above 0 and at most 1, got ", bucket.ready_fraction);
  }
  TERNGRAD_REQUIRE(net.num_elements() > 0, "[predict_step] ", net.name, " has no elements");
  TERNGRAD_REQUIRE(net.examples_per_worker > 0, "[predict_step] ", net.name, " has ", net.examples_per_worker,
                   " examples for each worker");
  TERNGRAD_REQUIRE(is_fraction(net.backward_fraction.value),
                   "[predict_step] backward_fraction must be above 0 and at most 1, got ", net.backward_fraction.value);
}

void check_plan(const CodecWork& work, const ClusterPlan& plan) {
  const bool gathers = plan.exchange == ClusterExchange::kAllGather;
  TERNGRAD_REQUIRE(gathers == plan.downlink.empty(), "[predict_step] ", to_string(plan.exchange),
                   gathers ? " has no downlink, got " : " needs a downlink", plan.downlink);
  TERNGRAD_REQUIRE(!gathers || work.codec != "lanes",
                   "[predict_step] lanes are for sums, of which all_gather has none");
}

/// up, down of a bucket.
DirectionBytes bytes_of(const StepQuestion& question, const GradientBucket& bucket) {
  const auto plain = static_cast<double>(bucket.plain_elements);
  const double coded = static_cast<double>(bucket.elements) - plain;
  const double plain_bits = question.work.codec == "bf16" ? 16 : 32;
  const auto bytes = [&](const std::string& codec) {
    const double bits = bits_per_element(codec, question.num_workers, question.nonzero_fraction.value);
    return (coded * bits + plain * plain_bits) / 8;
  };
  return {.up = bytes(question.work.codec), .down = question.plan.downlink.empty() ? 0 : bytes(question.plan.downlink)};
}

/// What the plan's exchange leaves of the network link to one participant. A server's link is not divided: what the
/// workers of a machine share shows in how many of them there are for each server.
LinkModel network_of(const StepQuestion& question) {
  LinkModel link = question.cluster.network.value;
  if (!crosses_network(question.plan.exchange)) return link;
  link.bytes_per_second *= question.cluster.bisection_factor.value;
  const bool is_shared = !question.has_two_levels() && question.plan.exchange != ClusterExchange::kServers;
  if (is_shared) link.bytes_per_second /= question.used.gpus_per_machine;
  return link;
}

double network_seconds(const StepQuestion& question, const DirectionBytes& bytes) {
  const int num_servers = std::min(question.plan.num_servers, question.used.num_machines);  // several share a link
  return exchange_seconds(question.plan.exchange, question.num_participants(), network_of(question), bytes,
                          num_servers);
}

/// What a worker or machine gets for what it sends.
double arriving_bytes(const StepQuestion& question, const DirectionBytes& bytes) {
  if (question.plan.exchange != ClusterExchange::kAllGather) return bytes.down;
  return (question.num_participants() - 1) * bytes.up;
}

double host_seconds(const StepQuestion& question, const DirectionBytes& bytes) {
  const bool is_shared = crosses_network(question.plan.exchange) && !question.has_two_levels();
  const double sharing = is_shared ? question.used.gpus_per_machine : 1;
  return question.cluster.host.value.seconds(2, sharing * (bytes.up + arriving_bytes(question, bytes)) / 2);
}

/// One tree over the levels of the plan.
double scaler_seconds(const StepQuestion& question, const GradientBucket& bucket) {
  if (!question.has_scalers() || bucket.num_tensors == 0) return 0;
  const double each = kBytesOfScaler * bucket.num_tensors;
  const auto tree = [&](int num_participants, const LinkModel& link) {
    return exchange_seconds(ClusterExchange::kTree, num_participants, link, {.up = each, .down = each});
  };
  const Cluster& cluster = question.cluster;
  if (question.is_one_machine()) return tree(question.num_workers, cluster.gpu.value);
  const double inside = question.has_two_levels() ? tree(question.used.gpus_per_machine, cluster.gpu.value) : 0;
  return inside + cluster.host.value.seconds(2, each) + tree(question.num_participants(), cluster.network.value);
}

ExchangeTerms exchange_parts(const StepQuestion& question, const GradientBucket& bucket) {
  const DirectionBytes bytes = bytes_of(question, bucket);
  const ClusterPlan& plan = question.plan;
  const LinkModel& gpu = question.cluster.gpu.value;
  ExchangeTerms parts{.scalers = scaler_seconds(question, bucket)};
  if (question.is_one_machine()) {
    parts.inside = exchange_seconds(plan.exchange, question.num_workers, gpu, bytes, plan.num_servers);
    return parts;
  }
  if (question.has_two_levels()) {
    // Around the ring travel what the machine sends, and what it gets.
    parts.inside = exchange_seconds(ClusterExchange::kRing, question.used.gpus_per_machine, gpu,
                                    {.up = bytes.up, .down = arriving_bytes(question, bytes)});
  }
  parts.host = host_seconds(question, bytes);
  parts.network = network_seconds(question, bytes);
  return parts;
}

/// How many messages of the whole gradient a worker, or a server for it, decodes.
double decoded_messages(const StepQuestion& question) {
  const double participants = question.num_participants();
  if (question.plan.exchange == ClusterExchange::kAllGather) return participants;
  return question.plan.exchange == ClusterExchange::kServers ? participants / question.plan.num_servers + 1 : 1;
}

void add_exchange(const StepQuestion& question, StepParts& parts) {
  const double slowest = parts.straggler_factor * parts.compute;
  const double backward = slowest * question.net.backward_fraction.value;
  std::vector<BucketTime> times;
  for (const GradientBucket& bucket : question.net.buckets) {
    const ExchangeTerms of_bucket = exchange_parts(question, bucket);
    times.push_back({.ready = slowest - backward * (1 - bucket.ready_fraction), .seconds = of_bucket.seconds()});
    parts.exchange.scalers += of_bucket.scalers;
    parts.exchange.inside += of_bucket.inside;
    parts.exchange.host += of_bucket.host;
    parts.exchange.network += of_bucket.network;
  }
  parts.exposed_exchange = exposed_seconds(times, slowest);
}

/// What the result depends on.
std::vector<NamedInput> inputs_of(const StepQuestion& question) {
  const Cluster& cluster = question.cluster;
  const CodecWork& work = question.work;
  std::vector<NamedInput> inputs = {{"compute", question.net.compute.source},
                                    {"update", question.net.update.source},
                                    {"encode " + work.codec, work.encode.source},
                                    {"decode " + work.codec, work.decode.source}};
  const auto add_if = [&](bool is_used, const char* name, InputSource source) {
    if (is_used) inputs.push_back({name, source});
  };
  const bool is_alone = question.num_workers == 1;
  const bool has_network = !question.is_one_machine();
  add_if(question.net.overlaps(), "backward fraction", question.net.backward_fraction.source);
  add_if(!is_alone, "straggler deviation", cluster.straggler_deviation.source);
  add_if(!is_alone && question.uses_gpu_link(), "gpu link", cluster.gpu.source);
  add_if(has_network, "host link", cluster.host.source);
  add_if(has_network, "network link", cluster.network.source);
  add_if(has_network && crosses_network(question.plan.exchange), "bisection factor", cluster.bisection_factor.source);
  const auto depends_on_codes = [](const std::string& codec) { return codec == "tmask" || codec == "trans"; };
  add_if(depends_on_codes(work.codec) || depends_on_codes(question.plan.downlink), "non-zero fraction",
         question.nonzero_fraction.source);
  add_if(question.ternarizes_again(), "partial sums ternarized again, at no time", InputSource::kAssumed);
  return inputs;
}

/// What trans takes above the entropy of masks, and signs: L, states and offsets of chunks, and frequencies in 4096ths.
constexpr double kTransBits = 0.03;

/// Bits of a choice with these odds.
double entropy(double p) { return p <= 0 || p >= 1 ? 0 : -p * std::log2(p) - (1 - p) * std::log2(1 - p); }

/// Simpson's rule over [0, 12], beyond which F(x)^N is 1, and F(-x)^N is 0, to the last bit for the N of interest.
template <class Integrand>
double simpson_over_tail(const Integrand& integrand) {
  constexpr int kIntervals = 4096;
  constexpr double kWidth = 12.0 / kIntervals;
  double sum = integrand(0.0) + integrand(12.0);
  for (int i = 1; i < kIntervals; ++i) sum += (i % 2 == 0 ? 2 : 4) * integrand(kWidth * i);
  return sum * kWidth / 3;
}

}  // namespace

const char* to_string(InputSource source) {
  switch (source) {
    case InputSource::kMeasured:
      return "measured";
    case InputSource::kGiven:
      return "given";
    case InputSource::kAssumed:
      return "assumed";
  }
  TERNGRAD_THROW(InvalidArgument, "[cluster] unknown source ", static_cast<int>(source));
}

const char* to_string(ClusterExchange exchange) {
  switch (exchange) {
    case ClusterExchange::kRing:
      return "ring";
    case ClusterExchange::kHalvingDoubling:
      return "halving_doubling";
    case ClusterExchange::kTree:
      return "tree";
    case ClusterExchange::kAllGather:
      return "all_gather";
    case ClusterExchange::kServers:
      return "servers";
  }
  TERNGRAD_THROW(InvalidArgument, "[cluster] unknown exchange ", static_cast<int>(exchange));
}

std::string name_of(const ClusterPlan& plan) {
  return (plan.two_levels ? "two_levels/" : "") + std::string(to_string(plan.exchange));
}

double LinearTime::seconds(double units) const { return std::max(0.0, fixed_seconds + seconds_per_unit * units); }

LinearTime line_through(std::span<const TimePoint> points) {
  TERNGRAD_REQUIRE(points.size() == 1 || points.size() == 2, "[line_through] needs one or two points, got ",
                   points.size());
  TimePoint previous{.units = 0, .seconds = 0};
  for (const TimePoint& point : points) {
    TERNGRAD_REQUIRE(point.units > previous.units && point.seconds >= previous.seconds && std::isfinite(point.units) &&
                         std::isfinite(point.seconds),
                     "[line_through] more work does not take less time: ", point.seconds, " s for ", point.units,
                     " after ", previous.seconds, " s for ", previous.units);
    previous = point;
  }
  const TimePoint& first = points.front();
  if (points.size() == 1) return {.fixed_seconds = 0, .seconds_per_unit = first.seconds / first.units};
  const double slope = (previous.seconds - first.seconds) / (previous.units - first.units);
  return {.fixed_seconds = first.seconds - slope * first.units, .seconds_per_unit = slope};
}

bool is_extrapolated(const Cluster& cluster, int num_workers) {
  return num_workers > std::int64_t{kTrustedFactor} * cluster.measured_workers;
}

std::int64_t ClusterNet::num_elements() const {
  std::int64_t sum = 0;
  for (const GradientBucket& bucket : buckets) sum += bucket.elements;
  return sum;
}

bool ClusterNet::overlaps() const {
  return std::ranges::any_of(buckets, [](const GradientBucket& bucket) { return bucket.ready_fraction < 1; });
}

double bits_per_element(const std::string& codec, int num_workers, double nonzero_fraction) {
  TERNGRAD_REQUIRE(num_workers >= 1, "[bits_per_element] num_workers must be at least 1, got ", num_workers);
  TERNGRAD_REQUIRE(nonzero_fraction >= 0 && nonzero_fraction <= 1,
                   "[bits_per_element] nonzero_fraction must be from 0 to 1, got ", nonzero_fraction);
  if (codec == "fp32") return 32;
  if (codec == "bf16") return 16;
  if (codec == "t2") return 2;
  if (codec == "t5") return 1.6;
  if (codec == "tmask") return 1 + nonzero_fraction;
  if (codec == "trans") return entropy(nonzero_fraction) + nonzero_fraction + kTransBits;
  TERNGRAD_REQUIRE(codec == "lanes", "[bits_per_element] '", codec,
                   "' is none of fp32, bf16, t2, t5, tmask, trans, lanes");
  return 64.0 / lanes_per_word(lane_bits(num_workers));
}

double expected_max_of_normals(std::int64_t num_normals) {
  TERNGRAD_REQUIRE(num_normals >= 1, "[expected_max_of_normals] needs at least 1, got ", num_normals);
  const auto count = static_cast<double>(num_normals);
  const auto upper_tail = [](double x) { return std::erfc(x / std::numbers::sqrt2) / 2; };
  const double above = simpson_over_tail([&](double x) { return -std::expm1(count * std::log1p(-upper_tail(x))); });
  const double below = simpson_over_tail([&](double x) { return std::pow(upper_tail(x), count); });
  return above - below;
}

double straggler_factor(double deviation, int num_workers) {
  TERNGRAD_REQUIRE(deviation >= 0 && std::isfinite(deviation), "[straggler_factor] deviation must be 0 or more, got ",
                   deviation);
  TERNGRAD_REQUIRE(num_workers >= 1, "[straggler_factor] num_workers must be at least 1, got ", num_workers);
  return deviation == 0 ? 1 : 1 + deviation * expected_max_of_normals(num_workers);
}

double exchange_seconds(ClusterExchange exchange, int num_participants, const LinkModel& link,
                        const DirectionBytes& bytes, int num_servers) {
  TERNGRAD_REQUIRE(num_participants >= 1 && num_servers >= 1, "[exchange_seconds] is between at least 1 participant ",
                   "and 1 server, got ", num_participants, " and ", num_servers);
  if (num_participants == 1) return 0;
  const double participants = num_participants;
  const double both = bytes.up + bytes.down;
  const auto take = [&](double latencies, double moved) {
    return latencies * link.latency_seconds + moved / link.bytes_per_second;
  };
  switch (exchange) {
    case ClusterExchange::kRing:
      return take(2 * (participants - 1), (participants - 1) / participants * both);
    case ClusterExchange::kHalvingDoubling:
      return take(2 * std::log2(participants), (participants - 1) / participants * both);
    case ClusterExchange::kTree:
      return take(2 * std::log2(participants), both);
    case ClusterExchange::kAllGather:
      return take(participants - 1, (participants - 1) * bytes.up);
    case ClusterExchange::kServers:
      return take(2, std::max(participants / num_servers, 1.0) * both);
  }
  TERNGRAD_THROW(InvalidArgument, "[exchange_seconds] unknown exchange ", static_cast<int>(exchange));
}

double exposed_seconds(std::span<const BucketTime> buckets, double backward_end) {
  double end = backward_end;
  double link_free = 0;
  for (const BucketTime& bucket : buckets) {
    TERNGRAD_REQUIRE(bucket.ready <= backward_end && bucket.seconds >= 0, "[exposed_seconds] a bucket is ready after ",
                     bucket.ready, " s and takes ", bucket.seconds, " s; the backward pass ends after ", backward_end,
                     " s");
    link_free = std::max(link_free, bucket.ready) + bucket.seconds;
    end = std::max(end, link_free);
  }
  return end - backward_end;
}

StepPrediction predict_step(const Cluster& cluster, const ClusterNet& net, const CodecWork& work,
                            const ClusterPlan& plan, int num_workers, const Sourced<double>& nonzero_fraction) {
  check_cluster(cluster);
  check_net(net);
  check_plan(work, plan);
  const StepQuestion question{.cluster = cluster,
                              .net = net,
                              .work = work,
                              .plan = plan,
                              .num_workers = num_workers,
                              .nonzero_fraction = nonzero_fraction,
                              .used = machines_of(cluster, num_workers)};
  const auto elements = static_cast<double>(net.num_elements());
  StepPrediction prediction{.exchange = name_of(plan),
                            .uplink = work.codec,
                            .downlink = plan.downlink,
                            .num_workers = num_workers,
                            .inputs = inputs_of(question),
                            .extrapolated = is_extrapolated(cluster, num_workers)};
  for (const GradientBucket& bucket : net.buckets) {
    const DirectionBytes bytes = bytes_of(question, bucket);
    prediction.message.up += bytes.up;
    prediction.message.down += bytes.down;
  }
  prediction.parts = {.straggler_factor = straggler_factor(cluster.straggler_deviation.value, num_workers),
                      .compute = net.compute.value.seconds(net.examples_per_worker),
                      .encode = work.encode.value.seconds(elements),
                      .decode = work.decode.value.seconds(elements * decoded_messages(question)),
                      .update = net.update.value.seconds(elements)};
  add_exchange(question, prediction.parts);
  TERNGRAD_REQUIRE(std::isfinite(prediction.seconds()), "[predict_step] a step of ", net.name, " takes ",
                   prediction.seconds(), " s: an input is not finite");
  return prediction;
}

std::vector<ClusterPlan> suitable_plans(const Cluster& cluster, const std::string& codec, int num_workers) {
  bits_per_element(codec, 1);  // refuses other names
  const UsedMachines used = machines_of(cluster, num_workers);
  const bool can_nest = used.num_machines > 1 && used.gpus_per_machine > 1;
  std::vector<ClusterPlan> plans;
  const auto add = [&](ClusterPlan plan) {
    plans.push_back(plan);
    if (!can_nest) return;
    plan.two_levels = true;
    plans.push_back(plan);
  };
  if (is_plain(codec) || codec == "lanes") {
    for (const ClusterExchange exchange :
         {ClusterExchange::kRing, ClusterExchange::kHalvingDoubling, ClusterExchange::kTree}) {
      add({.exchange = exchange, .downlink = codec});
    }
    return plans;
  }
  add({.exchange = ClusterExchange::kAllGather, .downlink = {}});
  const int num_servers = used.num_machines > 1 ? used.num_machines : num_workers;
  for (const std::string& downlink : {std::string("fp32"), std::string("bf16"), codec}) {
    add({.exchange = ClusterExchange::kServers, .downlink = downlink, .num_servers = num_servers});
  }
  return plans;
}

}  // namespace terngrad
