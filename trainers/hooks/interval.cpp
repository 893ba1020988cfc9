#include "trainers/hooks/interval.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <sstream>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// First word of an interval's text; earlier versions had none.
constexpr const char* kIntervalVersion = "v2";
/// Before the number of frozen elements, which is left out if it is 0.
constexpr const char* kFrozenWord = "frozen";

}  // namespace

double Interval::mean_of(double sum, std::uint64_t count) {
  return sum / static_cast<double>(std::max<std::uint64_t>(count, 1));
}

double Interval::examples_per_second(std::uint64_t batch_size) const {
  return static_cast<double>(batch_size) * static_cast<double>(timed_steps) / seconds;
}

std::int64_t Interval::mean_exchanged_elements(std::int64_t num_elements) const {
  return num_elements - frozen_elements / static_cast<std::int64_t>(std::max<std::uint64_t>(steps - skipped_steps, 1));
}

void Interval::add(const TrainingView& training, const StepView& step) {
  ++steps;
  loss += step.loss;
  accuracy += step.accuracy;
  skipped_steps += step.report.skipped ? 1u : 0u;
  nonfinite_steps += step.report.nonfinite.empty() ? 0u : 1u;
  transform_counts += step.transform_counts;
  if (!step.report.skipped) {
    bytes += step.report;
    frozen_elements += num_frozen_elements(training);
  }
  if (step.pushes != nullptr) pushes += *step.pushes;
  ++timed_steps;
  seconds += step.step_seconds;
  if (!step.parts_are_timed) return;
  ++steps_with_parts;
  parts.add(step);
}

std::string Interval::to_text() const {
  // Bit patterns, because resumed sums must be bit-identical.
  std::string text =
      fmt::format("{} {} {:016x} {:016x} {} {} {} {}", kIntervalVersion, steps, std::bit_cast<std::uint64_t>(loss),
                  std::bit_cast<std::uint64_t>(accuracy), skipped_steps, nonfinite_steps,
                  transform_counts.zeroed_elements, transform_counts.clipped_gradients);
  for (const LegBytes& leg : {bytes.scalers, bytes.gradient, bytes.mean, bytes.servers}) {
    text += fmt::format(" {} {}", leg.sent, leg.received);
  }
  text += fmt::format(" {} {}", bytes.num_workers, bytes.num_servers);
  if (frozen_elements > 0) text += fmt::format(" {} {}", kFrozenWord, frozen_elements);
  return pushes.total() > 0 ? text + " " + pushes.to_text() : text;
}

Interval parse_interval(const std::string& text) {
  std::istringstream words(text);
  const bool has_version = text.starts_with(kIntervalVersion);
  if (std::string version; has_version) words >> version;
  Interval interval;
  std::uint64_t loss = 0;
  std::uint64_t accuracy = 0;
  words >> interval.steps >> std::hex >> loss >> accuracy >> std::dec >> interval.skipped_steps >>
      interval.nonfinite_steps >> interval.transform_counts.zeroed_elements >>
      interval.transform_counts.clipped_gradients;
  interval.loss = std::bit_cast<double>(loss);
  interval.accuracy = std::bit_cast<double>(accuracy);
  ExchangeBytes& bytes = interval.bytes;
  for (LegBytes* leg : {&bytes.scalers, &bytes.gradient, &bytes.mean}) words >> leg->sent >> leg->received;
  if (has_version) words >> bytes.servers.sent >> bytes.servers.received >> bytes.num_workers >> bytes.num_servers;
  const bool is_complete = static_cast<bool>(words);
  std::string word;
  if (words >> word && word == kFrozenWord) words >> interval.frozen_elements >> word;
  if (words) interval.pushes = parse_push_counts(word);
  words >> std::ws;
  const bool is_sound = is_complete && words.eof() && (!has_version || interval.to_text() == text);
  if (!is_sound) TERNGRAD_THROW(DataError, kIntervalKey, " is '", text, "'");
  if (!has_version) bytes = {};
  return interval;
}

Interval interval_of(const std::map<std::string, std::string>& entries) {
  const auto saved = entries.find(kIntervalKey);
  return saved != entries.end() ? parse_interval(saved->second) : Interval{};
}

}  // namespace terngrad
