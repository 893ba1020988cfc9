#include "trainers/commands/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "compress/route/wire_bytes.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/version.h"
#include "trainers/launch/progress.h"
#include "trainers/options/compared_codec_options.h"

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

/// Seconds of computation plus exchange; only of the exchange if the computation is unknown.
double step_seconds(const Advice& advice, const ExchangeCost& cost) {
  return advice.subject.compute.seconds + cost.seconds(advice.subject.link);
}

/// Compression ratio compared with the bytes of an fp32 all-reduce between these processes.
double wire_ratio(const Advice& advice, const AdviceRow& row) {
  const double plain = fp32_all_reduce_bytes(advice.subject.num_elements, advice.subject.world.num_processes);
  return row.cost.moved_bytes > 0 ? plain / row.cost.moved_bytes : 0;
}

std::string world_text(const ExchangeWorld& world) {
  return world.num_processes == world.num_workers
             ? fmt::format("{} workers, each in its own process", world.num_workers)
             : fmt::format("{} workers in {} processes", world.num_workers, world.num_processes);
}

bool is_vendor(const ExchangeCost& cost) { return cost.exchange == kVendorExchange; }
bool has_groups(const ExchangeCost& cost) { return cost.workers_per_group > 1; }

/// A fitted latency of 0 means that it is too small to measure.
std::string latency_text(const AdviceSubject& subject) {
  if (!subject.samples.empty() && subject.link.latency_seconds == 0) return "latency below what this measures";
  return fmt::format("latency {:.1f} us", 1e6 * subject.link.latency_seconds);
}

std::string spread_text(const AdviceRow& row) {
  return row.spread ? fmt::format("{:.3f} to {:.3f} ms", 1e3 * row.spread->low, 1e3 * row.spread->high) : "-";
}

/// Options of terngrad_train that select a codec as it was measured.
std::string codec_options(const AdviceSubject& subject, const ExchangeCost& cost) {
  if (cost.codec == "fp32") return "--grad_bits 32";
  std::string text = cost.codec == "bf16" ? "--grad_bits 16" : "--codec " + cost.codec;
  if (cost.codec == "t2" || cost.codec == "t5") text = "--grad_bits 1 --ternary_format " + cost.codec;
  const bool names_clip_factor = cost.codec.find("clip_factor=") != std::string::npos;
  if (is_compared_ternary(cost.codec) && !names_clip_factor && subject.clip_factor != 0) {
    text += fmt::format(" --clip_factor {}", subject.clip_factor);
  }
  return subject.quantize_logits ? text + " --quantize_logits" : text;
}

/// Options of terngrad_train that select an exchange as it was measured.
std::string train_options(const AdviceSubject& subject, const ExchangeCost& cost) {
  if (is_vendor(cost)) return cost.codec == "fp32" ? "--exchange vendor" : "--exchange vendor --codec " + cost.codec;
  const std::string codec = codec_options(subject, cost);
  return has_groups(cost) ? fmt::format("{} --workers_per_group {}", codec, cost.workers_per_group) : codec;
}

/// "fp32", "fp32 of vendor", "fp32 in groups of 4".
std::string name_of(const ExchangeCost& cost) {
  if (has_groups(cost)) return cost.codec + " in " + groups_text(cost.workers_per_group);
  return cost.codec + (is_vendor(cost) ? " of vendor" : "");
}

/// "all_gather", "vendor", "groups of 4".
std::string exchange_text(const ExchangeCost& cost) {
  return has_groups(cost) ? groups_text(cost.workers_per_group) : cost.exchange;
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
  Json json{{"codec", cost.codec},
            {"exchange", exchange_text(cost)},
            {"workers_per_group", cost.workers_per_group},
            {"wire_bytes_per_process", cost.moved_bytes},
            {"wire_ratio", wire_ratio(advice, row)},
            {"rounds", cost.wire.rounds},
            {"encode_seconds", cost.encode_seconds},
            {"check_seconds", cost.check_seconds},
            {"decode_seconds", cost.decode_seconds},
            {"samples", cost.samples},
            {"exchange_seconds", cost.seconds(advice.subject.link)},
            {"exchange_spread", nullptr},
            {"step_seconds", step_seconds(advice, cost)},
            {"against_fp32", to_json(row.against_fp32)},
            {"against_bf16", to_json(row.against_bf16)}};
  if (row.spread) json["exchange_spread"] = {row.spread->low, row.spread->high};
  return json;
}

Json to_json(const LinkModel& link, const std::vector<LinkSample>& samples) {
  Json json{{"measured", !samples.empty()}, {"latency_seconds", link.latency_seconds}, {"bytes_per_second", nullptr}};
  if (std::isfinite(link.bytes_per_second)) json["bytes_per_second"] = link.bytes_per_second;
  for (const LinkSample& sample : samples) {
    json["samples"].push_back({{"bytes", sample.bytes}, {"seconds", sample.seconds}});
    if (sample.spread != Spread{}) json["samples"].back()["spread"] = {sample.spread.low, sample.spread.high};
  }
  return json;
}

/// Index of the fastest row whose codec `takes_part` accepts; the number of rows if there is none.
template <class TakesPart>
std::size_t fastest(const Advice& advice, const TakesPart& takes_part) {
  const LinkModel& link = advice.subject.link;
  const std::vector<AdviceRow>& rows = advice.rows;
  std::size_t best = rows.size();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!takes_part(rows[i].cost.codec)) continue;
    if (best == rows.size() || rows[i].cost.seconds(link) < rows[best].cost.seconds(link)) best = i;
  }
  return best;
}

/// Index of the baseline row of a codec.
std::size_t baseline_of(const Advice& advice, const std::string& codec) {
  const std::size_t row = fastest(advice, [&](const std::string& of_row) { return of_row == codec; });
  TERNGRAD_REQUIRE(row < advice.rows.size(), "[make_advice] compares with fp32 and bf16; there is no exchange of ",
                   codec);
  return row;
}

/// Rows whose spreads overlap with that of the recommended one.
std::vector<std::size_t> ties_of(const Advice& advice) {
  std::vector<std::size_t> ties;
  const std::optional<Spread>& chosen = advice.rows[advice.recommended].spread;
  for (std::size_t i = 0; chosen && i < advice.rows.size(); ++i) {
    const std::optional<Spread>& other = advice.rows[i].spread;
    if (i != advice.recommended && other && other->overlaps(*chosen)) ties.push_back(i);
  }
  return ties;
}

/// Begin of the recommendation.
std::string beginning_text(const Advice& advice) {
  if (advice.ties.empty()) return "recommendation: ";
  std::vector<std::string> names;
  for (const std::size_t row : advice.ties) names.push_back(name_of(advice.rows[row].cost));
  return fmt::format("recommendation: no clear winner, as the spread of {} overlaps with that of {}; by medians ",
                     name_of(advice.rows[advice.recommended].cost), fmt::join(names, ", "));
}

const ExchangeCost& fp32_of(const Advice& advice) { return advice.rows[advice.fp32_baseline].cost; }
const ExchangeCost& bf16_of(const Advice& advice) { return advice.rows[advice.bf16_baseline].cost; }

}  // namespace

std::string groups_text(int workers_per_group) { return fmt::format("groups of {}", workers_per_group); }

Advice make_advice(AdviceSubject subject, const std::vector<ExchangeCost>& costs) {
  Advice advice{.subject = std::move(subject), .rows = {}};
  const LinkModel& link = advice.subject.link;
  const std::vector<LinkSample>& samples = advice.subject.samples;
  const LinkBounds bounds = samples.empty() ? LinkBounds{link, link} : fit_link_bounds(samples);
  for (const ExchangeCost& cost : costs) {
    advice.rows.push_back({.cost = cost, .spread = cost.spread(link, bounds), .against_fp32 = {}, .against_bf16 = {}});
  }
  advice.fp32_baseline = baseline_of(advice, "fp32");
  advice.bf16_baseline = baseline_of(advice, "bf16");
  const double latency = link.latency_seconds;
  for (AdviceRow& row : advice.rows) {
    row.against_fp32 = break_even(row.cost, fp32_of(advice), latency);
    row.against_bf16 = break_even(row.cost, bf16_of(advice), latency);
  }
  advice.recommended = recommend(costs, advice.fp32_baseline, link, advice.subject.compute.seconds);
  advice.ties = ties_of(advice);
  return advice;
}

std::string recommendation_text(const Advice& advice) {
  const char* what = advice.subject.compute.seconds > 0 ? "a step" : "an exchange";
  const auto time = [&](const ExchangeCost& cost) { return milliseconds(step_seconds(advice, cost)); };
  const ExchangeCost& fp32 = fp32_of(advice);
  if (!advice.compress()) {
    const AdviceRow& best = advice.rows[fastest(advice, [](const std::string& codec) { return codec != "fp32"; })];
    return fmt::format(
        "{}do not compress ({}): {} takes {} on this link with {}, {} with the fastest codec, {} (its "
        "exchange pays {})",
        beginning_text(advice), train_options(advice.subject, fp32), what, time(fp32), name_of(fp32), time(best.cost),
        name_of(best.cost), pays_text(best.against_fp32));
  }
  const ExchangeCost& chosen = advice.rows[advice.recommended].cost;
  std::string text =
      fmt::format("{}{} ({}): {} takes {} on this link, with {} {} ({:.1f} times as long)", beginning_text(advice),
                  name_of(chosen), train_options(advice.subject, chosen), what, time(chosen), name_of(fp32), time(fp32),
                  step_seconds(advice, fp32) / step_seconds(advice, chosen));
  if (advice.recommended == advice.bf16_baseline) return text;
  return text + fmt::format(", with {} {}", name_of(bf16_of(advice)), time(bf16_of(advice)));
}

std::string to_text(const Advice& advice) {
  const AdviceSubject& subject = advice.subject;
  std::string text = fmt::format("{}: {} elements in {} tensors, {}\n", subject.name, subject.num_elements,
                                 subject.num_tensors, world_text(subject.world));
  auto out = std::back_inserter(text);
  fmt::format_to(out, "link of each process, {}: {}, {}\n", subject.samples.empty() ? "as given" : "measured",
                 bandwidth_text(subject.link.bytes_per_second), latency_text(subject));
  std::size_t width = 6;  // width of the codec column
  for (const AdviceRow& row : advice.rows) width = std::max(width, row.cost.codec.size());
  fmt::format_to(out, "{:<{}} {:<15} {:>12} {:>6} {:>13} {:>13} {:>24}   {:<23} {}\n", "codec", width, "exchange",
                 "wire/process", "ratio", "encode+decode", "exchange", "spread (middle half)", "pays against fp32",
                 "pays against bf16");
  for (std::size_t i = 0; i < advice.rows.size(); ++i) {
    const AdviceRow& row = advice.rows[i];
    fmt::format_to(out, "{:<{}} {:<15} {:>12} {:>5.1f}x {:>13} {:>13} {:>24}   {:<23} {}\n", row.cost.codec, width,
                   exchange_text(row.cost), format_bytes(row.cost.moved_bytes), wire_ratio(advice, row),
                   milliseconds(row.cost.processor_seconds()), milliseconds(row.cost.seconds(subject.link)),
                   spread_text(row), i == advice.fp32_baseline ? "-" : pays_text(row.against_fp32),
                   i == advice.bf16_baseline ? "-" : pays_text(row.against_bf16));
  }
  fmt::format_to(out, "baselines, the fastest of their type here: fp32 by {}, bf16 by {}\n",
                 exchange_text(fp32_of(advice)), exchange_text(bf16_of(advice)));
  if (subject.compute.measured_batch > 0) {
    fmt::format_to(out, "on CPUs a step computes gradients of {} examples in {}", subject.compute.measured_batch,
                   milliseconds(subject.compute.seconds));
  } else if (subject.compute.seconds > 0) {
    fmt::format_to(out, "a step computes for {}, as given", milliseconds(subject.compute.seconds));
  }
  if (subject.compute.seconds > 0) text += "; exchanges come on top, less what overlaps\n";
  return text + recommendation_text(advice) + "\n";
}

nlohmann::ordered_json to_json(const Advice& advice) {
  const AdviceSubject& subject = advice.subject;
  Json json{{"command", "terngrad_advise"},
            {"version", version()},
            {"commit", commit()},
            {"name", subject.name},
            {"num_elements", subject.num_elements},
            {"num_tensors", subject.num_tensors},
            {"num_workers", subject.world.num_workers},
            {"num_processes", subject.world.num_processes},
            {"link", to_json(subject.link, subject.samples)},
            {"compute", nullptr},
            {"codecs", Json::array()}};
  if (subject.compute.seconds > 0) json["compute"] = {{"seconds", subject.compute.seconds}};
  if (subject.compute.measured_batch > 0) json["compute"]["measured_batch"] = subject.compute.measured_batch;
  for (const AdviceRow& row : advice.rows) json["codecs"].push_back(to_json(advice, row));
  json["baselines"] = {{"fp32", exchange_text(fp32_of(advice))}, {"bf16", exchange_text(bf16_of(advice))}};
  json["compress"] = advice.compress();
  json["not_told_apart"] = Json::array();
  for (const std::size_t row : advice.ties) json["not_told_apart"].push_back(name_of(advice.rows[row].cost));
  json["recommended"] = advice.rows[advice.recommended].cost.codec;
  json["recommended_exchange"] = exchange_text(advice.rows[advice.recommended].cost);
  json["recommended_options"] = train_options(advice.subject, advice.rows[advice.recommended].cost);
  json["recommendation"] = recommendation_text(advice);
  return json;
}

}  // namespace terngrad
