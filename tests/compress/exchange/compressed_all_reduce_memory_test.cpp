#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "compress/exchange/round.h"
#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"
#include "support/exchanges.h"
#include "support/thread_communicator.h"

namespace terngrad::compressed_all_reduce_memory_test {
namespace {

using testing::bits_of;
using testing::blank_tensors;
using testing::exchange_in;
using testing::mixed_layout;
using testing::options_of;
using testing::same_bits;
using testing::tables;
using testing::Tensors;
using testing::worker_gradients;

constexpr int kWorkers = 4;
const Buckets kWhole = {{0, 1, 2, 3, 4, 5, 6}};
const Buckets kParts = {{6, 5}, {4, 2, 3}, {0, 1}};

CompressedAllReduce local_memory(const Layout& layout, const CompressedAllReduceOptions& options, const char* memory,
                                 int num_workers = kWorkers) {
  return {layout, make_worker_group(num_workers, make_self_communicator()), options, parse_memory(memory)};
}

/// The decoded message of one worker and tensor.
std::vector<float> decoded(CompressedAllReduce& exchange, const Layout& layout, int worker, int segment) {
  std::vector<float> sent(static_cast<std::size_t>(layout.segment(segment).num_elements));
  exchange.decode_local(worker, segment, sent);
  return sent;
}

/// Specs of all lossy codecs.
const char* const kSpecs[] = {"ternary",
                              "ternary:rounding=nearest,clip_factor=1.22",
                              "ternary:sharing=none,scope=block,block=128",
                              "ternary:format=tmask",
                              "ternary:levels=asymmetric",
                              "bf16",
                              "qsgd:bits=4,block=128",
                              "qsgd:bits=8,sharing=max",
                              "natural",
                              "sign",
                              "onebit",
                              "eden:scale=least",
                              "fp8"};

TEST(CompressedAllReduceMemory, EncodesTheGradientAndWhatIsLeftOfStepsBefore) {
  const Layout layout = mixed_layout();
  for (const char* spec : kSpecs) {
    for (const float decay : {1.0f, 0.5f}) {
      CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAllGather);
      options.codecs.codec = spec;
      CompressedAllReduce exchange = local_memory(layout, options, decay == 1 ? "ef" : "ef:decay=0.5");
      CompressedAllReduce plain = testing::local_exchange(layout, kWorkers, options);
      std::vector<Tensors> residuals;
      for (int w = 0; w < kWorkers; ++w) residuals.push_back(testing::gaussian_tensors(layout, 1, 0.0));
      for (std::uint64_t step = 0; step < 3; ++step) {
        const std::vector<Tensors> gradients = worker_gradients(layout, kWorkers, step + 1);
        std::vector<Tensors> compensated = worker_gradients(layout, kWorkers, step + 1);
        for (std::size_t w = 0; w < kWorkers; ++w) {
          for (std::size_t t = 0; t < compensated[w].values.size(); ++t) {
            if (layout.segment(static_cast<int>(t)).name == "plain") continue;
            std::vector<float>& h = compensated[w].values[t];
            for (std::size_t i = 0; i < h.size(); ++i) {
              const float kept = decay * residuals[w].values[t][i];
              h[i] = kept + h[i];
            }
          }
        }
        Tensors mean = blank_tensors(layout);
        Tensors expected = blank_tensors(layout);
        exchange_in(kParts, exchange, tables(gradients, 0, kWorkers), mean.table, step);
        plain.exchange(tables(compensated, 0, kWorkers), expected.table, step);
        ASSERT_TRUE(same_bits(expected.values, mean)) << spec << ", step " << step;
        for (std::size_t w = 0; w < kWorkers; ++w) {
          for (std::size_t t = 0; t < compensated[w].values.size(); ++t) {
            const std::vector<float> sent = decoded(exchange, layout, static_cast<int>(w), static_cast<int>(t));
            const Segment& place = layout.segment(static_cast<int>(t));
            for (std::size_t i = 0; i < sent.size(); ++i) {
              const float residual = compensated[w].values[t][i] - sent[i];
              residuals[w].values[t][i] = residual;
              const float state =
                  exchange.memory()->state(static_cast<int>(w))[static_cast<std::size_t>(place.offset) + i];
              ASSERT_EQ(bits_of(state), bits_of(place.name == "plain" ? 0.0f : residual)) << spec << ' ' << place.name;
            }
          }
        }
      }
    }
  }
}

// The sum of sent values equals the sum of gradients minus the residual, up to two roundings per element and step.
TEST(CompressedAllReduceMemory, ErrorFeedbackTelescopes) {
  const Layout layout = mixed_layout();
  for (const char* spec : kSpecs) {
    CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAllGather);
    options.codecs.codec = spec;
    CompressedAllReduce exchange = local_memory(layout, options, "ef", 1);
    const std::vector<Tensors> gradient = worker_gradients(layout, 1, 9);
    constexpr int kSteps = 30;
    std::vector<double> sent_sum(9000, 0.0);
    double largest = 0;  // |h| + |e|
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      Tensors mean = blank_tensors(layout);
      exchange.exchange(tables(gradient, 0, 1), mean.table, step);
      const std::vector<float> sent = decoded(exchange, layout, 0, 3);
      for (std::size_t i = 0; i < sent.size(); ++i) {
        sent_sum[i] += static_cast<double>(sent[i]);
        const double h = static_cast<double>(exchange.encoded(0, 3)[i]);
        largest = std::max(largest, std::fabs(h) + std::fabs(h - static_cast<double>(sent[i])));
      }
    }
    const float* g = gradient[0].table.tensor(3);
    const float* e = exchange.memory()->states()[0].tensor(3);
    for (std::size_t i = 0; i < 8193; ++i) {
      const double told = sent_sum[i] + static_cast<double>(e[i]);
      const double bound = kSteps * std::ldexp(largest, -24);
      ASSERT_NEAR(told, kSteps * static_cast<double>(g[i]), bound) << spec << ' ' << i;
    }
  }
}

TEST(CompressedAllReduceMemory, MomentumKeepsAMovingAverage) {
  const Layout layout = mixed_layout();
  const CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAuto);
  CompressedAllReduce exchange = local_memory(layout, options, "momentum:decay=0.75");
  std::vector<float> average(8193, 0.0f);
  for (std::uint64_t step = 0; step < 4; ++step) {
    const std::vector<Tensors> gradients = worker_gradients(layout, kWorkers, step + 1);
    Tensors mean = blank_tensors(layout);
    exchange.exchange(tables(gradients, 0, kWorkers), mean.table, step);
    for (std::size_t i = 0; i < average.size(); ++i) {
      const float kept = 0.75f * average[i];
      const float added = 0.25f * gradients[2].values[3][i];
      average[i] = kept + added;
      ASSERT_EQ(exchange.memory()->states()[2].tensor(3)[i], average[i]) << step << ' ' << i;
      ASSERT_EQ(exchange.encoded(2, 3)[i], average[i]) << step << ' ' << i;
    }
  }
}

// The formulas of MemoryKind::kDgc, element by element, for the actual messages.
TEST(CompressedAllReduceMemory, DgcMasksTheVelocityOfWhatWasSent) {
  const Layout layout = mixed_layout();
  const auto num_tensors = static_cast<std::size_t>(layout.num_segments());
  for (const char* spec : {"topk:density=0.1", "topk:density=0.02,values=bf16,stage_steps=1", "randomk:density=0.1"}) {
    CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAuto);
    options.codecs.codec = spec;
    options.codecs.rules = {{"plain", "fp32"}};
    CompressedAllReduce exchange = local_memory(layout, options, "dgc:momentum=0.5");
    // Empty if the tensor has no such state.
    const auto state = [&](std::size_t worker, const std::string& name) {
      const int tensor = exchange.memory()->layout().find(name);
      if (tensor < 0) return std::vector<float>();
      const Segment& place = exchange.memory()->layout().segment(tensor);
      const auto first = exchange.memory()->state(static_cast<int>(worker)).begin() + place.offset;
      return std::vector<float>(first, first + place.num_elements);
    };
    const auto name_of = [&](std::size_t tensor) { return layout.segment(static_cast<int>(tensor)).name; };
    std::int64_t num_masked = 0;
    for (std::uint64_t step = 0; step < 4; ++step) {
      const std::vector<Tensors> gradients = worker_gradients(layout, kWorkers, step + 1);
      // [worker][tensor], before the step.
      std::vector<std::vector<std::vector<float>>> residuals(kWorkers);
      std::vector<std::vector<std::vector<float>>> velocities(kWorkers);
      for (std::size_t w = 0; w < kWorkers; ++w) {
        for (std::size_t t = 0; t < num_tensors; ++t) {
          residuals[w].push_back(state(w, name_of(t)));
          velocities[w].push_back(state(w, name_of(t) + "/velocity"));
        }
      }
      Tensors mean = blank_tensors(layout);
      exchange_in(kParts, exchange, tables(gradients, 0, kWorkers), mean.table, step);
      for (std::size_t w = 0; w < kWorkers; ++w) {
        for (std::size_t t = 0; t < num_tensors; ++t) {
          const std::vector<float> sent = decoded(exchange, layout, static_cast<int>(w), static_cast<int>(t));
          const std::vector<float> residual = state(w, name_of(t));
          const std::vector<float> velocity = state(w, name_of(t) + "/velocity");
          const bool is_exact = name_of(t) == "plain";
          ASSERT_EQ(residual.size(), is_exact ? 0 : sent.size());
          for (std::size_t i = 0; i < sent.size(); ++i) {
            const float decayed = 0.5f * velocities[w][t][i];
            const float next = decayed + gradients[w].values[t][i];
            const bool is_masked = !is_exact && sent[i] != 0;
            num_masked += is_masked ? 1 : 0;
            if (is_exact) {
              ASSERT_EQ(bits_of(sent[i]), bits_of(next)) << spec << ' ' << i;
            } else {
              const float h = residuals[w][t][i] + next;
              ASSERT_EQ(bits_of(residual[i]), bits_of(h - sent[i])) << spec << ' ' << t << ' ' << i;
            }
            ASSERT_EQ(bits_of(velocity[i]), bits_of(is_masked ? 0.0f : next)) << spec << ' ' << t << ' ' << i;
          }
        }
      }
    }
    EXPECT_GT(num_masked, 100) << spec;
  }
}

TEST(CompressedAllReduceMemory, Ef21SendsWhatTheEstimatesLackAndGivesTheirMean) {
  const Layout layout = mixed_layout();
  for (const char* spec : {"topk:density=0.1", "eden", "ternary:clip_factor=1.5", "qsgd:bits=8,sharing=max", "bf16"}) {
    for (const float decay : {0.0f, 0.75f}) {
      CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAuto);
      options.codecs.codec = spec;
      CompressedAllReduce exchange = local_memory(layout, options, decay == 0 ? "ef21" : "ef21:decay=0.75");
      CompressedAllReduce plain = testing::local_exchange(layout, kWorkers, options);
      std::vector<Tensors> estimates;
      std::vector<Tensors> averages;
      const auto zeros = [&] {
        Tensors tensors = blank_tensors(layout);
        for (std::vector<float>& values : tensors.values) std::ranges::fill(values, 0.0f);
        return tensors;
      };
      for (int w = 0; w < kWorkers; ++w) {
        estimates.push_back(zeros());
        averages.push_back(zeros());
      }
      Tensors estimate = zeros();
      for (std::uint64_t step = 0; step < 3; ++step) {
        const std::vector<Tensors> gradients = worker_gradients(layout, kWorkers, step + 1);
        std::vector<Tensors> lacking = worker_gradients(layout, kWorkers, step + 1);
        for (std::size_t w = 0; w < kWorkers; ++w) {
          for (std::size_t t = 0; t < lacking[w].values.size(); ++t) {
            if (layout.segment(static_cast<int>(t)).name == "plain") continue;
            for (std::size_t i = 0; i < lacking[w].values[t].size(); ++i) {
              const float kept = decay * averages[w].values[t][i];
              const float added = (1 - decay) * gradients[w].values[t][i];
              const float average = decay == 0 ? gradients[w].values[t][i] : kept + added;
              averages[w].values[t][i] = average;
              lacking[w].values[t][i] = average - estimates[w].values[t][i];
            }
          }
        }
        Tensors mean = blank_tensors(layout);
        Tensors of_messages = blank_tensors(layout);
        exchange_in(kParts, exchange, tables(gradients, 0, kWorkers), mean.table, step);
        plain.exchange(tables(lacking, 0, kWorkers), of_messages.table, step);
        for (std::size_t t = 0; t < mean.values.size(); ++t) {
          const bool is_exact = layout.segment(static_cast<int>(t)).name == "plain";
          for (std::size_t i = 0; i < mean.values[t].size(); ++i) {
            estimate.values[t][i] = of_messages.values[t][i] + (is_exact ? 0.0f : estimate.values[t][i]);
          }
          Stream stream;
          for (std::size_t w = 0; w < kWorkers && !is_exact; ++w) {
            const std::vector<float> sent = decoded(exchange, layout, static_cast<int>(w), static_cast<int>(t));
            std::vector<float>& own = estimates[w].values[t];
            if (own.empty()) continue;
            for (std::size_t i = 0; i < own.size(); ++i) own[i] += sent[i];
            std::vector<float> found(own.size());
            exchange.memory()->read_state(static_cast<int>(w), static_cast<int>(t), found, stream);
            ASSERT_EQ(bits_of(found), bits_of(own)) << spec << ", tensor " << t;
          }
        }
        ASSERT_TRUE(same_bits(estimate.values, mean)) << spec << ", decay " << decay << ", step " << step;
      }
    }
  }
}

// With a gradient that stays the same, each message leaves out at most 1 - k / n of what the estimate lacks.
TEST(CompressedAllReduceMemory, Ef21sEstimateApproachesAGradientThatStays) {
  Layout layout;
  layout.add("w", {1000});
  CompressedAllReduceOptions options;
  options.codecs.codec = "topk:density=0.1";
  CompressedAllReduce exchange = local_memory(layout, options, "ef21", 2);
  const std::vector<Tensors> gradients = worker_gradients(layout, 2, 1);
  const auto lacking = [&](int worker) {
    std::vector<float> estimate(1000);
    Stream stream;
    exchange.memory()->read_state(worker, 0, estimate, stream);
    double sum = 0;
    for (std::size_t i = 0; i < estimate.size(); ++i) {
      const double gap = static_cast<double>(gradients[static_cast<std::size_t>(worker)].values[0][i] - estimate[i]);
      sum += gap * gap;
    }
    return sum;
  };
  Tensors mean = blank_tensors(layout);
  double before = lacking(1);
  for (std::uint64_t step = 0; step < 9; ++step) {
    exchange.exchange(tables(gradients, 0, 2), mean.table, step);
    const double now = lacking(1);
    EXPECT_LE(now, 0.9 * before) << step;
    before = now;
  }
  // The tenth message holds the last elements.
  exchange.exchange(tables(gradients, 0, 2), mean.table, 9);
  EXPECT_EQ(lacking(0) + lacking(1), 0);
  for (std::size_t i = 0; i < 1000; ++i) {
    EXPECT_NEAR(mean.values[0][i], (gradients[0].values[0][i] + gradients[1].values[0][i]) / 2, 1e-6) << i;
  }
}

// Nothing corrects what the mean of the estimates was rounded by: the limit that docs/codecs.md states.
TEST(CompressedAllReduceMemory, Ef21sMeanKeepsARoundingErrorOfTheLargestGradient) {
  Layout layout;
  layout.add("w", {1000});
  CompressedAllReduceOptions options;
  options.codecs.codec = "eden";
  for (const float factor : {1.0f, 1000.0f}) {
    CompressedAllReduce exchange = local_memory(layout, options, "ef21");
    Tensors mean = blank_tensors(layout);
    const std::vector<Tensors> usual = worker_gradients(layout, kWorkers, 1);
    std::vector<Tensors> large = worker_gradients(layout, kWorkers, 1);
    for (Tensors& worker : large) {
      for (float& value : worker.values[0]) value *= factor;
    }
    exchange.exchange(tables(large, 0, kWorkers), mean.table, 0);
    for (std::uint64_t step = 1; step < 60; ++step) {
      exchange.exchange(tables(usual, 0, kWorkers), mean.table, step);
    }
    double error = 0;
    double square = 0;
    for (std::size_t i = 0; i < 1000; ++i) {
      double expected = 0;
      for (const Tensors& worker : usual) expected += static_cast<double>(worker.values[0][i]) / kWorkers;
      error += std::pow(static_cast<double>(mean.values[0][i]) - expected, 2);
      square += expected * expected;
    }
    EXPECT_LT(std::sqrt(error / square), 1e-6 * static_cast<double>(factor)) << factor;
  }
}

// A rank without the estimates would take the mean of the messages for the gradient.
TEST(CompressedAllReduceMemory, Ef21IsAgreedUponByAllRanks) {
  const Layout layout = mixed_layout();
  CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAllGather);
  options.codecs.codec = "qsgd";
  const auto fingerprint = [&](const char* memory) {
    CompressedAllReduce exchange = local_memory(layout, options, memory);
    return exchange.whole().rounds().front()->fingerprint();
  };
  EXPECT_NE(fingerprint("ef21"), fingerprint("none"));
  EXPECT_EQ(fingerprint("ef"), fingerprint("none"));
}

/// Means and states after several steps.
struct Outcome {
  std::vector<std::vector<std::vector<float>>> means;
  std::vector<std::vector<float>> states;  // per worker
};

Outcome run_alone(const Layout& layout, const CompressedAllReduceOptions& options, const char* memory,
                  const Buckets& buckets, int threads) {
  CompressedAllReduceOptions own = options;
  own.num_threads = threads;
  CompressedAllReduce exchange = local_memory(layout, own, memory);
  Outcome run;
  for (std::uint64_t step = 0; step < 3; ++step) {
    Tensors mean = blank_tensors(layout);
    exchange_in(buckets, exchange, tables(worker_gradients(layout, kWorkers, step + 1), 0, kWorkers), mean.table, step);
    run.means.push_back(mean.values);
  }
  for (int w = 0; w < kWorkers; ++w) {
    const std::span<float> state = exchange.memory()->state(w);
    run.states.emplace_back(state.begin(), state.end());
  }
  return run;
}

// Contracts B2 and B3: state belongs to workers, independent of process, bucket and thread.
TEST(CompressedAllReduceMemory, HasTheSameBitsForAnyBucketsThreadsAlgorithmsAndRanks) {
  const Layout layout = mixed_layout();
  const std::pair<const char*, const char*> memories[] = {{"ternary:rounding=nearest,clip_factor=1.22", "ef"},
                                                          {"qsgd:bits=4,sharing=max", "ef"},
                                                          {"bf16", "ef"},
                                                          {"randomk:density=0.1", "ef"},
                                                          {"topk:density=0.05,stage_steps=1", "dgc"},
                                                          {"ternary:clip_factor=2.5", "loco:reset=2"},
                                                          {"qsgd:bits=8,sharing=max", "ef21:decay=0.5"}};
  for (const auto& each : memories) {
    const char* const spec = each.first;
    const char* const memory = each.second;
    CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAllGather);
    options.codecs.codec = spec;
    options.codecs.rules = {{"plain", "fp32"}};
    const bool has_sums = make_codec(spec, {})->traits().summable;
    const Outcome expected = run_alone(layout, options, memory, kWhole, 1);
    for (const ExchangeAlgorithm algorithm : testing::kAlgorithms) {
      if (algorithm == ExchangeAlgorithm::kIntegerSum && !has_sums) continue;
      options.algorithm = algorithm;
      const Outcome found = run_alone(layout, options, memory, kParts, 3);
      EXPECT_EQ(found.means, expected.means) << spec << ", " << word_of(algorithm);
      for (std::size_t w = 0; w < expected.states.size(); ++w) {
        EXPECT_EQ(testing::bits_of(found.states[w]), testing::bits_of(expected.states[w])) << spec << ", worker " << w;
      }
      for (const int size : {2, 3}) {
        std::mutex mutex;
        const auto errors = testing::run_ranks(size, [&](const std::shared_ptr<Communicator>& communicator) {
          const WorkerGroup group = make_worker_group(kWorkers, communicator);
          CompressedAllReduce exchange(layout, group, options, parse_memory(memory));
          for (std::uint64_t step = 0; step < 3; ++step) {
            const std::vector<Tensors> gradients = worker_gradients(layout, kWorkers, step + 1);
            Tensors mean = blank_tensors(layout);
            exchange_in(kParts, exchange, tables(gradients, group.first_local_worker, group.num_local_workers),
                        mean.table, step);
            const std::lock_guard lock(mutex);
            EXPECT_EQ(mean.values, expected.means[step]) << spec << ", ranks " << size;
          }
          const std::lock_guard lock(mutex);
          for (int w = 0; w < group.num_local_workers; ++w) {
            const std::span<float> state = exchange.memory()->state(w);
            EXPECT_EQ(testing::bits_of({state.data(), state.size()}),
                      testing::bits_of(expected.states[static_cast<std::size_t>(group.first_local_worker + w)]));
          }
        });
        for (const auto& error : errors) EXPECT_EQ(error, nullptr);
      }
    }
  }
}

TEST(CompressedAllReduceMemory, ADroppedStepAndATensorThatIsNotFiniteLeaveTheState) {
  const Layout layout = mixed_layout();
  for (const char* memory : {"ef", "momentum", "loco", "loco:reset=1", "ef21"}) {
    for (const OnNonfinite policy : {OnNonfinite::kStop, OnNonfinite::kSkip, OnNonfinite::kZero}) {
      for (const char* spec : {"ternary:clip_factor=1.5", "qsgd:block=64", "bf16"}) {
        if (std::string(memory) == "ef21" && policy == OnNonfinite::kZero) continue;  // is refused
        CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAllGather);
        options.on_nonfinite = policy;
        options.codecs.codec = spec;
        CompressedAllReduce exchange = local_memory(layout, options, memory);
        Tensors mean = blank_tensors(layout);
        exchange.exchange(tables(worker_gradients(layout, kWorkers, 1), 0, kWorkers), mean.table, 0);
        const auto state = [&](int worker, int segment) {
          std::vector<float> values(static_cast<std::size_t>(layout.segment(segment).num_elements));
          Stream stream;
          exchange.memory()->read_state(worker, segment, values, stream);
          return values;
        };
        const auto shared = [&] {
          const std::span<const float> values = exchange.shared_state().values();
          return std::vector<float>(values.begin(), values.end());
        };
        const std::vector<float> shared_before = shared();
        const std::vector<float> broken = state(1, 3);
        const std::vector<float> of_other_tensor = state(1, 0);
        const std::vector<float> of_other_worker = state(2, 3);
        std::vector<Tensors> gradients = worker_gradients(layout, kWorkers, 2);
        gradients[1].values[3][4000] = std::numeric_limits<float>::infinity();
        if (policy == OnNonfinite::kStop) {
          EXPECT_THROW(exchange.exchange(tables(gradients, 0, kWorkers), mean.table, 1), NonFiniteError);
        } else {
          exchange.exchange(tables(gradients, 0, kWorkers), mean.table, 1);
        }
        EXPECT_EQ(state(1, 3), broken) << memory << ' ' << spec;
        EXPECT_EQ(shared(), shared_before) << memory << ' ' << spec;
        const bool is_settled = policy == OnNonfinite::kZero;
        EXPECT_EQ(state(1, 0) == of_other_tensor, !is_settled) << memory << ' ' << spec;
        EXPECT_EQ(state(2, 3) == of_other_worker, !is_settled) << memory << ' ' << spec;
      }
    }
  }
}

TEST(CompressedAllReduceMemory, RefusesToKeepWhereNothingIsLost) {
  const Layout layout = mixed_layout();
  CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAllGather);
  options.codecs.codec = "fp32";
  options.codecs.rules.clear();
  EXPECT_THROW(local_memory(layout, options, "ef"), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::compressed_all_reduce_memory_test
