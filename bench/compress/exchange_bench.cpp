// A whole exchange of eight workers in one process: scalers, encode, messages, aggregate.
#include <cmath>
#include <memory>
#include <vector>

#include "bench/harness.h"
#include "bench/subjects.h"
#include "compress/exchange/compressed_all_reduce.h"

namespace terngrad::bench {
namespace {

constexpr int kWorkers = 8;

struct State {
  Layout layout;
  std::vector<Buffer<float>> gradients;
  std::vector<TensorTable> tables;
  Buffer<float> mean;
  std::unique_ptr<CompressedAllReduce> exchange;
  ExchangeReport report;
};

Subject exchange(std::int64_t n, const std::string& codec, ExchangeAlgorithm algorithm, int threads) {
  auto state = std::make_shared<State>();
  state->layout.add("gradient", {n});
  for (int worker = 0; worker < kWorkers; ++worker) {
    state->gradients.push_back(make_gradient(state->layout.flat_elements(), static_cast<std::uint64_t>(worker) + 2));
    state->tables.emplace_back(state->layout, state->gradients.back().data());
  }
  state->mean = Buffer<float>(state->layout.flat_elements());
  CompressedAllReduceOptions options;
  options.codecs.codec = codec == "ternary" ? "ternary:clip_factor=2.5" : codec;
  options.algorithm = algorithm;
  options.num_threads = threads;
  state->exchange = std::make_unique<CompressedAllReduce>(
      state->layout, make_worker_group(kWorkers, make_self_communicator()), options);
  Subject subject;
  subject.elements = static_cast<double>(n) * kWorkers;
  subject.bytes = 4.0 * static_cast<double>(n) * kWorkers;
  subject.prepare = [=](Stream&) -> std::function<void()> {
    return [=] {
      state->report = state->exchange->exchange(state->tables, TensorTable(state->layout, state->mean.data()), 1);
    };
  };
  subject.check = [=] {
    // The mean is right if it is the mean of what each worker's message says by itself.
    std::vector<double> sum(static_cast<std::size_t>(n));
    std::vector<float> sent(sum.size());
    for (int worker = 0; worker < kWorkers; ++worker) {
      state->exchange->decode_local(worker, 0, sent);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(sent[i]);
    }
    for (std::size_t i = 0; i < sum.size(); ++i) {
      if (std::fabs(sum[i] / kWorkers - static_cast<double>(state->mean.data()[i])) > 1e-6) return false;
    }
    return true;
  };
  return subject;
}

}  // namespace

void register_exchange() {
  const struct {
    const char* codec;
    ExchangeAlgorithm algorithm;
  } cases[] = {{"fp32", ExchangeAlgorithm::kAllGather},
               {"bf16", ExchangeAlgorithm::kAllGather},
               {"ternary", ExchangeAlgorithm::kAllGather},
               {"ternary", ExchangeAlgorithm::kScatterReduce},
               {"ternary", ExchangeAlgorithm::kIntegerSum}};
  for (const auto& c : cases) {
    for (const std::int64_t n : sizes()) {
      if (n > 25'000'000) continue;  // eight workers' gradients of 64 Mi elements need 2 GB
      for (const int threads : thread_counts()) {
        const std::string name = "exchange8_" + std::string(c.codec) + "_" + to_string(c.algorithm);
        register_subject(bench_name(name, "f32", n, threads), n, threads,
                         [=] { return exchange(n, c.codec, c.algorithm, threads); });
      }
    }
  }
}

}  // namespace terngrad::bench
