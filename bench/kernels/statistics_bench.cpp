// Statistics and scalers of a gradient as one slice.
#include "kernels/statistics/statistics.h"

#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "bench/device_memory.h"
#include "bench/gradients.h"
#include "bench/rows.h"
#include "kernels/statistics/side_scalers.h"
#include "kernels/statistics/signed_statistics.h"

namespace terngrad::bench {
namespace {

constexpr double kClipFactor = 2.5;

template <class Plan, class Result>
struct Measurement {
  const char* name = nullptr;
  int num_passes = 1;         // over the elements
  int num_launches = 2;       // kernels that have work
  int num_long_launches = 0;  // further ones for tensors of more than 32 chunks
  std::int64_t num_results = 1;
  Plan (*plan)(std::int64_t n, const Device& device) = nullptr;
  void (*run)(Plan& plan, const TensorTable& tensor, std::span<Result> out, Stream& stream) = nullptr;
  bool (*is_right)(std::span<const Result> found, std::span<const float> values) = nullptr;
};

/// Results must be right, and bit-identical to a run on the CPU with all threads.
template <class Plan, class Result>
Subject subject_of(const Measurement<Plan, Result>& measurement, std::int64_t n, ElementType type) {
  const auto table = [=](const std::uint8_t* elements) {
    Layout layout;
    layout.add("gradient", {n});
    return TensorTable(layout, type, const_cast<std::uint8_t*>(elements));
  };
  const auto prepare = [=](Stream& stream) {
    struct Set {
      Input<std::uint8_t> gradient;
      Plan plan;
      Buffer<Result> results;
    };
    const auto set = std::make_shared<Set>(Set{{typed_gradient(type, n).elements, stream},
                                               measurement.plan(n, stream.device()),
                                               Buffer<Result>(measurement.num_results, stream.device())});
    const auto check = [=, &stream] {
      const std::vector<Result> found = on_host(set->results.span(), stream);
      std::vector<Result> expected(found.size());
      const TypedGradient gradient = typed_gradient(type, n);
      Stream cpu;
      Plan plan = measurement.plan(n, cpu.device());
      measurement.run(plan, table(gradient.elements.data()), expected, cpu);
      return found == expected && measurement.is_right(found, gradient.values);
    };
    const auto run = [=, &stream, tensor = table(set->gradient.data())] {
      measurement.run(set->plan, tensor, set->results.span(), stream);
    };
    return Work{run, check};
  };
  const auto elements = static_cast<double>(n);
  const double gradient_bytes = static_cast<double>(element_bytes(type)) * elements;
  return {.bytes = measurement.num_passes * gradient_bytes,
          .elements = elements,
          .set_bytes = gradient_bytes,
          .num_launches = measurement.num_launches + (n > 32 * kChunkElements ? measurement.num_long_launches : 0),
          .prepare = prepare};
}

template <class Plan, class Result>
void add(Rows& rows, const Measurement<Plan, Result>& measurement) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    rows.add(measurement.name, bench_type(type), [=](std::int64_t n) { return subject_of(measurement, n, type); });
  }
}

bool is_near(double found, double expected, double tolerance) {
  return std::fabs(found - expected) <= tolerance * expected;
}

bool statistics_are_right(std::span<const Statistics> found, std::span<const float> values) {
  double squares = 0;
  float max = 0;
  for (const float g : values) {
    squares += static_cast<double>(g) * static_cast<double>(g);
    max = std::fmax(max, std::fabs(g));
  }
  return is_near(found[0].sum_squares, squares, 1e-9) && found[0].max_abs() == max;
}

bool signed_statistics_are_right(std::span<const SignedStatistics> found, std::span<const float> values) {
  double negative = 0;
  double positive = 0;
  std::uint64_t num_negative = 0;
  for (const float value : values) {
    const auto g = static_cast<double>(value);
    (std::signbit(g) ? negative : positive) += std::fabs(g);
    num_negative += std::signbit(g) ? 1u : 0u;
  }
  return is_near(found[0].sum_negative, negative, 1e-9) && is_near(found[0].sum_positive, positive, 1e-9) &&
         found[0].num_negative == num_negative;
}

/// @param found  s+, s-
bool side_scalers_are_right(std::span<const float> found, std::span<const float> values) {
  double sum = 0;
  double squares = 0;
  std::array<float, 2> max = {0, 0};
  for (const float value : values) {
    const auto g = static_cast<double>(value);
    sum += g;
    squares += g * g;
    float& side = max[std::signbit(value) ? 1 : 0];
    side = std::fmax(side, std::fabs(value));
  }
  const auto n = static_cast<double>(values.size());
  const double sigma = std::sqrt(squares / n - (sum / n) * (sum / n));
  const auto is_right = [&](std::size_t side) {
    const double expected = std::fmin(static_cast<double>(max[side]), kClipFactor * sigma);
    return is_near(static_cast<double>(found[side]), expected, 1e-6);
  };
  return is_right(0) && is_right(1);
}

const Registration registration(__FILE__, [](Rows& rows) {
  const auto run = [](auto& plan, const auto& tensor, auto out, auto& stream) { plan.run(tensor, out, stream); };
  Measurement<StatisticsPlan, Statistics> statistics{
      .name = "statistics", .num_long_launches = 1, .run = run, .is_right = statistics_are_right};
  statistics.plan = [](std::int64_t n, const Device& device) { return StatisticsPlan({{0, 0, n}}, device); };
  add(rows, statistics);
  Measurement<SignedStatisticsPlan, SignedStatistics> sides{
      .name = "signed_statistics", .run = run, .is_right = signed_statistics_are_right};
  sides.plan = [](std::int64_t n, const Device& device) { return SignedStatisticsPlan({{{0, 0, n}, 0}}, device); };
  add(rows, sides);
  // With clipping: a pass for sigma, and one for the largest magnitude of each side.
  Measurement<SideScalerPlan, float> scalers{.name = "side_scalers",
                                             .num_passes = 2,
                                             .num_launches = 4,
                                             .num_long_launches = 1,
                                             .num_results = 2,
                                             .is_right = side_scalers_are_right};
  scalers.plan = [](std::int64_t n, const Device& device) { return SideScalerPlan({{0, 0, n}}, device); };
  scalers.run = [](auto& plan, const auto& tensor, auto out, auto& stream) {
    plan.run({&tensor, 1}, kClipFactor, ScalerRule::kPaper, out, stream);
  };
  add(rows, scalers);
});

}  // namespace
}  // namespace terngrad::bench
