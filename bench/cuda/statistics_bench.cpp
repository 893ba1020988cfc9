#include "kernels/statistics.h"

#include <cmath>
#include <memory>

#include "bench/cuda_harness.h"
#include "bench/cuda_subjects.h"
#include "bench/harness.h"
#include "kernels/copy.h"

namespace terngrad::bench {
namespace {

CudaSubject statistics(std::int64_t n) {
  struct State {
    Layout layout;
    std::vector<Buffer<float>> gradients;
    std::vector<StatisticsPlan> plans;
    Buffer<Statistics> result{1, Device::cuda()};
  };
  const auto state = std::make_shared<State>();
  state->layout.add("gradient", {n});
  CudaSubject subject;
  subject.bytes = 4.0 * static_cast<double>(n);
  subject.elements = static_cast<double>(n);
  subject.num_launches = 2;
  subject.prepare = [=](Stream& stream, int num_sets) {
    state->gradients = gradients_on(stream, n, num_sets);
    state->plans.reserve(state->gradients.size());
    std::vector<std::function<void()>> works;
    for (Buffer<float>& gradient : state->gradients) {
      state->plans.emplace_back(whole_segments(state->layout), Device::cuda());
      StatisticsPlan& plan = state->plans.back();
      const TensorTable table(state->layout, gradient.data());
      works.emplace_back([=, &plan, &stream] { plan.run(table, state->result.span(), stream); });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    Statistics found;
    copy<Statistics>(state->result.span(), {&found, 1}, stream);
    stream.synchronize();
    Stream cpu;
    return found == measure({gradient(n), static_cast<std::size_t>(n)}, cpu);
  };
  return subject;
}

}  // namespace

void register_cuda_statistics() {
  for (const std::int64_t n : cuda_memory_sizes()) {
    register_cuda_subject(cuda_bench_name("statistics", "f32", n), 4.0 * static_cast<double>(n), Residency::kMemory,
                          [n] { return statistics(n); });
  }
  for (const std::int64_t n : cuda_cache_sizes()) {
    register_cuda_subject(cuda_bench_name("statistics", "f32", n), 4.0 * static_cast<double>(n), Residency::kCache,
                          [n] { return statistics(n); });
  }
}

}  // namespace terngrad::bench
