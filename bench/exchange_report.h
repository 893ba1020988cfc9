// The report of terngrad_exchange_bench: printed table and JSON file.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/exchange_run.h"

namespace terngrad::bench {

/// Conditions that all results of a report share.
struct ExchangeReportHeader {
  std::string layout;
  std::int64_t num_elements = 0;
  int num_segments = 0;
  int num_workers = 1;
  std::vector<std::string> ranks;  // their names
  int num_threads = 1;             // of the chief
  int repetitions = 1;
  std::optional<LinkModel> link;  // if it was measured
};

/// A table: for each result the slowest rank's milliseconds, megabytes and megabits per second, and under it what was
/// predicted, if anything was. One prediction stands for measure and encode together.
std::string to_text(const ExchangeReportHeader& header, const std::vector<ExchangeResult>& results);

/// The same with every rank's numbers, in seconds, bytes and bits per second.
nlohmann::ordered_json to_json(const ExchangeReportHeader& header, const std::vector<ExchangeResult>& results);

}  // namespace terngrad::bench
