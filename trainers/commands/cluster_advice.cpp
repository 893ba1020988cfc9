#include "trainers/commands/cluster_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/version.h"

namespace terngrad {
namespace {

constexpr std::array kSources = {InputSource::kMeasured, InputSource::kGiven, InputSource::kAssumed};

/// The plans of one downlink.
using PlansOfDownlink = std::pair<std::string, std::vector<ClusterPlan>>;

std::vector<PlansOfDownlink> plans_by_downlink(const Cluster& cluster, const std::string& codec, int num_workers) {
  std::vector<PlansOfDownlink> groups;
  for (const ClusterPlan& plan : suitable_plans(cluster, codec, num_workers)) {
    auto group = std::ranges::find(groups, plan.downlink, &PlansOfDownlink::first);
    if (group == groups.end()) group = groups.insert(groups.end(), {plan.downlink, {}});
    group->second.push_back(plan);
  }
  return groups;
}

/// The fastest of the plans, of equally fast ones the first.
StepPrediction fastest_step(const Cluster& cluster, const ClusterNet& net, const CodecWork& codec,
                            const std::vector<ClusterPlan>& plans, int num_workers) {
  StepPrediction best = predict_step(cluster, net, codec, plans.front(), num_workers);
  for (std::size_t i = 1; i < plans.size(); ++i) {
    StepPrediction other = predict_step(cluster, net, codec, plans[i], num_workers);
    if (other.seconds() < best.seconds()) best = std::move(other);
  }
  return best;
}

/// A step for each downlink of a codec.
std::vector<AdvisedStep> steps_of_codec(const Cluster& cluster, const ClusterNet& net, const CodecWork& codec,
                                        int num_workers) {
  std::vector<AdvisedStep> steps;
  for (const auto& [downlink, plans] : plans_by_downlink(cluster, codec.codec, num_workers)) {
    StepPrediction prediction = fastest_step(cluster, net, codec, plans, num_workers);
    const double images = net.examples_per_worker * num_workers / prediction.seconds();
    steps.push_back({.prediction = std::move(prediction), .images_per_second = images});
  }
  const auto is_faster = [](const AdvisedStep& a, const AdvisedStep& b) {
    return a.prediction.seconds() < b.prediction.seconds();
  };
  std::ranges::min_element(steps, is_faster)->is_best_of_codec = true;
  return steps;
}

/// Of the steps of one number of workers: seconds of the fastest of a codec; nothing if there is none.
std::optional<double> best_seconds(const std::vector<AdvisedStep>& steps, std::string_view codec) {
  for (const AdvisedStep& step : steps) {
    if (step.is_best_of_codec && step.prediction.uplink == codec) return step.prediction.seconds();
  }
  return std::nullopt;
}

std::vector<AdvisedStep> steps_of_workers(const ClusterFile& file, const ClusterNet& net, int num_workers) {
  std::vector<AdvisedStep> steps;
  for (const CodecWork& codec : file.codecs) {
    for (AdvisedStep& step : steps_of_codec(file.cluster, net, codec, num_workers)) steps.push_back(std::move(step));
  }
  const std::optional<double> fp32 = best_seconds(steps, "fp32");
  const std::optional<double> bf16 = best_seconds(steps, "bf16");
  for (AdvisedStep& step : steps) {
    if (fp32) step.over_fp32 = *fp32 / step.prediction.seconds();
    if (bf16) step.over_bf16 = *bf16 / step.prediction.seconds();
  }
  return steps;
}

// Text.

/// 60,969,321.
std::string with_commas(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::ptrdiff_t at = std::ssize(digits) - 3; at > 0; at -= 3) digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

/// "1 worker", "1,024 workers".
std::string counted(std::int64_t number, const char* thing) {
  return fmt::format("{} {}{}", with_commas(number), thing, number == 1 ? "" : "s");
}

/// Of the links that the cluster has.
std::string links_text(const Cluster& cluster) {
  std::vector<std::string> links;
  const auto add = [&](const char* name, const Sourced<LinkModel>& link, double factor, const char* unit) {
    const double rate = factor * link.value.bytes_per_second;
    if (!std::isfinite(rate)) return;
    links.push_back(fmt::format("{} {:.3g} {}, {:.3g} us ({})", name, rate, unit, 1e6 * link.value.latency_seconds,
                                to_string(link.source)));
  };
  add("gpu", cluster.gpu, 1e-9, "GB/s");
  add("host", cluster.host, 1e-9, "GB/s");
  add("network", cluster.network, 8e-9, "Gbit/s");
  return links.empty() ? "none" : fmt::format("{}", fmt::join(links, "; "));
}

/// The inputs of one source, each once.
std::vector<std::string> input_names(const std::vector<AdvisedStep>& steps, InputSource source) {
  std::vector<std::string> names;
  for (const AdvisedStep& step : steps) {
    for (const NamedInput& input : step.prediction.inputs) {
      if (input.source != source || std::ranges::find(names, input.name) != names.end()) continue;
      names.push_back(input.name);
    }
  }
  return names;
}

/// In one list, "encode fp32" and "encode t2" as "encode fp32/t2".
std::string joined(const std::vector<std::string>& names) {
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    const std::string verb = name.substr(0, name.find(' ') + 1);
    const auto is_same = [&](const std::string& part) { return part.starts_with(verb); };
    const auto same = std::ranges::find_if(parts, is_same);
    if ((verb == "encode " || verb == "decode ") && same != parts.end()) {
      *same += "/" + name.substr(verb.size());
    } else {
      parts.push_back(name);
    }
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// "inputs measured: compute; assumed: update, host link", of all steps.
std::string inputs_text(const std::vector<AdvisedStep>& steps) {
  std::vector<std::string> groups;
  for (const InputSource source : kSources) {
    const std::vector<std::string> names = input_names(steps, source);
    if (!names.empty()) groups.push_back(fmt::format("{}: {}", to_string(source), joined(names)));
  }
  return fmt::format("inputs {}", fmt::join(groups, "; "));
}

/// Lines of at most 100 columns, all but the first indented.
std::string wrapped(const std::string& text, const char* indent) {
  constexpr std::size_t kColumns = 100;
  std::string lines;
  std::string line;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && line.size() + 1 + word.size() > kColumns) {
      lines += line + "\n";
      line = indent + word;
    } else {
      line += (line.empty() ? "" : " ") + word;
    }
    begin = end + 1;
  }
  return lines + line + "\n";
}

/// In about three digits.
std::string short_text(double number) {
  return fmt::format("{:.{}f}", number, number >= 100 ? 1 : number >= 1 ? 2 : 3);
}
std::string ms_text(double seconds) { return short_text(1e3 * seconds); }

std::string factor_text(const std::optional<double>& factor) { return factor ? fmt::format("{:.2f}", *factor) : "-"; }

/// "t2 by two_levels/servers, down bf16"; of floats and lanes, which have the same in both directions, "fp32 by ring".
std::string way_text(const StepPrediction& prediction) {
  std::string text = prediction.uplink + " by " + prediction.exchange;
  const bool adds_up = prediction.uplink == "fp32" || prediction.uplink == "bf16" || prediction.uplink == "lanes";
  return adds_up || prediction.downlink.empty() ? text : text + ", down " + prediction.downlink;
}

/// Steps of one number of workers.
std::vector<const AdvisedStep*> steps_at(const AdvisedNet& net, int num_workers) {
  std::vector<const AdvisedStep*> found;
  for (const AdvisedStep& step : net.steps) {
    if (step.prediction.num_workers == num_workers) found.push_back(&step);
  }
  return found;
}

/// Images per second of the first codec, how many times as many the others make, and the fastest way.
void add_worker_line(const AdvisedNet& net, int num_workers, std::string& text) {
  auto out = std::back_inserter(text);
  const std::vector<const AdvisedStep*> steps = steps_at(net, num_workers);
  const auto images = [](const AdvisedStep* step) { return step->images_per_second; };
  const AdvisedStep& best = **std::ranges::max_element(steps, {}, images);
  fmt::format_to(out, "{:>8}{} ", with_commas(num_workers), best.prediction.extrapolated ? '*' : ' ');
  const AdvisedStep* first = nullptr;
  for (const AdvisedStep* step : steps) {
    if (!step->is_best_of_codec) continue;
    if (first == nullptr) {
      first = step;
      fmt::format_to(out, "{:>11}", with_commas(std::llround(step->images_per_second)));
    } else {
      fmt::format_to(out, "{:>7.2f}", step->images_per_second / first->images_per_second);
    }
  }
  fmt::format_to(out, "   {}\n", way_text(best.prediction));
}

void add_workers(const ClusterAdvice& advice, const AdvisedNet& net, std::string& text) {
  auto out = std::back_inserter(text);
  const std::vector<CodecWork>& codecs = advice.file.codecs;
  fmt::format_to(out, "images/s of all workers with {}, times as many with other codecs, and the fastest plan\n",
                 codecs.front().codec);
  fmt::format_to(out, "{:>8}  {:>11}", "workers", codecs.front().codec);
  for (std::size_t i = 1; i < codecs.size(); ++i) fmt::format_to(out, "{:>7}", codecs[i].codec);
  text += "   fastest\n";
  for (const int num_workers : advice.workers) add_worker_line(net, num_workers, text);
}

/// How a plan is called in the narrow table of parts, where levels have a column of their own.
std::string exchange_text(const StepPrediction& prediction, const char*& levels) {
  constexpr std::string_view kTwoLevels = "two_levels/";
  const bool has_two = prediction.exchange.starts_with(kTwoLevels);
  levels = has_two ? "2" : "1";
  return has_two ? prediction.exchange.substr(kTwoLevels.size()) : prediction.exchange;
}

void add_parts(const AdvisedNet& net, int num_workers, std::string& text) {
  auto out = std::back_inserter(text);
  fmt::format_to(out, "parts of a step of {} in ms, MB of a worker's message, speed-up over fp32 and bf16\n",
                 counted(num_workers, "worker"));
  fmt::format_to(out, "{:<5} {:<5} {:<16} {:>2}{:>8}{:>7}{:>8}{:>7}{:>7}{:>8}{:>6}{:>6}{:>6}{:>6}\n", "up", "down",
                 "exchange", "lv", "compute", "encode", "exposed", "decode", "update", "step", "MB up", "down", "/fp32",
                 "/bf16");
  for (const AdvisedStep* step : steps_at(net, num_workers)) {
    const StepPrediction& p = step->prediction;
    const bool has_downlink = !p.downlink.empty();
    const char* levels = nullptr;
    const std::string exchange = exchange_text(p, levels);
    fmt::format_to(
        out, "{:<5} {:<5} {:<16} {:>2}{:>8}{:>7}{:>8}{:>7}{:>7}{:>8}{:>6}{:>6}{:>6}{:>6}\n", p.uplink,
        has_downlink ? p.downlink : "-", exchange, levels, ms_text(p.parts.straggler_factor * p.parts.compute),
        ms_text(p.parts.encode), ms_text(p.parts.exposed_exchange), ms_text(p.parts.decode), ms_text(p.parts.update),
        ms_text(p.seconds()), short_text(1e-6 * p.message.up), has_downlink ? short_text(1e-6 * p.message.down) : "-",
        factor_text(step->over_fp32), factor_text(step->over_bf16));
  }
}

std::int64_t plain_elements_of(const ClusterNet& net) {
  std::int64_t sum = 0;
  for (const GradientBucket& bucket : net.buckets) sum += bucket.plain_elements;
  return sum;
}

/// The largest listed number of workers that the cluster has.
int whole_cluster(const ClusterAdvice& advice) {
  int largest = advice.workers.front();
  for (const int num_workers : advice.workers) {
    if (num_workers <= advice.file.cluster.num_workers()) largest = num_workers;
  }
  return largest;
}

std::string beginning_of(const ClusterAdvice& advice) {
  const Cluster& cluster = advice.file.cluster;
  std::string text = fmt::format("{}: {} of {}, {}", cluster.name, counted(cluster.num_machines, "machine"),
                                 counted(cluster.gpus_per_machine, "GPU"), counted(cluster.num_workers(), "worker"));
  if (!advice.file.commit.empty()) {
    text += fmt::format("; measured by commit {} on {}", advice.file.commit, advice.file.machine);
  }
  text = wrapped(text, "  ") + wrapped("links: " + links_text(cluster), "  ");
  const std::int64_t trusted = std::int64_t{kTrustedFactor} * cluster.measured_workers;
  return text + wrapped(fmt::format("inputs were observed with {}; * marks steps extrapolated to more than {}",
                                    counted(cluster.measured_workers, "worker"), with_commas(trusted)),
                        "  ");
}

// JSON.

nlohmann::ordered_json cluster_json(const Cluster& cluster) {
  const auto link = [](const Sourced<LinkModel>& of) -> nlohmann::ordered_json {
    if (!std::isfinite(of.value.bytes_per_second)) return nullptr;
    return {{"latency_seconds", of.value.latency_seconds},
            {"bytes_per_second", of.value.bytes_per_second},
            {"source", to_string(of.source)}};
  };
  const auto number = [](const Sourced<double>& of) -> nlohmann::ordered_json {
    return {{"value", of.value}, {"source", to_string(of.source)}};
  };
  return {{"name", cluster.name},
          {"machines", cluster.num_machines},
          {"gpus_per_machine", cluster.gpus_per_machine},
          {"num_workers", cluster.num_workers()},
          {"measured_workers", cluster.measured_workers},
          {"extrapolated_above", std::int64_t{kTrustedFactor} * cluster.measured_workers},
          {"links", {{"gpu", link(cluster.gpu)}, {"host", link(cluster.host)}, {"network", link(cluster.network)}}},
          {"bisection_factor", number(cluster.bisection_factor)},
          {"straggler_deviation", number(cluster.straggler_deviation)}};
}

nlohmann::ordered_json step_json(const AdvisedStep& step) {
  const StepPrediction& p = step.prediction;
  const auto or_null = [](const std::optional<double>& factor) {
    return factor ? nlohmann::ordered_json(*factor) : nlohmann::ordered_json(nullptr);
  };
  const bool has_downlink = !p.downlink.empty();
  nlohmann::ordered_json json{{"workers", p.num_workers}, {"codec", p.uplink}, {"downlink", nullptr}};
  if (has_downlink) json["downlink"] = p.downlink;
  json["exchange"] = p.exchange;
  json["best_of_codec"] = step.is_best_of_codec;
  json["extrapolated"] = p.extrapolated;
  json["step_seconds"] = p.seconds();
  json["images_per_second"] = step.images_per_second;
  json["speed_up"] = {{"fp32", or_null(step.over_fp32)}, {"bf16", or_null(step.over_bf16)}};
  json["message_bytes"] = {{"up", p.message.up}, {"down", nullptr}};
  if (has_downlink) json["message_bytes"]["down"] = p.message.down;
  json["parts"] = {{"straggler_factor", p.parts.straggler_factor},
                   {"compute_seconds", p.parts.compute},
                   {"encode_seconds", p.parts.encode},
                   {"exposed_exchange_seconds", p.parts.exposed_exchange},
                   {"decode_seconds", p.parts.decode},
                   {"update_seconds", p.parts.update}};
  json["exchange_parts"] = {{"scalers_seconds", p.parts.exchange.scalers},
                            {"inside_seconds", p.parts.exchange.inside},
                            {"host_seconds", p.parts.exchange.host},
                            {"network_seconds", p.parts.exchange.network}};
  for (const InputSource source : kSources) json["inputs"][to_string(source)] = nlohmann::ordered_json::array();
  for (const NamedInput& input : p.inputs) json["inputs"][to_string(input.source)].push_back(input.name);
  return json;
}

}  // namespace

std::vector<int> advised_workers(int gpus_per_machine) {
  std::set<int> workers;
  const auto add = [&](int num_workers) {
    workers.insert(num_workers <= gpus_per_machine ? num_workers : num_workers - num_workers % gpus_per_machine);
  };
  for (int num_workers = 1; num_workers < kMaxAdvisedWorkers; num_workers *= 2) add(num_workers);
  add(kMaxAdvisedWorkers);
  return {workers.begin(), workers.end()};
}

ClusterAdvice make_cluster_advice(ClusterFile file) {
  TERNGRAD_REQUIRE(!file.nets.empty(), "the file lacks the key 'nets', and nothing is measured");
  TERNGRAD_REQUIRE(!file.codecs.empty(), "the file lacks the key 'codecs', and nothing is measured");
  ClusterAdvice advice{.file = std::move(file), .workers = {}, .nets = {}, .figure = {}};
  const Cluster& cluster = advice.file.cluster;
  advice.workers = advised_workers(cluster.gpus_per_machine);
  for (const ClusterNet& net : advice.file.nets) {
    advice.nets.push_back({.net = net, .steps = {}});
    for (const int num_workers : advice.workers) {
      for (AdvisedStep& step : steps_of_workers(advice.file, net, num_workers)) {
        advice.nets.back().steps.push_back(std::move(step));
      }
    }
  }
  const PaperCluster* paper = find_paper_cluster(cluster.name);
  if (paper != nullptr) advice.figure = make_paper_figure(*paper);
  return advice;
}

std::string to_text(const ClusterAdvice& advice) {
  std::string text = beginning_of(advice);
  auto out = std::back_inserter(text);
  std::string shown_inputs;
  for (const AdvisedNet& net : advice.nets) {
    fmt::format_to(out, "\n{}: {} elements, {} of them always as floats; {} examples a worker\n", net.net.name,
                   with_commas(net.net.num_elements()), with_commas(plain_elements_of(net.net)),
                   net.net.examples_per_worker);
    const std::string inputs = inputs_text(net.steps);
    if (inputs != shown_inputs) text += wrapped(inputs, "  ");
    shown_inputs = inputs;
    add_workers(advice, net, text);
    add_parts(net, whole_cluster(advice), text);
  }
  if (advice.figure) text += "\n" + to_text(*advice.figure);
  return text;
}

nlohmann::ordered_json to_json(const ClusterAdvice& advice) {
  nlohmann::ordered_json json{{"command", "terngrad_advise"},
                              {"version", version()},
                              {"commit", commit()},
                              {"cluster", cluster_json(advice.file.cluster)},
                              {"calibration", nullptr},
                              {"workers", advice.workers},
                              {"nets", nlohmann::ordered_json::array()},
                              {"figure5", nullptr}};
  if (!advice.file.commit.empty()) {
    json["calibration"] = {{"commit", advice.file.commit}, {"machine", advice.file.machine}};
  }
  for (const AdvisedNet& net : advice.nets) {
    nlohmann::ordered_json steps = nlohmann::ordered_json::array();
    for (const AdvisedStep& step : net.steps) steps.push_back(step_json(step));
    json["nets"].push_back({{"name", net.net.name},
                            {"num_elements", net.net.num_elements()},
                            {"plain_elements", plain_elements_of(net.net)},
                            {"examples_per_worker", net.net.examples_per_worker},
                            {"steps", std::move(steps)}});
  }
  if (advice.figure) json["figure5"] = to_json(*advice.figure);
  return json;
}

}  // namespace terngrad
