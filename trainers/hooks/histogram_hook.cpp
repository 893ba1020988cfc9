#include "trainers/hooks/histogram_hook.h"

#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace terngrad {
namespace {

using Json = nlohmann::ordered_json;

std::string tag_of(const std::string& section, const std::string& name) {
  std::string tag = section;
  tag += '/';
  tag += name;
  return tag;
}

void add_numbers(const std::string& tag, const Json& value, std::vector<NamedScalar>& scalars) {
  if (value.is_number()) scalars.push_back({tag, value.get<double>()});
  if (!value.is_object()) return;
  for (const auto& [key, member] : value.items()) add_numbers(tag_of(tag, key), member, scalars);
}

class HistogramHook final : public Hook {
 public:
  HistogramHook(EventFile& events, std::uint64_t histogram_steps)
      : events_(events), histogram_steps_(histogram_steps) {}

  HookVerdict after_step(const TrainingView& training, const StepView& step) override {
    if (histogram_steps_ == 0 || training.steps_done % histogram_steps_ != 0) return HookVerdict::kContinue;
    std::vector<NamedHistogram> histograms;
    for (int index = 0; index < training.net.layout().num_segments(); ++index) {
      const Segment& segment = training.net.layout().segment(index);
      const auto count = static_cast<std::size_t>(segment.num_elements);
      histograms.push_back({"parameters/" + segment.name, make_histogram(training.parameters.subspan(
                                                              static_cast<std::size_t>(segment.offset), count))});
      if (step.report.skipped) continue;
      histograms.push_back({"gradient/" + segment.name, make_histogram(step.gradient(index))});
      std::vector<float> sent(count);
      step.decode_sent(index, sent);
      histograms.push_back({"sent/" + segment.name, make_histogram(sent)});
    }
    events_.write_histograms(training.steps_done, histograms);
    return HookVerdict::kContinue;
  }
  std::uint64_t next_look(std::uint64_t steps_done) const override {
    return next_multiple(histogram_steps_, steps_done);
  }

 private:
  EventFile& events_;
  std::uint64_t histogram_steps_;
};

}  // namespace

std::vector<NamedScalar> scalars_of(const Json& record) {
  std::vector<NamedScalar> scalars;
  const auto kind = record.at("kind").get<std::string>();
  if (kind == "tensors") {
    for (const auto& [tensor, quantities] : record.at("tensors").items()) {
      for (const auto& [quantity, value] : quantities.items()) add_numbers(tag_of(quantity, tensor), value, scalars);
    }
    return scalars;
  }
  for (const auto& [key, value] : record.items()) {
    // One scalar for each staleness would be no end of them; their mean is there.
    if (key != "step" && key != "staleness") add_numbers(tag_of(kind, key), value, scalars);
  }
  return scalars;
}

void follow_metrics(MetricsWriter& metrics, EventFile& events) {
  metrics.set_follower([&events](const Json& record) {
    events.write_scalars(record.at("step").get<std::uint64_t>(), scalars_of(record));
  });
}

std::unique_ptr<Hook> make_histogram_hook(EventFile& events, std::uint64_t histogram_steps) {
  return std::make_unique<HistogramHook>(events, histogram_steps);
}

}  // namespace terngrad
