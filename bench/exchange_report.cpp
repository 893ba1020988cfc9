#include "bench/exchange_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "kernels/runtime/version.h"

namespace terngrad::bench {
namespace {

nlohmann::ordered_json to_json(const ExchangeTimes& times) {
  return {{"measure_seconds", times.measure_seconds}, {"encode_seconds", times.encode_seconds},
          {"wire_seconds", times.wire_seconds},       {"decode_seconds", times.decode_seconds},
          {"total_seconds", times.total_seconds},     {"sent_bytes", times.sent_bytes},
          {"received_bytes", times.received_bytes},   {"bits_per_second", times.bits_per_second()}};
}

/// Infinite bandwidths are null in JSON.
nlohmann::ordered_json to_json(const LinkModel& link) {
  nlohmann::ordered_json json{{"latency_seconds", link.latency_seconds}, {"bytes_per_second", nullptr}};
  if (std::isfinite(link.bytes_per_second)) json["bytes_per_second"] = link.bytes_per_second;
  return json;
}

nlohmann::ordered_json to_json(const ExchangeCost& cost, const LinkModel& link) {
  return {{"encode_seconds", cost.encode_seconds}, {"wire_seconds", cost.check_seconds + cost.link_seconds(link)},
          {"decode_seconds", cost.decode_seconds}, {"total_seconds", cost.seconds(link)},
          {"wire_bytes", cost.wire.bytes},         {"rounds", cost.wire.rounds}};
}

/// "1 worker", "2 workers".
template <class Count>
std::string counted(Count count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string rate_text(double bits_per_second) {
  return bits_per_second > 0 ? fmt::format("{:.1f}", bits_per_second * 1e-6) : "-";
}

}  // namespace

std::string to_text(const ExchangeReportHeader& header, const std::vector<ExchangeResult>& results) {
  const std::size_t num_ranks = header.ranks.size();
  std::string text =
      fmt::format("{}: {} elements in {} tensors, {} in {}, {} each\n", header.layout, header.num_elements,
                  header.num_segments, counted(header.num_workers, "worker", "workers"),
                  counted(num_ranks, "process", "processes"), counted(header.num_threads, "thread", "threads"));
  auto out = std::back_inserter(text);
  if (num_ranks == 1) text += "nothing travels between processes: wire is what copies in memory and checksums take\n";
  if (header.link) {
    fmt::format_to(
        out, "link: {:.1f} us and {} Mbit/s for each process\n", 1e6 * header.link->latency_seconds,
        std::isfinite(header.link->bytes_per_second) ? rate_text(8 * header.link->bytes_per_second) : "unlimited");
  }
  fmt::format_to(out, "medians of {}, the slowest process's; ms; MB over a process's link in each direction\n",
                 header.repetitions);
  std::size_t width = 10;  // of the codecs
  for (const ExchangeResult& result : results) width = std::max(width, result.codec.size());
  fmt::format_to(out, "{:<{}} {:<15} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "codec", width, "exchange",
                 "measure", "encode", "wire", "decode", "total", "sent", "received", "Mbit/s");
  for (const ExchangeResult& result : results) {
    const ExchangeTimes t = result.slowest();
    fmt::format_to(out, "{:<{}} {:<15} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9}\n",
                   result.codec, width, result.exchange, 1e3 * t.measure_seconds, 1e3 * t.encode_seconds,
                   1e3 * t.wire_seconds, 1e3 * t.decode_seconds, 1e3 * t.total_seconds, 1e-6 * t.sent_bytes,
                   1e-6 * t.received_bytes, rate_text(t.bits_per_second()));
    if (!result.predicted || !header.link) continue;
    const ExchangeCost& cost = *result.predicted;
    fmt::format_to(out, "{:<{}} {:<15} {:>9} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f}\n", "", width,
                   "predicted", "", 1e3 * cost.encode_seconds,
                   1e3 * (cost.check_seconds + cost.link_seconds(*header.link)), 1e3 * cost.decode_seconds,
                   1e3 * cost.seconds(*header.link), 1e-6 * cost.wire.bytes, 1e-6 * cost.wire.bytes);
  }
  return text;
}

nlohmann::ordered_json to_json(const ExchangeReportHeader& header, const std::vector<ExchangeResult>& results) {
  nlohmann::ordered_json json{{"command", "terngrad_exchange_bench"},
                              {"version", version()},
                              {"commit", commit()},
                              {"layout", header.layout},
                              {"num_elements", header.num_elements},
                              {"num_tensors", header.num_segments},
                              {"num_workers", header.num_workers},
                              {"processes", header.ranks},
                              {"threads", header.num_threads},
                              {"repetitions", header.repetitions}};
  if (header.link) json["link"] = to_json(*header.link);
  nlohmann::ordered_json& list = json["results"] = nlohmann::ordered_json::array();
  for (const ExchangeResult& result : results) {
    nlohmann::ordered_json entry{{"codec", result.codec}, {"exchange", result.exchange}};
    entry["slowest"] = to_json(result.slowest());
    for (const ExchangeTimes& times : result.samples) entry["samples"].push_back(to_json(times));
    for (const ExchangeTimes& times : result.ranks) entry["ranks"].push_back(to_json(times));
    if (result.predicted && header.link) entry["predicted"] = to_json(*result.predicted, *header.link);
    list.push_back(std::move(entry));
  }
  return json;
}

}  // namespace terngrad::bench
