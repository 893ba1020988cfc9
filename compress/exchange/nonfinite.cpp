#include "compress/exchange/nonfinite.h"

#include <tuple>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

std::string and_more(int count) { return count > 1 ? " (and " + std::to_string(count - 1) + " more)" : ""; }

}  // namespace

void NonfiniteTensors::add(const Kind& found, Kind& sum) {
  if (found.count == 0) return;
  const int count = sum.count + found.count;
  if (sum.count == 0 || std::tie(found.place, found.worker) < std::tie(sum.place, sum.worker)) sum = found;
  sum.count = count;
}

void NonfiniteTensors::add_gradient(const Segment& tensor, int worker) {
  add({.count = 1, .place = tensor.draw_offset, .tensor = tensor.name, .worker = worker}, gradients_);
}

void NonfiniteTensors::add_gradients(const NonfiniteReport& report, const Layout& layout, int num_workers) {
  if (report.count == 0) return;
  const auto n = static_cast<std::uint64_t>(num_workers);
  const Segment& tensor = layout.segment(static_cast<int>(report.first() / n));
  add({.count = static_cast<int>(report.count),
       .place = tensor.draw_offset,
       .tensor = tensor.name,
       .worker = static_cast<int>(report.first() % n)},
      gradients_);
}

void NonfiniteTensors::add_mean(const Segment& tensor) {
  add({.count = 1, .place = tensor.draw_offset, .tensor = tensor.name, .worker = 0}, means_);
}

void NonfiniteTensors::add(const NonfiniteTensors& part) {
  add(part.gradients_, gradients_);
  add(part.means_, means_);
}

void NonfiniteTensors::apply_policy(OnNonfinite policy, std::uint64_t step, ExchangeReport& report) const {
  if (empty()) return;
  std::string text;
  if (has_gradients()) {
    text = "tensor '" + gradients_.tensor + "' of worker " + std::to_string(gradients_.worker) + kNonfiniteWords +
           and_more(gradients_.count);
  }
  // The mean of gradients that drop the step adds no information.
  if (has_means() && (text.empty() || policy == OnNonfinite::kZero)) {
    text += (text.empty() ? "" : "; ") + ("the mean of tensor '" + means_.tensor + "' overflows to infinity") +
            and_more(means_.count);
  }
  report.nonfinite = "step " + std::to_string(step) + ": " + text;
  if (policy == OnNonfinite::kStop) throw NonFiniteError(report.nonfinite);
  report.skipped = policy == OnNonfinite::kSkip;
}

}  // namespace terngrad
