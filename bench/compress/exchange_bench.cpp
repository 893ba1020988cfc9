// A whole exchange of eight workers in one process: scalers, encode, messages, aggregate.
#include <cmath>
#include <memory>
#include <vector>

#include "bench/gradients.h"
#include "bench/rows.h"
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

  /// True if the mean is the mean of the workers' messages, each decoded by itself.
  bool is_right() const {
    std::vector<double> sum(static_cast<std::size_t>(layout.num_elements()));
    std::vector<float> sent(sum.size());
    for (int worker = 0; worker < kWorkers; ++worker) {
      exchange->decode_local(worker, 0, sent);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(sent[i]);
    }
    for (std::size_t i = 0; i < sum.size(); ++i) {
      if (std::fabs(sum[i] / kWorkers - static_cast<double>(mean.data()[i])) > 1e-6) return false;
    }
    return true;
  }
};

Subject exchange(std::int64_t n, const std::string& codec, ExchangeAlgorithm algorithm) {
  const auto prepare = [=](Stream& stream) {
    const auto state = std::make_shared<State>();
    state->layout.add("gradient", {n});
    for (int worker = 0; worker < kWorkers; ++worker) {
      state->gradients.push_back(make_gradient(state->layout.flat_elements(), static_cast<std::uint64_t>(worker) + 2));
      state->tables.emplace_back(state->layout, state->gradients.back().data());
    }
    state->mean = Buffer<float>(state->layout.flat_elements());
    CompressedAllReduceOptions options;
    options.codecs.codec = codec == "ternary" ? "ternary:clip_factor=2.5" : codec;
    options.algorithm = algorithm;
    options.num_threads = stream.num_threads();
    state->exchange = std::make_unique<CompressedAllReduce>(
        state->layout, make_worker_group(kWorkers, make_self_communicator()), options);
    const auto run = [=] {
      state->exchange->exchange(state->tables, TensorTable(state->layout, state->mean.data()), 1);
    };
    return Work{.run = run, .check = [=] { return state->is_right(); }};
  };
  const double elements = static_cast<double>(n) * kWorkers;
  return {.bytes = 4 * elements, .elements = elements, .prepare = prepare};
}

const Registration registration(__FILE__, [](Rows& rows) {
  const struct {
    const char* codec;
    ExchangeAlgorithm algorithm;
  } cases[] = {{"fp32", ExchangeAlgorithm::kAllGather},
               {"bf16", ExchangeAlgorithm::kAllGather},
               {"ternary", ExchangeAlgorithm::kAllGather},
               {"ternary", ExchangeAlgorithm::kScatterReduce},
               {"ternary", ExchangeAlgorithm::kIntegerSum}};
  for (const auto& c : cases) {
    // Eight workers' gradients of 64 Mi elements need 2 GB.
    rows.add("exchange8_" + std::string(c.codec) + "_" + word_of(c.algorithm), "f32",
             [=](std::int64_t n) { return exchange(n, c.codec, c.algorithm); },
             {.devices = Devices::kCpu, .max_cpu_elements = 25'000'000});
  }
});

}  // namespace
}  // namespace terngrad::bench
