#include "trainers/hooks/histogram_hook.h"

#include <span>
#include <string>
#include <vector>

namespace terngrad {
namespace {

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
  std::uint64_t next_sync_step(std::uint64_t steps_done) const override {
    return next_multiple(histogram_steps_, steps_done);
  }

 private:
  EventFile& events_;
  std::uint64_t histogram_steps_;
};

}  // namespace

std::unique_ptr<Hook> make_histogram_hook(EventFile& events, std::uint64_t histogram_steps) {
  return std::make_unique<HistogramHook>(events, histogram_steps);
}

}  // namespace terngrad
