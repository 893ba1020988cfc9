#include "kernels/statistics/statistics.h"

#include <cmath>
#include <memory>

#include "bench/harness.h"
#include "bench/subjects.h"
#include "bench/typed_gradient.h"

namespace terngrad::bench {
namespace {

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

}  // namespace

void register_statistics() {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    for (const std::int64_t n : sizes()) {
      for (const int threads : thread_counts()) {
        register_subject(bench_name("statistics", bench_type(type), n, threads), n, threads,
                         [=] { return statistics(n, type); });
      }
    }
  }
}

}  // namespace terngrad::bench
