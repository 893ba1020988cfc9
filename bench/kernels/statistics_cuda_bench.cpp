#include "kernels/statistics/statistics.h"

#include <cmath>
#include <memory>
#include <utility>

#include "bench/cuda_harness.h"
#include "bench/cuda_subjects.h"
#include "bench/harness.h"
#include "bench/typed_gradient.h"
#include "kernels/runtime/copy.h"

namespace terngrad::bench {
namespace {

CudaSubject statistics(std::int64_t n, ElementType type) {
  struct State {
    Layout layout;
    std::vector<Buffer<std::uint8_t>> gradients;
    std::vector<StatisticsPlan> plans;
    Buffer<Statistics> result{1, Device::cuda()};
  };
  const auto state = std::make_shared<State>();
  state->layout.add("gradient", {n});
  CudaSubject subject;
  subject.bytes = static_cast<double>(element_bytes(type)) * static_cast<double>(n);
  subject.elements = static_cast<double>(n);
  subject.num_launches = 2;
  subject.prepare = [=](Stream& stream, int num_sets) {
    state->gradients = typed_gradients_on(stream, type, n, num_sets);
    state->plans.reserve(state->gradients.size());
    std::vector<std::function<void()>> works;
    for (Buffer<std::uint8_t>& gradient : state->gradients) {
      state->plans.emplace_back(whole_segments(state->layout), Device::cuda());
      StatisticsPlan& plan = state->plans.back();
      const TensorTable table(state->layout, type, gradient.data());
      works.emplace_back([=, &plan, &stream] { plan.run(table, state->result.span(), stream); });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    Statistics found;
    copy<Statistics>(state->result.span(), {&found, 1}, stream);
    stream.synchronize();
    Stream cpu;
    return found == measure({typed_gradient(type, n).values, static_cast<std::size_t>(n)}, cpu);
  };
  return subject;
}

}  // namespace

void register_cuda_statistics() {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    for (const auto& [sizes, residency] :
         {std::pair(cuda_memory_sizes(), Residency::kMemory), std::pair(cuda_cache_sizes(), Residency::kCache)}) {
      for (const std::int64_t n : sizes) {
        const double set_bytes = static_cast<double>(element_bytes(type)) * static_cast<double>(n);
        register_cuda_subject(cuda_bench_name("statistics", bench_type(type), n), set_bytes, residency,
                              [=] { return statistics(n, type); });
      }
    }
  }
}

}  // namespace terngrad::bench
