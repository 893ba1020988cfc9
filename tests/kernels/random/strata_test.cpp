#include "kernels/random/strata.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/reference.h"

namespace terngrad::strata_test {
namespace {

constexpr std::uint32_t kDraws = 65536;

TEST(Strata, AreInBitReversedOrder) {
  const auto places = [](std::uint32_t n) {
    std::vector<std::uint32_t> result;
    for (std::uint32_t worker = 0; worker < n; ++worker) result.push_back(bit_reversed_place(worker, n));
    return result;
  };
  EXPECT_EQ(places(1), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(places(4), (std::vector<std::uint32_t>{0, 2, 1, 3}));
  EXPECT_EQ(places(6), (std::vector<std::uint32_t>{0, 3, 2, 5, 1, 4}));
  EXPECT_EQ(places(8), (std::vector<std::uint32_t>{0, 4, 2, 6, 1, 5, 3, 7}));
  for (const std::uint32_t n : {3u, 7u, 100u, 129u}) {
    const std::vector<std::uint32_t> all = places(n);
    EXPECT_EQ(std::set<std::uint32_t>(all.begin(), all.end()).size(), n);
    EXPECT_EQ(*std::ranges::max_element(all), n - 1);
  }
}

TEST(Strata, AreTheReferences) {
  for (const std::uint32_t n : {2u, 3u, 6u, 8u, 31u, 1000u}) {
    for (std::uint32_t worker = 0; worker < n; ++worker) {
      const Stratum stratum = stratum_of(worker, n);
      for (const std::uint32_t flips : {0u, 1u}) {
        for (const std::uint64_t shared : {0x0ull, 0xffffffffffull, 0x8000000000ull, 0x1234567890ull}) {
          const std::uint64_t expected = reference::Stratified(worker, n).draw(shared, flips == 1);
          const std::uint64_t found = std::uint64_t{stratum.draw16(static_cast<std::uint32_t>(shared >> 24), flips)}
                                          << 24 |
                                      stratum.refinement(static_cast<std::uint32_t>(shared & 0xffffff), flips);
          ASSERT_EQ(found, expected) << worker << " of " << n;
        }
      }
    }
  }
}

TEST(Strata, GiveEveryWorkerEveryDrawOnce) {
  for (const std::uint32_t n : {2u, 5u, 8u}) {
    for (std::uint32_t worker = 0; worker < n; ++worker) {
      std::vector<int> found(kDraws);
      for (std::uint32_t shared = 0; shared < kDraws; ++shared) ++found[stratum_of(worker, n).draw16(shared, 0)];
      EXPECT_EQ(std::ranges::count(found, 1), kDraws) << worker << " of " << n;
    }
  }
}

TEST(Strata, HoldOneWorkerEach) {
  for (const std::uint32_t n : {2u, 4u, 16u, 64u}) {
    for (std::uint32_t shared = 0; shared < kDraws; shared += 7) {
      std::set<std::uint32_t> strata;
      for (std::uint32_t worker = 0; worker < n; ++worker) {
        strata.insert(stratum_of(worker, n).draw16(shared, 0) / (kDraws / n));
      }
      ASSERT_EQ(strata.size(), n) << shared;
    }
  }
}

/// Draws of n workers in [0, 1), from a shared one.
using Rule = std::function<double(std::uint32_t worker, std::uint32_t n, std::uint32_t shared, bool is_negative)>;

double stratified(std::uint32_t worker, std::uint32_t n, std::uint32_t shared, bool is_negative) {
  return (stratum_of(worker, n).draw16(shared, is_negative ? 1 : 0) + 0.5) / kDraws;
}

/// Squared error of the mean of n clipped ternary messages, over the square of the mean gradient (vNMSE of the mean).
/// @param answered  the workers whose messages count
double error_of_mean(const std::vector<std::vector<double>>& gradients, double s, const Rule& rule,
                     std::uint32_t answered, std::mt19937& random) {
  const auto n = static_cast<std::uint32_t>(gradients.size());
  double error = 0;
  double square = 0;
  for (std::size_t i = 0; i < gradients[0].size(); ++i) {
    const auto shared = static_cast<std::uint32_t>(random() % kDraws);
    double sum = 0;
    double sum_of_codes = 0;
    for (std::uint32_t k = 0; k < answered; ++k) {
      const double g = gradients[k][i];
      const double probability = std::min(std::fabs(g) / s, 1.0);
      if (rule(k, n, shared, g < 0) < probability) sum_of_codes += g < 0 ? -s : s;
      sum += g;
    }
    error += (sum_of_codes - sum) * (sum_of_codes - sum);
    square += sum * sum;
  }
  return error / square;
}

Rule independent(std::mt19937& random) {
  return [&random](std::uint32_t, std::uint32_t, std::uint32_t, bool) {
    return std::uniform_real_distribution<double>()(random);
  };
}

/// Gaussian gradients of correlation rho.
std::vector<std::vector<double>> correlated(std::uint32_t n, double rho, std::size_t count, std::mt19937& random) {
  std::normal_distribution<double> normal;
  std::vector<std::vector<double>> result(n, std::vector<double>(count));
  for (std::size_t i = 0; i < count; ++i) {
    const double common = normal(random);
    for (std::vector<double>& g : result) g[i] = std::sqrt(rho) * common + std::sqrt(1 - rho) * normal(random);
  }
  return result;
}

TEST(Strata, HalveTheErrorOfTheMean) {
  // Measured with 400,000 elements: independent draws, stratified draws (docs/codecs.md).
  struct Row {
    std::uint32_t n;
    std::uint32_t answered;
    double rho;
    double independent;
    double stratified;
  };
  std::mt19937 random(7);
  for (const Row& row : {Row{8, 8, 1, 0.128, 0.0185}, Row{8, 8, 0.5, 0.225, 0.114}, Row{8, 8, 0, 1.01, 0.519},
                         Row{32, 32, 0, 1.005, 0.523}, Row{8, 4, 1, 0.254, 0.0667}, Row{8, 4, 0, 1.01, 0.522},
                         Row{2, 2, 0, 1.01, 0.522}, Row{7, 7, 0, 1.01, 0.598}}) {
    const auto gradients = correlated(row.n, row.rho, 40000, random);
    const std::string where =
        std::to_string(row.answered) + " of " + std::to_string(row.n) + ", rho " + std::to_string(row.rho);
    EXPECT_NEAR(error_of_mean(gradients, 2.5, independent(random), row.answered, random) / row.independent, 1, 0.05)
        << where;
    EXPECT_NEAR(error_of_mean(gradients, 2.5, stratified, row.answered, random) / row.stratified, 1, 0.05) << where;
  }
}

/// Variance of the sum of n unclipped ternary codes of one element, averaged over evenly spaced shared draws.
double variance_of_sum(const std::vector<double>& x, std::uint32_t first_draw) {
  constexpr std::uint32_t kStep = 128;
  double total = 0;
  for (std::uint32_t shared = first_draw % kStep; shared < kDraws; shared += kStep) {
    double error = 0;
    for (std::uint32_t k = 0; k < x.size(); ++k) {
      const bool is_one = stratified(k, static_cast<std::uint32_t>(x.size()), shared, x[k] < 0) < std::fabs(x[k]);
      error += (is_one ? (x[k] < 0 ? -1.0 : 1.0) : 0.0) - x[k];
    }
    total += error * error;
  }
  return total * kStep / kDraws;
}

TEST(Strata, NeverAddError) {
  std::mt19937 random(8);
  std::normal_distribution<double> normal;
  using Distribution = std::function<double()>;
  const std::pair<const char*, Distribution> distributions[] = {
      {"gaussian", [&] { return normal(random); }},
      {"log-normal", [&] { return std::exp(normal(random)) * (random() % 2 == 0 ? 1 : -1); }},
      {"skewed", [&] { return std::exp(normal(random)); }},
      {"one spike", [&] { return random() % 50 == 0 ? 20.0 : normal(random); }},
      {"sparse", [&] { return random() % 20 == 0 ? normal(random) : 0.0; }},
  };
  for (const auto& [name, draw] : distributions) {
    for (const std::uint32_t n : {2u, 3u, 5u, 8u, 16u, 64u}) {
      std::vector<std::vector<double>> elements(300, std::vector<double>(n));
      double s = 0;
      for (std::vector<double>& x : elements) {
        for (double& value : x) s = std::max(s, std::fabs(value = draw()));
      }
      double of_stratified = 0;
      double of_independent = 0;
      for (std::vector<double>& x : elements) {
        for (double& value : x) {
          value /= s;
          of_independent += std::fabs(value) * (1 - std::fabs(value));
        }
        of_stratified += variance_of_sum(x, static_cast<std::uint32_t>(random() % kDraws));
      }
      EXPECT_LT(of_stratified, 1.01 * of_independent) << name << ", " << n;
    }
  }
}

TEST(Strata, AreMissedByRulesThatLackAPart) {
  std::mt19937 random(9);
  const auto gradients = correlated(8, 0.5, 40000, random);
  const auto error = [&](const Rule& rule, std::uint32_t answered) {
    return error_of_mean(gradients, 2.5, rule, answered, random);
  };
  const double of_all = error(stratified, 8);
  const double of_half = error(stratified, 4);
  const Rule in_plain_order = [](std::uint32_t worker, std::uint32_t n, std::uint32_t shared, bool is_negative) {
    const double u = std::fmod(shared / 65536.0 + static_cast<double>(worker) / n, 1.0);
    return is_negative ? 1 - u : u;
  };
  const Rule without_offsets = [](std::uint32_t, std::uint32_t, std::uint32_t shared, bool is_negative) {
    return is_negative ? 1 - shared / 65536.0 : shared / 65536.0;
  };
  const Rule without_flips = [](std::uint32_t worker, std::uint32_t n, std::uint32_t shared, bool) {
    return stratified(worker, n, shared, false);
  };
  EXPECT_GT(error(in_plain_order, 4), 1.5 * of_half);
  EXPECT_GT(error(without_offsets, 8), 4 * of_all);
  EXPECT_GT(error(without_flips, 8), 1.2 * of_all);
}

}  // namespace
}  // namespace terngrad::strata_test
