#include "compress/exchange/nonfinite.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

std::string and_more(std::uint64_t count) {
  return count > 1 ? " (and " + std::to_string(count - 1) + " more)" : std::string();
}

void add(const NonfiniteReport& part, NonfiniteReport& sum) {
  sum.count += part.count;
  sum.inverted_first = std::max(sum.inverted_first, part.inverted_first);
}

NonfiniteReport one(int number) { return {.inverted_first = ~static_cast<std::uint64_t>(number), .count = 1}; }

}  // namespace

NonfiniteTensors& NonfiniteTensors::operator+=(const NonfiniteTensors& part) {
  add(part.gradients, gradients);
  add(part.means, means);
  return *this;
}

void NonfiniteTensors::add_gradient(int tensor, int worker, int num_workers) {
  add(one(tensor * num_workers + worker), gradients);
}

void NonfiniteTensors::add_mean(int tensor) { add(one(tensor), means); }

void NonfiniteTensors::apply_policy(OnNonfinite policy, const Layout& layout, int num_workers, std::uint64_t step,
                                    ExchangeReport& report, const char* sender) const {
  if (empty()) return;
  std::string text;
  if (gradients.count > 0) {
    const auto n = static_cast<std::uint64_t>(num_workers);
    text = "tensor '" + layout.segment(static_cast<int>(gradients.first() / n)).name + "' of " + sender + " " +
           std::to_string(gradients.first() % n) + kNonfiniteWords + and_more(gradients.count);
  }
  // The mean of gradients that drop the step adds no information.
  if (means.count > 0 && (text.empty() || policy == OnNonfinite::kZero)) {
    text += (text.empty() ? "" : "; ") +
            ("the mean of tensor '" + layout.segment(static_cast<int>(means.first())).name +
             "' is NaN or overflows to infinity") +
            and_more(means.count);
  }
  report.nonfinite = "step " + std::to_string(step) + ": " + text;
  if (policy == OnNonfinite::kStop) throw NonFiniteError(report.nonfinite);
  report.skipped = policy == OnNonfinite::kSkip;
}

NonfiniteFlags::NonfiniteFlags(OnNonfinite policy, const Stream& stream)
    : policy_(policy), reports_(2, stream.device()), skip_(1, stream.device()), stop_latched_(1, stream.device()) {
  Stream own = stream;
  forget(own);
}

void NonfiniteFlags::forget(Stream& stream) {
  fill_zero(reports_.span(), stream);
  fill_zero(skip_.span(), stream);
  fill_zero(stop_latched_.span(), stream);
}

void NonfiniteFlags::begin_step(Stream& stream) {
  // On the CPU the host has applied the policy to the step before.
  const bool keeps = policy_ == OnNonfinite::kStop && stream.device().is_cuda();
  if (keeps) {
    copy<std::uint32_t>(skip_.span(), stop_latched_.span(), stream);
    return;
  }
  fill_zero(reports_.span(), stream);
  if (policy_ != OnNonfinite::kZero) fill_zero(skip_.span(), stream);
}

bool NonfiniteFlags::is_dropped(Stream& stream) const {
  std::array<std::uint32_t, 1> skip = {0};
  copy<std::uint32_t>(skip_.span(), std::span(skip), stream);
  stream.synchronize();
  return skip[0] != 0;
}

void NonfiniteFlags::share(const std::function<void(std::span<std::uint8_t>)>& send) {
  send({reinterpret_cast<std::uint8_t*>(reports_.data()), reports_.span().size_bytes()});
  send({reinterpret_cast<std::uint8_t*>(skip_.data()), skip_.span().size_bytes()});
}

void NonfiniteFlags::add_mean_on_cpu(std::uint32_t tensor) {
  add(one(static_cast<int>(tensor)), *means());
  if (skip_flag() != nullptr) *skip_flag() = 1;
}

NonfiniteTensors NonfiniteFlags::take_on_cpu() {
  return {std::exchange(*gradients(), {}), std::exchange(*means(), {})};
}

void NonfiniteFlags::add_on_cpu(const NonfiniteTensors& part) {
  add(part.gradients, *gradients());
  add(part.means, *means());
}

NonfiniteTensors NonfiniteFlags::found(Stream& stream) const {
  std::array<NonfiniteReport, 2> reports;
  copy<NonfiniteReport>(reports_.span(), std::span<NonfiniteReport>(reports), stream);
  stream.synchronize();
  return {reports[0], reports[1]};
}

}  // namespace terngrad
