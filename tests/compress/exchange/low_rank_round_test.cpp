#include "compress/exchange/low_rank_round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "compress/exchange/shard_update.h"
#include "kernels/factors/factor_draws.h"
#include "kernels/factors/low_rank.h"
#include "kernels/runtime/errors.h"
#include "support/codes/low_rank_tensors.h"
#include "support/exchanges.h"
#include "support/thread_communicator.h"

namespace terngrad::low_rank_round_test {
namespace {

using testing::bits_of;
using testing::blank_tensors;
using testing::exchange_in;
using ::testing::HasSubstr;
using testing::kLowRankParts;
using testing::kLowRankSpecs;
using testing::kLowRankWhole;
using testing::low_rank_layout;
using testing::low_rank_options;
using testing::tables;
using testing::Tensors;

constexpr int kWorkers = 4;
constexpr std::uint64_t kSeed = 77;

/// Options for a layout with one tensor.
CompressedAllReduceOptions single(const char* spec) {
  CompressedAllReduceOptions options = low_rank_options(spec);
  options.codecs.rules.clear();
  return options;
}

std::vector<Tensors> gradients_of(const Layout& layout, int num_workers, std::uint64_t seed) {
  return testing::worker_gradients(layout, num_workers, seed);
}

CompressedAllReduce local(const Layout& layout, const CompressedAllReduceOptions& options, int num_workers = kWorkers,
                          const char* memory = "none") {
  return {layout, make_worker_group(num_workers, make_self_communicator()), options, parse_memory(memory)};
}

std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

TEST(LowRankRound, IsForTensorsWhoseFactorsAreSmaller) {
  const Layout layout = low_rank_layout();
  const CodecPlan plan(layout, low_rank_options("powersgd:rank=2").codecs);
  std::vector<std::string> codecs;
  codecs.reserve(static_cast<std::size_t>(layout.num_segments()));
  for (int i = 0; i < layout.num_segments(); ++i) codecs.push_back(plan.codec_of(i).name());
  EXPECT_EQ(codecs, (std::vector<std::string>{"powersgd", "fp32", "powersgd", "fp32", "ternary", "powersgd"}));
  // 2 x 4 (40 + 40) factors are not smaller than 40 x 40 / 4, as min_ratio=5 requires.
  const CodecPlan strict(layout, low_rank_options("powersgd:rank=4,min_ratio=5").codecs);
  EXPECT_EQ(strict.codec_of(5).name(), "fp32");
  EXPECT_EQ(strict.codec_of(0).name(), "powersgd");
}

/// Reference by plain loops over one tensor of all workers.
struct Reference {
  std::int64_t rows, columns;
  int rank;
  std::vector<float> q;  // Q^T at the beginning of the step

  static std::vector<float> mean_of(const std::vector<std::vector<float>>& all) {
    // Summation tree over four workers, times fl(1 / 4).
    std::vector<float> mean(all[0].size());
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const float left = all[0][i] + all[1][i];
      const float right = all[2][i] + all[3][i];
      mean[i] = (left + right) * 0.25f;
    }
    return mean;
  }
  std::vector<float> step(const std::vector<std::vector<float>>& gradients) {
    Stream stream;
    LowRankProducts products;
    std::vector<std::vector<float>> ps;
    std::vector<std::vector<float>> qs;
    for (const std::vector<float>& g : gradients) {
      ps.emplace_back(static_cast<std::size_t>(rank * rows));
      const FactorTask task{.m = {g.data(), rows, columns}, .rank = rank, .p = ps.back().data(), .q = q.data()};
      products.times_columns({&task, 1}, stream);
    }
    std::vector<float> p = mean_of(ps);
    const FactorTask of_p{.m = {nullptr, rows, columns}, .rank = rank, .p = p.data()};
    products.orthonormalize({&of_p, 1}, stream);
    for (const std::vector<float>& g : gradients) {
      qs.emplace_back(q.size());
      const FactorTask task{.m = {g.data(), rows, columns}, .rank = rank, .p = p.data(), .q = qs.back().data()};
      products.times_rows({&task, 1}, stream);
    }
    q = mean_of(qs);
    std::vector<float> mean(gradients[0].size());
    low_rank_elements(p.data(), rows, q.data(), columns, rank, 0, mean);
    return mean;
  }
};

TEST(LowRankRound, IsOneStepOfPowerIterationOverAllWorkers) {
  const Layout layout = low_rank_layout();
  CompressedAllReduce exchange = local(layout, low_rank_options("powersgd:rank=2"));
  const Segment& tensor = layout.segment(5);
  Reference reference{40, 40, 2, std::vector<float>(80)};
  for (std::size_t i = 0; i < reference.q.size(); ++i) {
    reference.q[i] = draw_factor_element({kSeed, 3, 0, DrawPurpose::kFactorInit},
                                         static_cast<std::uint64_t>(tensor.draw_offset) + i);
  }
  for (std::uint64_t step = 3; step < 6; ++step) {
    const std::vector<Tensors> gradients = gradients_of(layout, kWorkers, step);
    std::vector<std::vector<float>> of_tensor;
    of_tensor.reserve(gradients.size());
    for (const Tensors& worker : gradients) of_tensor.push_back(worker.values[5]);
    Tensors mean = blank_tensors(layout);
    exchange.exchange(tables(gradients, 0, kWorkers), mean.table, step);
    EXPECT_EQ(bits_of(mean.values[5]), bits_of(reference.step(of_tensor))) << step;
  }
}

TEST(LowRankRound, OthersHaveTheMeansOfTheirCodecs) {
  const Layout layout = low_rank_layout();
  const std::vector<Tensors> gradients = gradients_of(layout, kWorkers, 1);
  Tensors mean = blank_tensors(layout);
  CompressedAllReduce exchange = local(layout, low_rank_options("powersgd"));
  exchange_in(kLowRankParts, exchange, tables(gradients, 0, kWorkers), mean.table, 9);
  Tensors expected = blank_tensors(layout);
  local(layout, low_rank_options("fp32")).exchange(tables(gradients, 0, kWorkers), expected.table, 9);
  for (const std::size_t t : {1u, 3u, 4u}) EXPECT_EQ(bits_of(mean.values[t]), bits_of(expected.values[t])) << t;
}

struct Outcome {
  std::vector<std::vector<std::vector<float>>> means;
  std::vector<std::vector<float>> states;  // per worker
  std::vector<float> factors;
};

Outcome run(CompressedAllReduce& exchange, const Buckets& buckets, int first, int count) {
  const Layout& layout = exchange.layout();
  Outcome outcome;
  for (std::uint64_t step = 0; step < 4; ++step) {
    Tensors mean = blank_tensors(layout);
    const std::vector<Tensors> gradients = gradients_of(layout, kWorkers, step + 1);
    exchange_in(buckets, exchange, tables(gradients, first, count), mean.table, step);
    outcome.means.push_back(mean.values);
  }
  for (int worker = 0; worker < count; ++worker) outcome.states.push_back(copy_of(exchange.memory()->state(worker)));
  outcome.factors = copy_of(exchange.shared_state().values());
  return outcome;
}

Outcome run_alone(const Layout& layout, CompressedAllReduceOptions options, const Buckets& buckets, int threads) {
  options.num_threads = threads;
  CompressedAllReduce exchange = local(layout, options, kWorkers, "ef");
  return run(exchange, buckets, 0, kWorkers);
}

// Contracts B2 and B3.
TEST(LowRankRound, HasTheSameBitsForAnyBucketsThreadsAlgorithmsAndRanks) {
  const Layout layout = low_rank_layout();
  for (const char* spec : kLowRankSpecs) {
    const Outcome expected = run_alone(layout, low_rank_options(spec), kLowRankWhole, 1);
    for (const ExchangeAlgorithm algorithm : testing::kAlgorithms) {
      // Specs that keep no factors are tested with one algorithm only.
      if (expected.factors.empty() && algorithm != ExchangeAlgorithm::kScatterReduce) continue;
      const CompressedAllReduceOptions options = low_rank_options(spec, algorithm);
      SCOPED_TRACE(std::string(spec) + " " + word_of(algorithm));
      const Outcome found = run_alone(layout, options, kLowRankParts, 3);
      EXPECT_EQ(found.means, expected.means);
      EXPECT_EQ(found.states, expected.states);
      EXPECT_EQ(found.factors, expected.factors);
      for (const int size : {2, 3}) {
        std::mutex mutex;
        const auto errors = testing::run_ranks(size, [&](const std::shared_ptr<Communicator>& communicator) {
          const WorkerGroup group = make_worker_group(kWorkers, communicator);
          CompressedAllReduce exchange(layout, group, options, parse_memory("ef"));
          const Outcome own = run(exchange, kLowRankParts, group.first_local_worker, group.num_local_workers);
          const std::lock_guard lock(mutex);
          EXPECT_EQ(own.means, expected.means) << size;
          EXPECT_EQ(own.factors, expected.factors) << size;
          for (std::size_t w = 0; w < own.states.size(); ++w) {
            EXPECT_EQ(own.states[w], expected.states[static_cast<std::size_t>(group.first_local_worker) + w]) << size;
          }
        });
        for (const auto& error : errors) EXPECT_EQ(error, nullptr);
      }
    }
  }
}

TEST(LowRankRound, PartsThatAreNotKnownBeforehandHaveTheSameBits) {
  const Layout layout = low_rank_layout();
  const CompressedAllReduceOptions options = low_rank_options("powersgd");
  const Outcome expected = run_alone(layout, options, kLowRankWhole, 1);
  CompressedAllReduce exchange = local(layout, options, kWorkers, "ef");
  for (std::uint64_t step = 0; step < 4; ++step) {
    const std::vector<Tensors> gradients = gradients_of(layout, kWorkers, step + 1);
    Tensors mean = blank_tensors(layout);
    // Other parts in every second step.
    exchange_in(step % 2 == 0 ? kLowRankParts : Buckets{{0, 4}, {5, 3, 2}, {1}}, exchange,
                tables(gradients, 0, kWorkers), mean.table, step);
    EXPECT_EQ(mean.values, expected.means[step]) << step;
  }
  EXPECT_EQ(copy_of(exchange.shared_state().values()), expected.factors);
  for (int w = 0; w < kWorkers; ++w) {
    EXPECT_EQ(copy_of(exchange.memory()->state(w)), expected.states[static_cast<std::size_t>(w)]);
  }
}

/// a b^T + c d^T with vectors of `rows` and `columns` numbers; `second` scales the second term.
std::vector<float> of_rank_two(std::int64_t rows, std::int64_t columns, double second) {
  const std::vector<float> a = testing::gaussian(static_cast<std::size_t>(rows), 1);
  const std::vector<float> b = testing::gaussian(static_cast<std::size_t>(columns), 2);
  const std::vector<float> c = testing::gaussian(static_cast<std::size_t>(rows), 3);
  const std::vector<float> d = testing::gaussian(static_cast<std::size_t>(columns), 4);
  std::vector<float> m;
  for (std::size_t row = 0; row < a.size(); ++row) {
    for (std::size_t i = 0; i < b.size(); ++i) {
      m.push_back(a[row] * b[i] + static_cast<float>(second) * c[row] * d[i]);
    }
  }
  return m;
}

double norm_of(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

double error_of(const std::vector<float>& found, const std::vector<float>& wanted) {
  std::vector<float> difference;
  for (std::size_t i = 0; i < wanted.size(); ++i) difference.push_back(found[i] - wanted[i]);
  return norm_of(difference) / norm_of(wanted);
}

TEST(LowRankRound, IsExactForAMatrixOfItsRank) {
  Layout layout;
  layout.add("m", {60, 45});
  const std::vector<float> m = of_rank_two(60, 45, 0.5);
  CompressedAllReduce exchange = local(layout, single("powersgd:rank=2"), 1);
  const Tensors gradient(layout, {m});
  Tensors mean = blank_tensors(layout);
  exchange.exchange({&gradient.table, 1}, mean.table, 0);
  EXPECT_LT(error_of(mean.values[0], m), 1e-6);
}

// The best approximation of rank 1 leaves out the smaller singular value: the second of two nearly orthogonal terms.
TEST(LowRankRound, WarmStartComesToTheBestApproximation) {
  Layout layout;
  layout.add("m", {60, 45});
  std::vector<float> m(2700, 0.0f);
  for (std::size_t i = 0; i < 45; ++i) m[i * 45 + i] = i == 7 ? 3.0f : i == 8 ? 2.5f : 1.0f;
  const double best = std::sqrt(2.5 * 2.5 + 43) / norm_of(m);
  const Tensors gradient(layout, {m});
  const auto error_after = [&](const char* spec, std::uint64_t steps) {
    CompressedAllReduce exchange = local(layout, single(spec), 1);
    Tensors mean = blank_tensors(layout);
    for (std::uint64_t step = 0; step < steps; ++step) exchange.exchange({&gradient.table, 1}, mean.table, step);
    return error_of(mean.values[0], m);
  };
  EXPECT_GT(error_after("powersgd:rank=1", 1), 1.02 * best);
  EXPECT_NEAR(error_after("powersgd:rank=1", 40), best, 1e-4 * best);
  EXPECT_GT(error_after("powersgd:rank=1,warm_start=false", 40), 1.02 * best);
}

TEST(LowRankRound, WhatIsLeftOutIsOrthogonalToWhatWasSent) {
  const Layout layout = low_rank_layout();
  CompressedAllReduce exchange = local(layout, low_rank_options("powersgd"), kWorkers, "ef");
  for (std::uint64_t step = 0; step < 3; ++step) {
    Tensors mean = blank_tensors(layout);
    const std::vector<Tensors> gradients = gradients_of(layout, kWorkers, step + 1);
    exchange_in(kLowRankParts, exchange, tables(gradients, 0, kWorkers), mean.table, step);
    for (int w = 0; w < kWorkers; ++w) {
      const auto worker = static_cast<std::size_t>(w);
      std::vector<float> sent(static_cast<std::size_t>(layout.segment(2).num_elements));
      EXPECT_EQ(exchange.decode_local(w, 2, sent), 0);
      const float* h = exchange.encoded(w, 2).data();
      const float* e = exchange.memory()->states()[worker].tensor(2);
      double product = 0;
      double size = 0;
      for (std::size_t i = 0; i < sent.size(); ++i) {
        EXPECT_EQ(bits_of(e[i]), bits_of(h[i] - sent[i]));
        product += static_cast<double>(sent[i]) * static_cast<double>(e[i]);
        size += static_cast<double>(sent[i]) * static_cast<double>(sent[i]);
      }
      EXPECT_NEAR(product / size, 0, 1e-5);
    }
  }
}

TEST(LowRankRound, MomentumKeepsWhatWasEncoded) {
  const Layout layout = low_rank_layout();
  CompressedAllReduce exchange = local(layout, low_rank_options("powersgd"), kWorkers, "momentum");
  Tensors mean = blank_tensors(layout);
  exchange.exchange(tables(gradients_of(layout, kWorkers, 1), 0, kWorkers), mean.table, 0);
  const std::span<const float> encoded = exchange.encoded(1, 2);
  for (std::int64_t i = 0; i < layout.segment(2).num_elements; ++i) {
    ASSERT_EQ(exchange.memory()->states()[1].tensor(2)[i], encoded[static_cast<std::size_t>(i)]);
  }
}

TEST(LowRankRound, ADroppedStepLeavesFactorsAndStates) {
  const Layout layout = low_rank_layout();
  for (const OnNonfinite policy : {OnNonfinite::kStop, OnNonfinite::kSkip}) {
    CompressedAllReduceOptions options = low_rank_options("powersgd");
    options.on_nonfinite = policy;
    CompressedAllReduce exchange = local(layout, options, kWorkers, "ef");
    const auto step = [&](std::uint64_t number, float bad) {
      std::vector<Tensors> gradients = gradients_of(layout, kWorkers, number + 1);
      gradients[2].values[2][70] = bad;
      Tensors mean = blank_tensors(layout);
      return exchange_in(kLowRankParts, exchange, tables(gradients, 0, kWorkers), mean.table, number);
    };
    step(0, 1);
    const std::vector<float> factors = copy_of(exchange.shared_state().values());
    const std::vector<float> state = copy_of(exchange.memory()->state(2));
    EXPECT_GT(norm_of(factors), 0);
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      if (policy == OnNonfinite::kStop) {
        EXPECT_THROW(step(1, bad), NonFiniteError);
      } else {
        const ExchangeReport report = step(1, bad);
        EXPECT_TRUE(report.skipped);
        EXPECT_THAT(report.nonfinite, HasSubstr("tensor 'wide' of worker 2"));
      }
      EXPECT_EQ(copy_of(exchange.shared_state().values()), factors);
      EXPECT_EQ(copy_of(exchange.memory()->state(2)), state);
    }
    step(1, 1);
    EXPECT_NE(copy_of(exchange.shared_state().values()), factors);
  }
}

TEST(LowRankRound, AWorkersTensorThatIsNotFiniteCountsAsZerosWhereTheStepGoesOn) {
  const Layout layout = low_rank_layout();
  CompressedAllReduceOptions options = low_rank_options("powersgd");
  options.on_nonfinite = OnNonfinite::kZero;
  const auto mean_with = [&](float value, bool all_zero) {
    CompressedAllReduce exchange = local(layout, options, kWorkers, "ef");
    std::vector<Tensors> gradients = gradients_of(layout, kWorkers, 1);
    std::vector<float>& tensor = gradients[1].values[0];
    if (all_zero) std::fill(tensor.begin(), tensor.end(), 0.0f);
    if (!all_zero) tensor[33] = value;
    Tensors mean = blank_tensors(layout);
    const ExchangeReport report = exchange_in(kLowRankParts, exchange, tables(gradients, 0, kWorkers), mean.table, 0);
    EXPECT_EQ(report.nonfinite.empty(), all_zero);
    EXPECT_FALSE(report.skipped);
    // The memory of the tensor is empty.
    EXPECT_EQ(norm_of(copy_of({exchange.memory()->states()[1].tensor(0), 4500})), 0);
    std::vector<float> sent(4500, 1.0f);
    exchange.decode_local(1, 0, sent);
    EXPECT_EQ(norm_of(sent), 0);
    return mean.values;
  };
  const auto expected = mean_with(0, true);
  EXPECT_EQ(mean_with(std::numeric_limits<float>::quiet_NaN(), false), expected);
  EXPECT_EQ(mean_with(std::numeric_limits<float>::infinity(), false), expected);
}

TEST(LowRankRound, GradientsOfZerosAreDrawnForAgain) {
  Layout layout;
  layout.add("m", {60, 45});
  CompressedAllReduce exchange = local(layout, single("powersgd:rank=2"), 1);
  const Tensors zeros(layout, {std::vector<float>(2700, 0.0f)});
  Tensors mean = blank_tensors(layout);
  exchange.exchange({&zeros.table, 1}, mean.table, 0);
  EXPECT_EQ(norm_of(mean.values[0]), 0);
  EXPECT_EQ(norm_of(copy_of(exchange.shared_state().values())), 0);
  const std::vector<float> m = of_rank_two(60, 45, 0.5);
  const Tensors gradient(layout, {m});
  exchange.exchange({&gradient.table, 1}, mean.table, 1);
  EXPECT_LT(error_of(mean.values[0], m), 1e-6);
}

TEST(LowRankRound, BytesAreThoseOfBothRounds) {
  Layout layout;
  layout.add("m", {1000, 500});
  CompressedAllReduce exchange = local(layout, single("powersgd:rank=4"), 2);
  const std::vector<Tensors> gradients = gradients_of(layout, 2, 1);
  Tensors mean = blank_tensors(layout);
  const ExchangeReport report = exchange.exchange(tables(gradients, 0, 2), mean.table, 0);
  constexpr std::int64_t kFactors = 24000;  // 4 bytes of 4 (1000 + 500) numbers
  EXPECT_GE(report.gradient.sent, 2 * kFactors);
  EXPECT_LT(report.gradient.sent, 2 * (kFactors + 500));
  EXPECT_GT(report.scalers.sent, 0);
}

TEST(LowRankRound, RefusesWhatItCannotDo) {
  const Layout layout = low_rank_layout();
  const CompressedAllReduceOptions options = low_rank_options("powersgd");
  const auto message_of = [](const auto& make) -> std::string {
    try {
      make();
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  struct Nothing final : ShardUpdate {
    void update(std::size_t, std::span<const Slice>, const TensorTable&, std::uint64_t) override {}
  } nothing;
  CompressedAllReduceOptions updated = options;
  updated.update = &nothing;
  EXPECT_THAT(message_of([&] { local(layout, updated); }), HasSubstr("update of shards"));
  EXPECT_THAT(message_of([&] {
                CompressedAllReduce exchange = local(layout, options, 1);
                const std::vector<Tensors> gradients = gradients_of(layout, 2, 1);
                Tensors mean = blank_tensors(layout);
                exchange.exchange(tables(gradients, 0, 2), mean.table, 0);
              }),
              HasSubstr("got 2 gradients"));
}

}  // namespace
}  // namespace terngrad::low_rank_round_test
