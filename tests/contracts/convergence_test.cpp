// Gradient descent with compressed gradients on quadratics with a known optimum:
//
//   f_k(x) = sum over i of h_ki (x_i - a_ki)^2 / 2,  h log-uniform in [0.1, 1], n = 1024,  for N = 4 workers k,
//
// with the update x -= rate * (mean of the decoded gradients). If all a_k are equal, every worker's gradient is 0 at
// the optimum, so noise that is relative to the gradient vanishes there. If they differ, the noise stays. Bounds are 10
// times the distances of a float64 simulation, and at least 1e-6 for float32 rounding.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "support/gradients.h"

namespace terngrad::convergence_test {
namespace {

constexpr std::size_t kElements = 1024;
constexpr std::size_t kWorkers = 4;

/// A codec with its learning rate and steps. Final distances to the optimum, relative to the initial ones, are
/// simulated.
struct Row {
  const char* spec;
  double rate;
  int steps;
  double equal;   // all a_k equal
  double differ;  // a_k differ between workers
  const char* memory = "none";
};

constexpr Row kRows[] = {
    {"fp32", 1, 200, 0, 0},
    {"qsgd:bits=4", 1, 200, 0, 0.064},
    {"qsgd:bits=4,rotate=1024", 1, 200, 0, 0.064},
    {"thc", 1, 200, 0, 0.06, "ef"},
    {"natural", 1, 200, 0, 0.062},
    {"fp8", 1, 200, 0, 0.016},
    {"ternary", 0.2, 1000, 0, 0.16},
    {"ternary:clip_factor=2.5", 0.5, 500, 1e-4, 0.15},
    {"ternary:rounding=nearest,clip_factor=1.22", 0.5, 500, 1e-6, 0.14, "ef"},
    {"sign", 0.3, 500, 2e-3, 0.14, "ef"},
    {"onebit", 0.3, 500, 8e-4, 0.14, "ef"},
    {"eden:scale=least", 0.5, 500, 1e-6, 0.14, "ef"},
    {"topk", 0.02, 6000, 5e-9, 0.07, "ef"},
    {"topk:density=0.1", 0.2, 1000, 0, 0.07, "ef"},
    {"randomk:density=0.1", 0.05, 3000, 0, 0, "ef"},
    // The difference to an estimate vanishes at the optimum even if the gradients of the workers do not.
    {"topk:density=0.1", 0.2, 1000, 0, 0, "ef21"},
    {"eden", 0.5, 500, 0, 0, "ef21"},
    {"ternary:clip_factor=1.5", 0.2, 1000, 0, 0, "ef21"},
};

struct Problem {
  std::vector<std::vector<double>> h, a;  // [workers][elements]

  explicit Problem(bool equal) {
    std::mt19937_64 random(11);
    const std::vector<float> common = testing::gaussian(kElements, 12);
    for (std::size_t k = 0; k < kWorkers; ++k) {
      h.emplace_back(kElements);
      for (double& value : h.back()) value = std::pow(10.0, testing::uniform(random) - 1);
      const std::vector<float> own = equal ? common : testing::gaussian(kElements, 20 + k);
      a.emplace_back(own.begin(), own.end());
    }
  }

  double gradient(std::size_t k, std::size_t i, double x) const { return h[k][i] * (x - a[k][i]); }
  double optimum(std::size_t i) const {
    double product = 0;
    double sum = 0;
    for (std::size_t k = 0; k < kWorkers; ++k) {
      product += h[k][i] * a[k][i];
      sum += h[k][i];
    }
    return product / sum;
  }
  double distance(const std::vector<double>& x) const {
    double square = 0;
    for (std::size_t i = 0; i < kElements; ++i) square += (x[i] - optimum(i)) * (x[i] - optimum(i));
    return std::sqrt(square);
  }
};

CompressedAllReduce make_exchange(const Layout& layout, const char* codec, const char* memory, int num_workers) {
  CompressedAllReduceOptions options;
  options.codecs.codec = codec;
  return {layout, make_worker_group(num_workers, make_self_communicator()), options, parse_memory(memory)};
}

/// Distance to the optimum after descent, relative to the distance at the start x = 0.
double descend(const Row& row, const Problem& problem) {
  Layout layout;
  layout.add("x", {kElements});
  CompressedAllReduce exchange = make_exchange(layout, row.spec, row.memory, kWorkers);
  std::vector<std::vector<float>> gradients(kWorkers, std::vector<float>(kElements));
  std::vector<TensorTable> tables;
  for (std::vector<float>& gradient : gradients) tables.emplace_back(layout, gradient.data());
  std::vector<float> mean(kElements);
  std::vector<double> x(kElements);
  const double first = problem.distance(x);
  for (int step = 0; step < row.steps; ++step) {
    for (std::size_t k = 0; k < kWorkers; ++k) {
      for (std::size_t i = 0; i < kElements; ++i) {
        gradients[k][i] = static_cast<float>(problem.gradient(k, i, x[i]));
      }
    }
    exchange.exchange(tables, TensorTable(layout, mean.data()), static_cast<std::uint64_t>(step));
    for (std::size_t i = 0; i < kElements; ++i) x[i] -= row.rate * static_cast<double>(mean[i]);
  }
  return problem.distance(x) / first;
}

double bound(double simulated) { return std::max(10 * simulated, 1e-6); }

/// x1 + x2| after descent along the gradient of eps |x1 + x2| + |x1 - x2| with a decaying rate, compressed by `codec`
/// (Karimireddy et al., ICML 2019, counterexample 2): with signs alone x1 + x2 never changes.
double sum_after_descent(const char* codec, const char* memory) {
  constexpr double kEps = 0.5;
  Layout layout;
  layout.add("x", {2});
  CompressedAllReduce exchange = make_exchange(layout, codec, memory, 1);
  double x1 = 1;
  double x2 = 1;
  for (std::uint64_t step = 0; step < 2000; ++step) {
    const double along = x1 + x2 >= 0 ? kEps : -kEps;
    const double across = x1 - x2 >= 0 ? 1 : -1;
    std::vector<float> g = {static_cast<float>(along + across), static_cast<float>(along - across)};
    std::vector<float> mean(2);
    const TensorTable table(layout, g.data());
    exchange.exchange({&table, 1}, TensorTable(layout, mean.data()), step);
    const double rate = 0.1 / std::sqrt(1.0 + static_cast<double>(step));
    x1 -= rate * static_cast<double>(mean[0]);
    x2 -= rate * static_cast<double>(mean[1]);
  }
  return std::fabs(x1 + x2);
}

// The two components have opposite signs everywhere, so without error feedback their sum stays.
TEST(Convergence, SignsNeedErrorFeedback) {
  EXPECT_NEAR(sum_after_descent("sign", "none"), 2, 1e-9);
  EXPECT_LT(sum_after_descent("sign", "ef"), 0.1);
}

/// |x| after descent on the mean of f_k = <a_k, x>^2 + |x|^2 / 4 for a_k = (-3, 2, 2) and its rotations, with the
/// largest element of each gradient, from x = (1, 1, 1) (Beznosikov et al., "On Biased Compression for Distributed
/// Learning", JMLR 2023): the elements that travel point away from the optimum.
double norm_after_descent(const char* memory) {
  constexpr int kDimensions = 3;
  constexpr double kRate = 0.005;
  Layout layout;
  layout.add("x", {kDimensions});
  CompressedAllReduce exchange = make_exchange(layout, "topk:density=0.3", memory, kDimensions);
  std::vector<double> x(kDimensions, 1.0);
  for (std::uint64_t step = 0; step < 3000; ++step) {
    std::vector<std::vector<float>> gradients;
    std::vector<TensorTable> tables;
    for (std::size_t k = 0; k < kDimensions; ++k) {
      const auto a = [&](std::size_t i) { return i == k ? -3.0 : 2.0; };
      const double along = a(0) * x[0] + a(1) * x[1] + a(2) * x[2];
      std::vector<float> gradient;
      for (std::size_t i = 0; i < kDimensions; ++i) {
        gradient.push_back(static_cast<float>(2 * along * a(i) + x[i] / 2));
      }
      gradients.push_back(std::move(gradient));
    }
    for (std::vector<float>& gradient : gradients) tables.emplace_back(layout, gradient.data());
    std::vector<float> mean(kDimensions);
    exchange.exchange(tables, TensorTable(layout, mean.data()), step);
    for (std::size_t i = 0; i < kDimensions; ++i) x[i] -= kRate * static_cast<double>(mean[i]);
  }
  return std::sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]);
}

TEST(Convergence, LargestElementsOfWorkersThatDifferNeedAMemory) {
  EXPECT_GT(norm_after_descent("none"), 1e6);
  EXPECT_LT(norm_after_descent("ef21"), 1e-4);
}

class Convergence : public ::testing::TestWithParam<Row> {};

TEST_P(Convergence, ToTheOptimumThatAllWorkersShare) {
  EXPECT_LT(descend(GetParam(), Problem(/*equal=*/true)), bound(GetParam().equal));
}

TEST_P(Convergence, NearTheOptimumOfWorkersThatDiffer) {
  const double found = descend(GetParam(), Problem(/*equal=*/false));
  EXPECT_LT(found, bound(GetParam().differ));
  EXPECT_GT(found, GetParam().differ / 10);  // the codec's noise prevents exact convergence
}

INSTANTIATE_TEST_SUITE_P(Codecs, Convergence, ::testing::ValuesIn(kRows), [](const auto& instance) {
  std::string name = instance.param.spec + std::string("_") + instance.param.memory;
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace terngrad::convergence_test
