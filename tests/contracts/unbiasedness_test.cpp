// Statistical tests of the random draws and of stochastic rounding. Seeds are fixed, so results are reproducible. The
// false-alarm rates are the probability that a correct implementation failed for the chosen seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compress/codecs/ternary_spec.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "kernels/codes/ternarize.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/statistics.h"
#include "support/gradients.h"
#include "support/sanitized.h"

namespace terngrad::unbiasedness_test {
namespace {

constexpr std::size_t kElements = 65536;
/// Family-wise false-alarm rate of one test: all elements, both tails and all groups.
constexpr double kFalseAlarms = 1e-6;

/// Number of non-zero codes per element over many steps, and number of codes with a wrong sign.
struct Counts {
  std::vector<std::uint32_t> nonzero = std::vector<std::uint32_t>(kElements, 0);
  std::size_t wrong_signs = 0;
};

/// Elements of all magnitudes up to s: a quarter uniform, the rest log-uniform over 20 octaves, some exactly 0 or s.
std::vector<float> gradient_of(std::uint64_t seed, float s) {
  std::mt19937_64 random(seed);
  std::vector<float> gradient(kElements);
  for (std::size_t i = 0; i < kElements; ++i) {
    const double u = testing::uniform(random);
    double p = i % 4 == 0 ? u : std::exp2(-20 * u);
    if (i % 64 == 1) p = 0;
    if (i % 64 == 2) p = 1;
    gradient[i] = std::min(s, static_cast<float>(p * static_cast<double>(s))) * (random() % 2 == 0 ? 1.0f : -1.0f);
  }
  return gradient;
}

/// @param scalers  s, or s+ and s- of asymmetric levels
Counts count_codes(std::span<const float> gradient, std::vector<float> scalers, std::uint32_t worker, int num_draws,
                   TernarizeOptions options = {}) {
  if (scalers.size() == 2) options.levels = TernaryLevels::kAsymmetric;
  Counts counts;
  std::vector<std::uint32_t> words(kElements / 16);
  TernarizeTask task;
  task.gradient = gradient.data();
  task.count = kElements;
  task.scalers = scalers.data();
  task.payload = reinterpret_cast<std::uint8_t*>(words.data());
  Stream stream(Device::cpu(), 1);
  for (int draw = 0; draw < num_draws; ++draw) {
    std::int64_t bytes = 0;
    ternarize({&task, 1}, options, {2024, static_cast<std::uint64_t>(draw), worker, DrawPurpose::kTernarize},
              {&bytes, 1}, stream);
    for (std::size_t w = 0; w < words.size(); ++w) {
      for (unsigned i = 0; i < 16; ++i) counts.nonzero[16 * w + i] += words[w] >> (2 * i) & 1;
    }
    if (draw % 64 != 0) continue;
    for (std::size_t i = 0; i < kElements; ++i) {
      const std::uint32_t code = words[i / 16] >> (2 * (i % 16)) & 3;
      if (code != 0 && (code == 3) != std::signbit(gradient[i])) ++counts.wrong_signs;
    }
  }
  return counts;
}

/// Bound on the tail probability of a sum of n independent 0/1 draws with mean probability p, at k on k's side of n p:
/// exp(-n KL(k/n, p)). This is Chernoff's bound on the binomial tail; by Hoeffding (1956) it also holds for different
/// probabilities. Rejecting when the bound is below a level keeps the false-alarm rate below that level.
double tail_bound(double k, double n, double p) {
  const double q = k / n;
  const auto term = [](double a, double b) { return a == 0 ? 0 : a * std::log(a / b); };
  return std::exp(-n * (term(q, p) + term(1 - q, 1 - p)));
}

/// Tests that element i is non-zero with probability |g_i| / s. Tests each element, and the sum over each octave of
/// probability, which detects small common biases.
/// @returns a description of the first contradiction, empty if there is none
std::string contradiction(const Counts& counts, std::span<const float> gradient, float s, int num_draws) {
  const double n = num_draws;
  struct Octave {
    double count = 0, expected = 0, draws = 0;
  };
  std::map<int, Octave> octaves;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double p = std::fabs(static_cast<double>(gradient[i])) / static_cast<double>(s);
    Octave& octave = octaves[p == 0 ? -1000 : std::ilogb(p)];
    octave.count += counts.nonzero[i];
    octave.expected += n * p;
    octave.draws += n;
    // Single elements with two tails each use half of the false-alarm rate.
    if (tail_bound(counts.nonzero[i], n, p) < kFalseAlarms / 4 / static_cast<double>(gradient.size())) {
      return "element " + std::to_string(i) + " with p = " + std::to_string(p) + " was non-zero " +
             std::to_string(counts.nonzero[i]) + " of " + std::to_string(num_draws) + " times";
    }
  }
  for (const auto& [exponent, octave] : octaves) {
    const double p = octave.expected / octave.draws;
    if (tail_bound(octave.count, octave.draws, p) < kFalseAlarms / 4 / static_cast<double>(octaves.size())) {
      return "elements with p from 2^" + std::to_string(exponent) + " were non-zero " + std::to_string(octave.count) +
             " of " + std::to_string(octave.draws) + " times, expected " + std::to_string(octave.expected);
    }
  }
  return "";
}

TEST(Unbiasedness, EveryElementIsNonZeroWithItsProbability) {
  const int num_draws = testing::scaled(4096, 128);
  for (const float s : {1.0f, 0.3f, 1e-12f}) {
    const std::vector<float> gradient = gradient_of(1, s);
    const Counts counts = count_codes(gradient, {s}, 0, num_draws);
    EXPECT_EQ(counts.wrong_signs, 0u);
    EXPECT_EQ(contradiction(counts, gradient, s, num_draws), "") << "s = " << s;
    if (testing::kIsSanitized) break;
  }
}

TEST(Unbiasedness, HoldsForEveryWorkersStratifiedDraws) {
  const int num_draws = testing::scaled(1024, 64);
  const std::vector<float> gradient = gradient_of(1, 1);
  for (const int num_workers : {2, 3, 8}) {
    const TernarizeOptions options{.num_workers = num_workers, .rounding = Rounding::kStratified};
    for (const int worker : {0, 1, num_workers - 1}) {
      const Counts counts = count_codes(gradient, {1}, static_cast<std::uint32_t>(worker), num_draws, options);
      EXPECT_EQ(counts.wrong_signs, 0u);
      EXPECT_EQ(contradiction(counts, gradient, 1, num_draws), "") << worker << " of " << num_workers;
    }
  }
}

/// Scales negative elements by an exact factor: asymmetric levels with scalers in this ratio have the same
/// probabilities.
constexpr float kNegativeSide = 0.25f;
std::vector<float> with_shorter_side(std::vector<float> gradient) {
  for (float& g : gradient) g *= std::signbit(g) ? kNegativeSide : 1.0f;
  return gradient;
}

TEST(Unbiasedness, HoldsForEachSideOfAsymmetricLevels) {
  const int num_draws = testing::scaled(4096, 128);
  const std::vector<float> gradient = gradient_of(1, 1);
  const Counts counts = count_codes(with_shorter_side(gradient), {1, kNegativeSide}, 0, num_draws);
  EXPECT_EQ(counts.wrong_signs, 0u);
  EXPECT_EQ(contradiction(counts, gradient, 1, num_draws), "");
  // Swapped scalers must be detected.
  const Counts swapped = count_codes(with_shorter_side(gradient), {kNegativeSide, 1}, 0, num_draws);
  EXPECT_NE(contradiction(swapped, gradient, 1, num_draws), "");
}

TEST(Unbiasedness, HoldsWithSharedAndWithOwnScalers) {
  // c = 0: sharing max gives all workers the largest maximum, sharing none each its own.
  const int num_draws = testing::scaled(1024, 64);
  Stream stream(Device::cpu(), 1);
  std::vector<std::vector<float>> workers;
  float max = 0;
  for (std::uint32_t worker = 0; worker < 3; ++worker) {
    workers.push_back(testing::gaussian(kElements, 100 + worker, std::exp2(-static_cast<double>(worker))));
    max = std::max(max, measure(workers.back(), stream).max_abs());
  }
  for (std::uint32_t worker = 0; worker < 3; ++worker) {
    const float own = local_scaler(measure(workers[worker], stream), kElements, 0, ScalerRule::kPaper);
    for (const float s : {max, own}) {
      const Counts counts = count_codes(workers[worker], {s}, worker, num_draws);
      EXPECT_EQ(contradiction(counts, workers[worker], s, num_draws), "") << "worker " << worker << ", s = " << s;
    }
  }
}

TEST(Unbiasedness, OfTheWholeExchangeWithSharingMaxAndNone) {
  constexpr int kWorkers = 3;
  const int num_steps = testing::scaled(4096, 64);
  Layout layout;
  layout.add("a", {300});
  std::vector<testing::Tensors> workers;
  std::vector<TensorTable> tables;
  for (int w = 0; w < kWorkers; ++w) {
    workers.push_back(testing::gaussian_tensors(layout, 50 + static_cast<std::uint64_t>(w)));
    tables.push_back(workers.back().table);
  }
  double max = 0;
  for (const auto& worker : workers) {
    for (const float g : worker.values[0]) max = std::max(max, std::fabs(static_cast<double>(g)));
  }
  const TernaryOptions variants[] = {{.sharing = ScalerSharing::kMax},
                                     {.sharing = ScalerSharing::kNone},
                                     {.sharing = ScalerSharing::kMax, .levels = TernaryLevels::kAsymmetric},
                                     {.sharing = ScalerSharing::kNone, .levels = TernaryLevels::kAsymmetric}};
  for (const TernaryOptions& variant : variants) {
    CompressedAllReduceOptions options;
    options.codecs.codec = ternary_spec(variant);
    CompressedAllReduce exchange(layout, make_worker_group(kWorkers, make_self_communicator()), options);
    testing::Tensors mean = testing::blank_tensors(layout);
    std::vector<double> total(300, 0);
    for (int step = 0; step < num_steps; ++step) {
      exchange.exchange(tables, mean.table, static_cast<std::uint64_t>(step));
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += static_cast<double>(mean.values[0][i]);
    }
    // Hoeffding: each of the n = kWorkers * num_steps terms has range s at most, since the sign of a code is fixed, so
    // P(|mean - expected| >= d) <= 2 exp(-2 n d^2 / s^2).
    const double d = max * std::sqrt(std::log(2 * 300 * 2 / kFalseAlarms) / (2.0 * kWorkers * num_steps));
    for (std::size_t i = 0; i < total.size(); ++i) {
      double expected = 0;
      for (const auto& worker : workers) expected += static_cast<double>(worker.values[0][i]) / kWorkers;
      ASSERT_NEAR(total[i] / num_steps, expected, d) << "element " << i;
    }
  }
}

/// Counts with another rounding rule: nonzero(r, t) for a draw r of 16 bits and t = |g| / s * 65536.
Counts count_with(std::span<const float> gradient, float s, int num_draws,
                  const std::function<bool(std::uint32_t, float)>& nonzero) {
  Counts counts;
  for (int draw = 0; draw < num_draws; ++draw) {
    const DrawKey key{2024, static_cast<std::uint64_t>(draw), 0, DrawPurpose::kTernarize};
    for (std::size_t block = 0; block < gradient.size() / 8; ++block) {
      const auto words = draw_block(key, block);
      for (std::size_t j = 0; j < 8; ++j) {
        const std::size_t i = 8 * block + j;
        const float t = std::fabs(gradient[i]) / s * 65536.0f;
        counts.nonzero[i] += nonzero(words[j / 2] >> (j % 2 * 16) & 0xffffu, t) ? 1u : 0u;
      }
    }
  }
  return counts;
}

TEST(Unbiasedness, TestRejectsRoundingThatIncludesTheTie) {
  const int num_draws = testing::scaled(256, 128);
  const std::vector<float> gradient = gradient_of(1, 1);
  const Counts counts = count_with(gradient, 1, num_draws, [](std::uint32_t r, float t) {
    return static_cast<float>(r) <= std::floor(t);  // too frequent by 2^-16
  });
  EXPECT_NE(contradiction(counts, gradient, 1, num_draws), "");
}

TEST(Unbiasedness, TestRejectsRoundingWithoutRefinement) {
  const int num_draws = 1024;  // 27 non-zeros expected from 2^-17 up to 2^-16; this rounding has none there
  const std::vector<float> gradient = gradient_of(1, 1);
  const Counts counts = count_with(gradient, 1, num_draws, [](std::uint32_t r, float t) {
    return static_cast<float>(r) < std::floor(t);  // too rare by 2^-17 on average, never non-zero below 2^-16
  });
  EXPECT_NE(contradiction(counts, gradient, 1, num_draws), "");
}

TEST(Unbiasedness, TestRejectsDrawsOfEightBits) {
  const int num_draws = 1024;  // 28 non-zeros are missing below p = 2^-16
  const std::vector<float> gradient = gradient_of(1, 1);
  const Counts counts = count_with(gradient, 1, num_draws, [](std::uint32_t r, float t) {
    return static_cast<float>(r & 0xff) < std::floor(t / 256);
  });
  EXPECT_NE(contradiction(counts, gradient, 1, num_draws), "");
}

/// @param scalers  s+ and s-
void expect_variance(std::span<const float> gradient, const Counts& counts, const std::vector<float>& scalers,
                     int num_draws) {
  const double n = num_draws;
  double found = 0;
  double expected = 0;
  double error_squares = 0;
  for (std::size_t i = 0; i < kElements; ++i) {
    const double magnitude = std::fabs(static_cast<double>(gradient[i]));
    const auto s = static_cast<double>(scalers[std::signbit(gradient[i]) ? 1 : 0]);
    const double p = magnitude / s;
    const double q = counts.nonzero[i] / n;
    found += s * s * q * (1 - q) * n / (n - 1);  // unbiased sample variance of s * code
    expected += magnitude * (s - magnitude);
    // Variance of the sample variance of Bernoulli draws: m4 / n - m2^2 (n - 3) / (n (n - 1)).
    const double m2 = p * (1 - p);
    const double m4 = m2 * (1 - 3 * m2);
    error_squares += s * s * s * s * (m4 / n - m2 * m2 * (n - 3) / (n * (n - 1)));
  }
  EXPECT_NEAR(found, expected, 6 * std::sqrt(error_squares));  // six standard errors: false-alarm rate 2e-9
}

TEST(Unbiasedness, VarianceIsMagnitudeTimesDistanceToTheScaler) {
  const int num_draws = testing::scaled(1024, 64);
  const std::vector<float> gradient = gradient_of(3, 1);
  expect_variance(gradient, count_codes(gradient, {1}, 1, num_draws), {1, 1}, num_draws);
  const std::vector<float> shorter = with_shorter_side(gradient);
  const std::vector<float> scalers = {1, kNegativeSide};
  expect_variance(shorter, count_codes(shorter, scalers, 1, num_draws), scalers, num_draws);
}

TEST(Draws, AreUniformByChiSquare) {
  const std::uint64_t num_blocks = testing::scaled<std::uint64_t>(1 << 21, 1 << 17);
  std::vector<std::uint32_t> histogram(65536, 0);
  const DrawKey key{7, 8, 9, DrawPurpose::kTernarize};
  for (std::uint64_t block = 0; block < num_blocks; ++block) {
    for (const std::uint32_t word : draw_block(key, block)) {
      ++histogram[word & 0xffff];
      ++histogram[word >> 16];
    }
  }
  const double expected = static_cast<double>(num_blocks) * 8 / 65536;
  double chi_square = 0;
  for (const std::uint32_t count : histogram) {
    chi_square += (count - expected) * (count - expected) / expected;
  }
  // 65535 degrees of freedom: nearly normal, mean 65535, variance 2 * 65535. Six deviations on both sides: 2e-9.
  EXPECT_NEAR(chi_square, 65535, 6 * std::sqrt(2.0 * 65535));
}

TEST(Draws, AreUniformInEveryBit) {
  const std::uint64_t num_blocks = testing::scaled<std::uint64_t>(1 << 20, 1 << 16);
  std::vector<double> ones(128, 0);
  const DrawKey key{1, 2, 3, DrawPurpose::kTernarizeRefine};
  for (std::uint64_t block = 0; block < num_blocks; ++block) {
    const auto words = draw_block(key, block);
    for (std::size_t bit = 0; bit < 128; ++bit) ones[bit] += words[bit / 32] >> (bit % 32) & 1;
  }
  const auto n = static_cast<double>(num_blocks);
  for (const double count : ones) EXPECT_NEAR(count, n / 2, 6.5 * std::sqrt(n) / 2);  // 128 bits: 1e-8 in total
}

/// Fair coins as +1 and -1: elements at half the scaler, whose codes are non-zero with probability 1/2.
std::vector<double> coins(std::uint64_t step, std::uint32_t worker) {
  const std::vector<float> gradient(kElements, 0.5f);
  const float s = 1;
  std::vector<std::uint32_t> words(kElements / 16);
  TernarizeTask task;
  task.gradient = gradient.data();
  task.count = kElements;
  task.scalers = &s;
  task.payload = reinterpret_cast<std::uint8_t*>(words.data());
  Stream stream(Device::cpu(), 1);
  std::int64_t bytes = 0;
  ternarize({&task, 1}, {}, {11, step, worker, DrawPurpose::kTernarize}, {&bytes, 1}, stream);
  std::vector<double> result(kElements);
  for (std::size_t i = 0; i < kElements; ++i) result[i] = (words[i / 16] >> (2 * (i % 16)) & 1) != 0 ? 1 : -1;
  return result;
}

/// Products of independent fair coins are independent fair coins: Hoeffding gives P(|sum| >= t) <= 2 exp(-t^2 / 2n).
double correlation_bound(double n, int num_tests) { return std::sqrt(2 * n * std::log(2 * num_tests / kFalseAlarms)); }

TEST(Draws, OfNeighboursAreIndependent) {
  constexpr int kLags = 256;
  const std::vector<double> x = coins(0, 0);
  for (std::size_t lag = 1; lag <= kLags; ++lag) {
    double sum = 0;
    for (std::size_t i = lag; i < kElements; ++i) sum += x[i] * x[i - lag];
    EXPECT_LE(std::fabs(sum), correlation_bound(kElements, kLags)) << "lag " << lag;
  }
}

TEST(Draws, OfWorkersAndStepsAreIndependent) {
  std::vector<std::vector<double>> all;
  for (std::uint32_t worker = 0; worker < 6; ++worker) {
    for (std::uint64_t step : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{1} << 32}) {
      all.push_back(coins(step, worker));
    }
  }
  const int pairs = static_cast<int>(all.size() * (all.size() - 1) / 2);
  for (std::size_t a = 0; a < all.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      double sum = 0;
      for (std::size_t i = 0; i < kElements; ++i) sum += all[a][i] * all[b][i];
      EXPECT_LE(std::fabs(sum), correlation_bound(kElements, pairs)) << a << " and " << b;
    }
  }
}

}  // namespace
}  // namespace terngrad::unbiasedness_test
