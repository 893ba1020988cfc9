#include "trainers/hooks/histogram_hook.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "trainers/io/histogram_json.h"

namespace terngrad {
namespace {

class HistogramHook final : public Hook {
 public:
  HistogramHook(MetricsWriter& lines, EventFile* events, std::uint64_t histogram_steps,
                std::shared_ptr<const Dataset> dataset)
      : lines_(lines), events_(events), histogram_steps_(histogram_steps), dataset_(std::move(dataset)) {}

  HookVerdict after_step(const TrainingView& training, const StepView& step) override {
    if (histogram_steps_ == 0 || training.steps_done % histogram_steps_ != 0) return HookVerdict::kContinue;
    const Layout& layout = training.net.layout();
    std::vector<NamedHistogram> histograms;
    for (int index = 0; index < layout.num_segments(); ++index) {
      const Segment& segment = layout.segment(index);
      const auto add = [&](const std::string& kind, std::span<const float> values) {
        Histogram histogram = make_histogram(values);
        write_line(training.steps_done, kind, segment.name, histogram);
        histograms.push_back({kind + "/" + segment.name, std::move(histogram)});
      };
      add("parameters", training.parameters.subspan(static_cast<std::size_t>(segment.offset),
                                                    static_cast<std::size_t>(segment.num_elements)));
      if (!step.report.skipped && !training.is_frozen(index)) add_gradients(step, index, add);
    }
    try {
      if (dataset_ != nullptr) add_activations(training, histograms);
    } catch (const DataError&) {
      // An image cannot be read, which evaluations say: training goes on.
      dataset_ = nullptr;
    }
    if (events_ != nullptr) events_->write_histograms(training.steps_done, histograms);
    return HookVerdict::kContinue;
  }
  std::uint64_t next_sync_step(std::uint64_t steps_done) const override {
    return next_multiple(histogram_steps_, steps_done);
  }

 private:
  template <class Add>
  static void add_gradients(const StepView& step, int index, const Add& add) {
    const std::span<const float> gradient = step.gradient(index);
    add("gradient", gradient);
    std::vector<float> sent(gradient.size());
    const float scaler = step.decode_sent(index, sent);
    std::vector<float> clipped(gradient.begin(), gradient.end());
    if (scaler > 0) {
      for (float& value : clipped) value = std::clamp(value, -scaler, scaler);
    }
    add("clipped", clipped);
    add("sent", sent);
    if (step.mean) add("mean", step.mean(index));
  }

  void add_activations(const TrainingView& training, std::vector<NamedHistogram>& histograms) {
    const auto num_examples = static_cast<int>(std::min(dataset_->num_examples(), std::int64_t{kActivationExamples}));
    const auto image_elements = static_cast<std::size_t>(dataset_->image_elements());
    std::vector<float> images(static_cast<std::size_t>(num_examples) * image_elements);
    for (int i = 0; i < num_examples; ++i) {
      dataset_->read(i, {}, std::span(images).subspan(static_cast<std::size_t>(i) * image_elements, image_elements));
    }
    const std::span<const float> state = training.states.empty() ? std::span<const float>() : training.states[0];
    std::vector<NamedScalar> sparsities;
    const auto add = [&](const std::string& layer, std::span<const float> output) {
      Histogram histogram = make_histogram(output);
      const double zeros = static_cast<double>(std::ranges::count(output, 0.0f)) / static_cast<double>(output.size());
      write_line(training.steps_done, "activation", layer, histogram, {{"zero_fraction", zeros}});
      histograms.push_back({"activation/" + layer, std::move(histogram)});
      sparsities.push_back({"sparsity/" + layer, zeros});
    };
    training.net.visit_outputs(training.parameters, state, images, num_examples, add);
    if (events_ != nullptr) events_->write_scalars(training.steps_done, sparsities);
  }

  void write_line(std::uint64_t steps_done, const std::string& kind, const std::string& tensor,
                  const Histogram& histogram, const nlohmann::ordered_json& more = {}) {
    nlohmann::ordered_json line = {{"step", steps_done}, {"kind", kind}, {"tensor", tensor}};
    if (!more.empty()) line.update(more);
    line.update(histogram_json(histogram));
    lines_.write(line);
  }

  MetricsWriter& lines_;
  EventFile* events_;
  std::uint64_t histogram_steps_;
  std::shared_ptr<const Dataset> dataset_;
};

}  // namespace

std::unique_ptr<Hook> make_histogram_hook(MetricsWriter& lines, EventFile* events, std::uint64_t histogram_steps,
                                          std::shared_ptr<const Dataset> dataset) {
  return std::make_unique<HistogramHook>(lines, events, histogram_steps, std::move(dataset));
}

}  // namespace terngrad
