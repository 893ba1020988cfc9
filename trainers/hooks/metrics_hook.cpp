#include "trainers/hooks/metrics_hook.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "compress/route/wire_bytes.h"
#include "trainers/hooks/interval.h"

namespace terngrad {
namespace {

/// Bytes of each leg in one direction, per worker.
nlohmann::ordered_json legs_of(const ExchangeBytes& bytes, std::int64_t LegBytes::*direction) {
  const auto mean = [&](const LegBytes& leg) {
    return static_cast<double>(leg.*direction) / static_cast<double>(std::max<std::int64_t>(bytes.num_workers, 1));
  };
  return {{"scalers", mean(bytes.scalers)}, {"gradient", mean(bytes.gradient)}, {"mean", mean(bytes.mean)}};
}

void write_bytes(const TrainingView& training, const Interval& interval, nlohmann::ordered_json& line) {
  const ExchangeBytes& bytes = interval.bytes;
  if (bytes_of_busiest(bytes).busier() == 0) return;
  line["wire_bytes_per_worker"] = {{"sent", legs_of(bytes, &LegBytes::sent)},
                                   {"received", legs_of(bytes, &LegBytes::received)}};
  if (bytes.num_servers > 0) {
    const NodeBytes server = bytes_per_server(bytes);
    line["wire_bytes_per_server"] = {{"sent", server.sent}, {"received", server.received}};
  }
  const std::int64_t exchanged = interval.mean_exchanged_elements(training.net.layout().num_elements());
  if (const auto ratio = wire_ratio(bytes, exchanged, num_senders(training))) {
    line["wire_ratio"] = *ratio;
  }
}

class MetricsHook final : public Hook {
 public:
  MetricsHook(MetricsWriter& writer, std::uint64_t log_steps, std::uint64_t telemetry_steps)
      : writer_(writer), log_steps_(log_steps), telemetry_steps_(telemetry_steps) {}

  HookVerdict after_step(const TrainingView& training, const StepView& step) override {
    interval_.add(training, step);
    if (training.steps_done % log_steps_ == 0 || training.steps_done == training.total_steps)
      write_train(training, step);
    if (telemetry_steps_ != 0 && training.steps_done % telemetry_steps_ == 0) write_tensors(training, step);
    return HookVerdict::kContinue;
  }
  std::uint64_t next_sync_step(std::uint64_t steps_done) const override {
    return next_multiple(telemetry_steps_, steps_done);
  }
  void save_state(std::map<std::string, std::string>& entries) const override {
    if (interval_.steps > 0) entries[kIntervalKey] = interval_.to_text();
  }
  void restore_state(const std::map<std::string, std::string>& entries) override { interval_ = interval_of(entries); }

 private:
  void write_train(const TrainingView& training, const StepView& step) {
    const Interval interval = std::exchange(interval_, {});
    nlohmann::ordered_json line;
    line["step"] = training.steps_done;
    line["kind"] = "train";
    line["loss"] = Interval::mean_of(interval.loss, interval.steps);
    line["accuracy"] = Interval::mean_of(interval.accuracy, interval.steps);
    line["learning_rate"] = step.learning_rate;
    line["skipped_steps"] = interval.skipped_steps;
    line["nonfinite_steps"] = interval.nonfinite_steps;
    line["zeroed_elements"] = interval.transform_counts.zeroed_elements;
    line["clipped_gradients"] = interval.transform_counts.clipped_gradients;
    if (interval.pushes.total() > 0) {
      nlohmann::ordered_json histogram = nlohmann::ordered_json::object();
      for (const auto& [staleness, pushes] : interval.pushes.staleness) histogram[std::to_string(staleness)] = pushes;
      line["staleness"] = std::move(histogram);
      line["mean_staleness"] = interval.pushes.mean_staleness();
      line["dropped_pushes"] = interval.pushes.dropped;
      line["skipped_pushes"] = interval.pushes.skipped;
    }
    write_bytes(training, interval, line);
    line["examples_per_second"] = interval.examples_per_second(static_cast<std::uint64_t>(training.batch_size));
    if (interval.steps_with_parts > 0) {
      const auto per_step = [&](double seconds) { return Interval::mean_of(seconds, interval.steps_with_parts); };
      line["data_seconds"] = per_step(interval.parts.data);
      line["compute_seconds"] = per_step(interval.parts.compute);
      line["measure_seconds"] = per_step(interval.parts.measure);
      line["encode_seconds"] = per_step(interval.parts.encode);
      line["wire_seconds"] = per_step(interval.parts.wire);
      line["decode_seconds"] = per_step(interval.parts.decode);
      line["hidden_seconds"] = per_step(interval.parts.hidden);
      line["exposed_seconds"] = per_step(interval.parts.exposed);
      line["update_seconds"] = per_step(interval.parts.update);
    }
    writer_.write(line);
  }

  void write_tensors(const TrainingView& training, const StepView& step) {
    if (step.report.skipped) return;
    nlohmann::ordered_json tensors = nlohmann::ordered_json::object();
    for (int segment = 0; segment < training.net.layout().num_segments(); ++segment) {
      if (training.is_frozen(segment)) continue;
      const TensorTelemetry t = step.telemetry(segment);
      tensors[training.net.layout().segment(segment).name] = {{"scaler", t.scaler},
                                                              {"zero_fraction", t.zero_fraction},
                                                              {"clip_fraction", t.clip_fraction},
                                                              {"kept_norm", t.kept_norm},
                                                              {"clip_angle_degrees", t.clip_angle_degrees},
                                                              {"snr_db", t.snr_db},
                                                              {"norm", t.norm},
                                                              {"max_abs", t.max_abs}};
      if (t.residual_norm) tensors[training.net.layout().segment(segment).name]["residual_norm"] = *t.residual_norm;
    }
    writer_.write({{"step", training.steps_done}, {"kind", "tensors"}, {"tensors", tensors}});
  }

  MetricsWriter& writer_;
  std::uint64_t log_steps_;
  std::uint64_t telemetry_steps_;
  Interval interval_;
};

}  // namespace

std::unique_ptr<Hook> make_metrics_hook(MetricsWriter& writer, std::uint64_t log_steps, std::uint64_t telemetry_steps) {
  return std::make_unique<MetricsHook>(writer, log_steps, telemetry_steps);
}

}  // namespace terngrad
