// Statistics and scalers of gradients on a GPU.
#include "kernels/statistics/statistics.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/cuda_harness.h"
#include "bench/cuda_subjects.h"
#include "bench/harness.h"
#include "bench/typed_gradient.h"
#include "kernels/runtime/copy.h"
#include "kernels/statistics/side_scalers.h"
#include "kernels/statistics/signed_statistics.h"

namespace terngrad::bench {
namespace {

/// What a plan of either device makes of a tensor as one slice.
template <class Plan, class Result>
struct Measurement {
  std::string name;
  int num_passes;             // over the elements
  int num_launches;           // of kernels that have work
  int num_long_launches = 0;  // as many more for tensors of more than 32 chunks
  std::size_t num_results;
  std::function<Plan(std::int64_t n, const Device& device)> plan;
  std::function<void(Plan& plan, const TensorTable& tensor, std::span<Result> out, Stream& stream)> run;

  double bytes(std::int64_t n, ElementType type) const {
    return static_cast<double>(num_passes) * static_cast<double>(element_bytes(type)) * static_cast<double>(n);
  }
};

template <class Plan, class Result>
CudaSubject subject_of(const Measurement<Plan, Result>& measurement, std::int64_t n, ElementType type) {
  struct State {
    Measurement<Plan, Result> measurement;
    Layout layout;
    std::vector<Buffer<std::uint8_t>> gradients;
    std::vector<Plan> plans;
    Buffer<Result> results;
  };
  const auto state = std::make_shared<State>();
  state->measurement = measurement;
  state->layout.add("gradient", {n});
  CudaSubject subject;
  subject.bytes = measurement.bytes(n, type);
  subject.elements = static_cast<double>(n);
  subject.num_launches = measurement.num_launches + (n > 32 * kChunkElements ? measurement.num_long_launches : 0);
  subject.prepare = [=](Stream& stream, int num_sets) {
    state->gradients = typed_gradients_on(stream, type, n, num_sets);
    state->results = Buffer<Result>(static_cast<std::int64_t>(state->measurement.num_results), Device::cuda());
    state->plans.reserve(state->gradients.size());
    std::vector<std::function<void()>> works;
    for (Buffer<std::uint8_t>& gradient : state->gradients) {
      state->plans.push_back(state->measurement.plan(n, Device::cuda()));
      Plan& plan = state->plans.back();
      const TensorTable table(state->layout, type, gradient.data());
      works.emplace_back([=, &plan, &stream] { state->measurement.run(plan, table, state->results.span(), stream); });
    }
    return works;
  };
  // Equal bits on every backend: the CPU's tests say that they are right.
  subject.check = [=](Stream& stream) {
    std::vector<Result> found(state->measurement.num_results);
    copy<Result>(state->results.span(), found, stream);
    stream.synchronize();
    Stream cpu;
    Plan plan = state->measurement.plan(n, Device::cpu());
    const TensorTable table(state->layout, type, const_cast<void*>(typed_gradient(type, n).elements));
    std::vector<Result> expected(found.size());
    state->measurement.run(plan, table, expected, cpu);
    return std::ranges::equal(found, expected);
  };
  return subject;
}

template <class Plan, class Result>
void register_measurement(const Measurement<Plan, Result>& measurement) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    for (const auto& [sizes, residency] :
         {std::pair(cuda_memory_sizes(), Residency::kMemory), std::pair(cuda_cache_sizes(), Residency::kCache)}) {
      for (const std::int64_t n : sizes) {
        const double set_bytes = static_cast<double>(element_bytes(type)) * static_cast<double>(n);
        register_cuda_subject(cuda_bench_name(measurement.name, bench_type(type), n), set_bytes, residency,
                              [=] { return subject_of(measurement, n, type); });
      }
    }
  }
}

}  // namespace

void register_cuda_statistics() {
  const auto whole = [](std::int64_t n) { return std::vector<Slice>{{0, 0, n}}; };
  register_measurement(Measurement<StatisticsPlan, Statistics>{
      .name = "statistics",
      .num_passes = 1,
      .num_launches = 2,
      .num_long_launches = 1,
      .num_results = 1,
      .plan = [=](std::int64_t n, const Device& device) { return StatisticsPlan(whole(n), device); },
      .run = [](auto& plan, const auto& tensor, auto out, auto& stream) { plan.run(tensor, out, stream); }});
  register_measurement(Measurement<SignedStatisticsPlan, SignedStatistics>{
      .name = "signed_statistics",
      .num_passes = 1,
      .num_launches = 2,
      .num_results = 1,
      .plan =
          [](std::int64_t n, const Device& device) {
            return SignedStatisticsPlan(std::vector<SignedRun>{{{0, 0, n}, 0}}, device);
          },
      .run = [](auto& plan, const auto& tensor, auto out, auto& stream) { plan.run(tensor, out, stream); }});
  register_measurement(Measurement<SideScalerPlan, float>{
      .name = "side_scalers",
      .num_passes = 2,
      .num_launches = 4,
      .num_long_launches = 1,
      .num_results = 2,
      .plan = [=](std::int64_t n, const Device& device) { return SideScalerPlan(whole(n), device); },
      .run =
          [](auto& plan, const auto& tensor, auto out, auto& stream) {
            plan.run({&tensor, 1}, 2.5, ScalerRule::kPaper, out, stream);
          }});
}

}  // namespace terngrad::bench
