#include "kernels/statistics/statistics.h"

#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "bench/harness.h"
#include "bench/subjects.h"
#include "bench/typed_gradient.h"
#include "kernels/statistics/side_scalers.h"
#include "kernels/statistics/signed_statistics.h"

namespace terngrad::bench {
namespace {

constexpr double kClipFactor = 2.5;

Subject statistics(std::int64_t n, ElementType type) {
  struct State {
    Layout layout;
    std::unique_ptr<StatisticsPlan> plan;
    Statistics result;
  };
  const auto state = std::make_shared<State>();
  state->layout.add("gradient", {n});
  state->plan = std::make_unique<StatisticsPlan>(whole_segments(state->layout));
  Subject subject;
  subject.bytes = static_cast<double>(element_bytes(type)) * static_cast<double>(n);
  subject.elements = static_cast<double>(n);
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    const TensorTable table(state->layout, type, const_cast<void*>(typed_gradient(type, n).elements));
    return [=, &stream] { state->plan->run(table, {&state->result, 1}, stream); };
  };
  subject.check = [=] {
    const float* values = typed_gradient(type, n).values;
    double squares = 0;
    float max = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const float g = values[i];
      squares += static_cast<double>(g) * static_cast<double>(g);
      max = std::fmax(max, std::fabs(g));
    }
    return std::fabs(state->result.sum_squares - squares) <= 1e-9 * squares && state->result.max_abs() == max;
  };
  return subject;
}

/// Of a tensor as one group.
Subject signed_statistics(std::int64_t n, ElementType type) {
  struct State {
    Layout layout;
    std::unique_ptr<SignedStatisticsPlan> plan;
    SignedStatistics result;
  };
  const auto state = std::make_shared<State>();
  state->layout.add("gradient", {n});
  state->plan = std::make_unique<SignedStatisticsPlan>(std::vector<SignedRun>{{{0, 0, n}, 0}});
  Subject subject;
  subject.bytes = static_cast<double>(element_bytes(type)) * static_cast<double>(n);
  subject.elements = static_cast<double>(n);
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    const TensorTable table(state->layout, type, const_cast<void*>(typed_gradient(type, n).elements));
    return [=, &stream] { state->plan->run(table, {&state->result, 1}, stream); };
  };
  subject.check = [=] {
    const float* values = typed_gradient(type, n).values;
    double negative = 0;
    double positive = 0;
    std::uint64_t num_negative = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const auto g = static_cast<double>(values[i]);
      (std::signbit(g) ? negative : positive) += std::fabs(g);
      num_negative += std::signbit(g) ? 1u : 0u;
    }
    const SignedStatistics& found = state->result;
    return std::fabs(found.sum_negative - negative) <= 1e-9 * negative &&
           std::fabs(found.sum_positive - positive) <= 1e-9 * positive && found.num_negative == num_negative;
  };
  return subject;
}

/// Of a tensor, with clipping: a pass for sigma, and one for the largest magnitude of each side.
Subject side_scalers(std::int64_t n, ElementType type) {
  struct State {
    Layout layout;
    std::unique_ptr<SideScalerPlan> plan;
    std::array<float, 2> result;  // s+, s-
  };
  const auto state = std::make_shared<State>();
  state->layout.add("gradient", {n});
  state->plan = std::make_unique<SideScalerPlan>(whole_segments(state->layout));
  Subject subject;
  subject.bytes = 2 * static_cast<double>(element_bytes(type)) * static_cast<double>(n);
  subject.elements = static_cast<double>(n);
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    const TensorTable table(state->layout, type, const_cast<void*>(typed_gradient(type, n).elements));
    return [=, &stream] { state->plan->run({&table, 1}, kClipFactor, ScalerRule::kPaper, state->result, stream); };
  };
  subject.check = [=] {
    const float* values = typed_gradient(type, n).values;
    double sum = 0;
    double squares = 0;
    std::array<float, 2> max = {0, 0};
    for (std::int64_t i = 0; i < n; ++i) {
      const auto g = static_cast<double>(values[i]);
      sum += g;
      squares += g * g;
      float& side = max[std::signbit(values[i]) ? 1 : 0];
      side = std::fmax(side, std::fabs(values[i]));
    }
    const double mean = sum / static_cast<double>(n);
    const double sigma = std::sqrt(squares / static_cast<double>(n) - mean * mean);
    const auto is_right = [&](float found, float largest) {
      const double expected = std::fmin(static_cast<double>(largest), kClipFactor * sigma);
      return std::fabs(static_cast<double>(found) - expected) <= 1e-6 * expected;
    };
    return is_right(state->result[0], max[0]) && is_right(state->result[1], max[1]);
  };
  return subject;
}

}  // namespace

void register_statistics() {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    for (const std::int64_t n : sizes()) {
      for (const int threads : thread_counts()) {
        register_subject(bench_name("statistics", bench_type(type), n, threads), n, threads,
                         [=] { return statistics(n, type); });
        register_subject(bench_name("signed_statistics", bench_type(type), n, threads), n, threads,
                         [=] { return signed_statistics(n, type); });
        register_subject(bench_name("side_scalers", bench_type(type), n, threads), n, threads,
                         [=] { return side_scalers(n, type); });
      }
    }
  }
}

}  // namespace terngrad::bench
