#include "compress/exchange/device/device_nonfinite.h"

#include <array>
#include <span>

#include "compress/exchange/nonfinite.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

DeviceNonfinite::DeviceNonfinite(const Layout& layout, int num_workers, OnNonfinite policy, const Stream& stream)
    : layout_(layout),
      num_workers_(num_workers),
      policy_(policy),
      reports_(2, stream.device()),
      skip_(1, stream.device()),
      stop_latched_(1, stream.device()) {
  Stream own = stream;
  forget(own);
}

void DeviceNonfinite::forget(Stream& stream) {
  fill_zero(reports_.span(), stream);
  fill_zero(skip_.span(), stream);
  fill_zero(stop_latched_.span(), stream);
}

void DeviceNonfinite::begin_step(Stream& stream) {
  // kStop keeps flag and report in all later steps, none of which is applied, since the host may check only after some
  // of them. Other policies reset them before each step.
  if (policy_ == OnNonfinite::kStop) {
    copy<std::uint32_t>(skip_.span(), stop_latched_.span(), stream);
  } else {
    fill_zero(reports_.span(), stream);
  }
  if (policy_ == OnNonfinite::kSkip) fill_zero(skip_.span(), stream);
}

std::string DeviceNonfinite::text(const NonfiniteReport& gradients, const NonfiniteReport& means) const {
  const auto more = [](std::uint64_t count) {
    return count > 1 ? " (and " + std::to_string(count - 1) + " more)" : std::string();
  };
  std::string text;
  if (gradients.count > 0) {
    const auto n = static_cast<std::uint64_t>(num_workers_);
    const Segment& segment = layout_.segment(static_cast<int>(gradients.first() / n));
    text = "tensor '" + segment.name + "' of worker " + std::to_string(gradients.first() % n) + kNonfiniteWords +
           more(gradients.count);
    if (policy_ != OnNonfinite::kZero) return text;  // the mean of such gradients adds no information
  }
  if (means.count > 0) {
    text +=
        (text.empty() ? "" : "; ") +
        ("the mean of tensor '" + layout_.segment(static_cast<int>(means.first())).name + "' overflows to infinity") +
        more(means.count);
  }
  return text;
}

void DeviceNonfinite::apply_policy(std::uint64_t step, ExchangeReport& report, Stream& stream) const {
  std::array<NonfiniteReport, 2> reports;
  copy<NonfiniteReport>(reports_.span(), std::span<NonfiniteReport>(reports), stream);
  stream.synchronize();
  const std::string found = text(reports[0], reports[1]);
  if (found.empty()) return;
  report.nonfinite = "step " + std::to_string(step) + ": " + found;
  if (policy_ == OnNonfinite::kStop) throw NonFiniteError(report.nonfinite);
  report.skipped = policy_ == OnNonfinite::kSkip;
}

}  // namespace terngrad
