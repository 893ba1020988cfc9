#include "trainers/advice.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <utility>

#include "kernels/errors.h"
#include "trainers/progress.h"
#include "version.h"

namespace terngrad {
namespace {

using Json = nlohmann::ordered_json;

std::string bandwidth_text(double bytes_per_second) {
  if (!std::isfinite(bytes_per_second)) return "unlimited";
  return fmt::format("{:.1f} Mbit/s", 8e-6 * bytes_per_second);
}

std::string pays_text(const BreakEven& break_even) {
  switch (break_even.pays) {
    case BreakEven::Pays::kAlways:
      return "always";
    case BreakEven::Pays::kBelow:
      return "below " + bandwidth_text(break_even.bytes_per_second);
    case BreakEven::Pays::kAbove:
      return "above " + bandwidth_text(break_even.bytes_per_second);
    default:
      return "never";
  }
}

std::string milliseconds(double seconds) { return fmt::format("{:.3f} ms", 1e3 * seconds); }

double wire_bytes_per_worker(const Advice& advice, const AdviceRow& row) {
  return row.cost.wire.bytes / advice.subject.world.num_local_workers();
}

std::string world_text(const ExchangeWorld& world) {
  return world.num_processes == world.num_workers
             ? fmt::format("{} workers, each in a process of its own", world.num_workers)
             : fmt::format("{} workers in {} processes", world.num_workers, world.num_processes);
}

/// How terngrad_train is told to use a codec.
std::string train_options(const std::string& codec) {
  return codec == "bf16" ? "--grad_bits 16" : "--grad_bits 1 --ternary_format " + codec;
}

Json to_json(const BreakEven& break_even) {
  switch (break_even.pays) {
    case BreakEven::Pays::kAlways:
      return {{"pays", "always"}};
    case BreakEven::Pays::kBelow:
      return {{"pays", "below"}, {"bytes_per_second", break_even.bytes_per_second}};
    case BreakEven::Pays::kAbove:
      return {{"pays", "above"}, {"bytes_per_second", break_even.bytes_per_second}};
    default:
      return {{"pays", "never"}};
  }
}

Json to_json(const Advice& advice, const AdviceRow& row) {
  const ExchangeCost& cost = row.cost;
  return {{"codec", cost.codec},
          {"exchange", to_string(cost.algorithm)},
          {"wire_bytes_per_worker", wire_bytes_per_worker(advice, row)},
          {"rounds", cost.wire.rounds},
          {"encode_seconds", cost.encode_seconds},
          {"check_seconds", cost.check_seconds},
          {"decode_seconds", cost.decode_seconds},
          {"exchange_seconds", cost.seconds(advice.subject.link)},
          {"against_fp32", to_json(row.against_fp32)},
          {"against_bf16", to_json(row.against_bf16)}};
}

Json to_json(const LinkModel& link, const std::vector<LinkSample>& samples) {
  Json json{{"measured", !samples.empty()}, {"latency_seconds", link.latency_seconds}, {"bytes_per_second", nullptr}};
  if (std::isfinite(link.bytes_per_second)) json["bytes_per_second"] = link.bytes_per_second;
  for (const LinkSample& sample : samples) {
    json["samples"].push_back({{"bytes", sample.bytes}, {"seconds", sample.seconds}});
  }
  return json;
}

/// The fastest row of those that compress.
const AdviceRow& fastest_codec(const Advice& advice) {
  const LinkModel& link = advice.subject.link;
  std::size_t best = 1;
  for (std::size_t i = 2; i < advice.rows.size(); ++i) {
    if (advice.rows[i].cost.seconds(link) < advice.rows[best].cost.seconds(link)) best = i;
  }
  return advice.rows[best];
}

}  // namespace

Advice make_advice(AdviceSubject subject, const std::vector<ExchangeCost>& costs) {
  TERNGRAD_REQUIRE(costs.size() >= 2 && costs[0].codec == "fp32" && costs[1].codec == "bf16",
                   "[make_advice] compares with fp32 and bf16, which must come first");
  Advice advice{.subject = std::move(subject), .rows = {}};
  const double latency = advice.subject.link.latency_seconds;
  for (const ExchangeCost& cost : costs) {
    advice.rows.push_back({.cost = cost,
                           .against_fp32 = break_even(cost, costs[0], latency),
                           .against_bf16 = break_even(cost, costs[1], latency)});
  }
  advice.recommended = recommend(costs, advice.subject.link);
  return advice;
}

std::string recommendation_text(const Advice& advice) {
  const LinkModel& link = advice.subject.link;
  const std::string fp32 = milliseconds(advice.rows[0].cost.seconds(link));
  if (advice.recommended == 0) {
    const AdviceRow& best = fastest_codec(advice);
    return fmt::format(
        "recommendation: do not compress: an exchange takes {} on this link with fp32, {} with the fastest codec, {} "
        "(it "
        "pays {})",
        fp32, milliseconds(best.cost.seconds(link)), best.cost.codec, pays_text(best.against_fp32));
  }
  const AdviceRow& chosen = advice.rows[advice.recommended];
  const double factor = advice.rows[0].cost.seconds(link) / chosen.cost.seconds(link);
  std::string text = fmt::format(
      "recommendation: {} ({}): an exchange takes {} on this link, with fp32 {} ({:.1f} times as long)",
      chosen.cost.codec, train_options(chosen.cost.codec), milliseconds(chosen.cost.seconds(link)), fp32, factor);
  if (advice.recommended != 1) text += ", with bf16 " + milliseconds(advice.rows[1].cost.seconds(link));
  return text;
}

std::string to_text(const Advice& advice) {
  const AdviceSubject& subject = advice.subject;
  std::string text = fmt::format("{}: {} elements in {} tensors, {}\n", subject.name, subject.num_elements,
                                 subject.num_tensors, world_text(subject.world));
  auto out = std::back_inserter(text);
  fmt::format_to(out, "link of each process, {}: {}, latency {:.1f} us\n",
                 subject.samples.empty() ? "as given" : "measured", bandwidth_text(subject.link.bytes_per_second),
                 1e6 * subject.link.latency_seconds);
  fmt::format_to(out, "{:<6} {:<15} {:>11} {:>13} {:>13}   {:<23} {}\n", "codec", "exchange", "wire/worker",
                 "encode+decode", "exchange", "pays against fp32", "pays against bf16");
  for (std::size_t i = 0; i < advice.rows.size(); ++i) {
    const AdviceRow& row = advice.rows[i];
    fmt::format_to(out, "{:<6} {:<15} {:>11} {:>13} {:>13}   {:<23} {}\n", row.cost.codec,
                   to_string(row.cost.algorithm), format_bytes(wire_bytes_per_worker(advice, row)),
                   milliseconds(row.cost.processor_seconds()), milliseconds(row.cost.seconds(subject.link)),
                   i == 0 ? "-" : pays_text(row.against_fp32), i == 1 ? "-" : pays_text(row.against_bf16));
  }
  return text + recommendation_text(advice) + "\n";
}

nlohmann::ordered_json to_json(const Advice& advice) {
  const AdviceSubject& subject = advice.subject;
  Json json{{"command", "terngrad_advise"},
            {"version", kVersion},
            {"commit", kCommit},
            {"name", subject.name},
            {"num_elements", subject.num_elements},
            {"num_tensors", subject.num_tensors},
            {"num_workers", subject.world.num_workers},
            {"num_processes", subject.world.num_processes},
            {"link", to_json(subject.link, subject.samples)},
            {"codecs", Json::array()}};
  for (const AdviceRow& row : advice.rows) json["codecs"].push_back(to_json(advice, row));
  json["compress"] = advice.recommended != 0;
  json["recommended"] = advice.rows[advice.recommended].cost.codec;
  json["recommendation"] = recommendation_text(advice);
  return json;
}

}  // namespace terngrad
