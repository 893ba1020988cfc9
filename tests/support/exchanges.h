// Exchanges of several workers over tensors of many shapes, compared with a reference mean.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compress/codecs/ternary_spec.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "compress/exchange/round.h"
#include "compress/memory/shared_state.h"
#include "compress/memory/worker_memory.h"
#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/gradients.h"
#include "support/reference_exchange.h"

namespace terngrad::testing {

inline constexpr ExchangeAlgorithm kAlgorithms[] = {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce,
                                                    ExchangeAlgorithm::kIntegerSum, ExchangeAlgorithm::kAuto};
inline constexpr DownlinkCodec kDownlinkCodecs[] = {DownlinkCodec::kFloat32, DownlinkCodec::kBfloat16,
                                                    DownlinkCodec::kSums, DownlinkCodec::kTernary};

/// Small, ragged, empty and multi-chunk tensors; options_of() sends "plain" as fp32 and "half" as bf16.
inline Layout mixed_layout() {
  Layout layout;
  layout.add("conv/weights", {9, 500});
  layout.add("conv/biases", {7});
  layout.add("empty", {0});
  layout.add("fc/weights", {8193});
  layout.add("one", {1});
  layout.add("plain", {101});
  layout.add("half", {35});
  return layout;
}

inline CompressedAllReduceOptions options_of(ExchangeAlgorithm algorithm,
                                             DownlinkCodec downlink_codec = DownlinkCodec::kFloat32) {
  CompressedAllReduceOptions options;
  options.algorithm = algorithm;
  options.downlink_codec = downlink_codec;
  options.seed = 77;
  options.run_id = 99;
  options.codecs.rules = {{"plain", "fp32"}, {"half", "bf16"}};
  return options;
}

/// Ternary options of the default codec; default options if it is another codec.
inline TernaryOptions ternary_of(const CompressedAllReduceOptions& options) {
  SpecReader reader(parse_codec_spec(options.codecs.codec));
  return options.codecs.codec.starts_with("ternary") ? read_ternary_options(reader) : TernaryOptions{};
}

/// Description for failure messages.
inline std::string options_text(const CompressedAllReduceOptions& options) {
  return word_of(options.algorithm) + ", " + word_of(options.downlink_codec) + ", " + options.codecs.codec;
}

inline std::vector<std::string> codecs_of(const CompressedAllReduce& exchange, const Layout& layout) {
  std::vector<std::string> names;
  for (int t = 0; t < layout.num_segments(); ++t) names.push_back(exchange.plan().codec_of(t).name());
  return names;
}

inline std::vector<Tensors> worker_gradients(const Layout& layout, int num_workers, std::uint64_t seed = 0) {
  std::vector<Tensors> workers;
  for (int w = 0; w < num_workers; ++w) {
    workers.push_back(gaussian_tensors(layout, seed * 100 + static_cast<std::uint64_t>(w) + 1, 1.0 + 0.1 * w));
  }
  return workers;
}

inline std::vector<TensorTable> tables(const std::vector<Tensors>& workers, int first, int count) {
  std::vector<TensorTable> result;
  for (int w = first; w < first + count; ++w) result.push_back(workers[static_cast<std::size_t>(w)].table);
  return result;
}

inline CompressedAllReduce local_exchange(const Layout& layout, int num_workers,
                                          const CompressedAllReduceOptions& options, MessageFilter filter = {}) {
  return {layout, {make_worker_group(num_workers, make_self_communicator()), std::move(filter)}, options};
}

/// The algorithm of an exchange of all tensors, with kAuto resolved.
inline ExchangeAlgorithm algorithm_of(CompressedAllReduce& exchange) {
  return exchange.whole().rounds().front()->route().algorithm;
}

/// Exchanges a step in these parts.
inline ExchangeReport exchange_in(const Buckets& parts, CompressedAllReduce& exchange,
                                  std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) {
  exchange.begin(step);
  for (const std::vector<int>& segments : parts) exchange.exchange(segments, gradients, mean);
  return exchange.finish();
}

/// The report of a step; the text of NonFiniteError if it throws that.
template <class Call>
ExchangeReport report_of(const Call& call) {
  try {
    return call();
  } catch (const NonFiniteError& error) {
    ExchangeReport stopped;
    stopped.nonfinite = std::string("thrown: ") + error.what();
    stopped.skipped = true;
    return stopped;
  }
}

inline ::testing::AssertionResult same_bits(const std::vector<std::vector<float>>& expected, const Tensors& found) {
  for (std::size_t t = 0; t < expected.size(); ++t) {
    for (std::size_t i = 0; i < expected[t].size(); ++i) {
      if (bits_of(expected[t][i]) != bits_of(found.values[t][i])) {
        return ::testing::AssertionFailure() << "tensor " << t << " element " << i << ": expected " << expected[t][i]
                                             << ", found " << found.values[t][i];
      }
    }
  }
  return ::testing::AssertionSuccess();
}

/// Runs CompressedAllReduce in one process and expects the mean of ReferenceExchange.
inline void expect_reference(const Layout& layout, const std::vector<Tensors>& workers,
                             const CompressedAllReduceOptions& options, std::uint64_t step, const std::string& what) {
  const auto num_workers = static_cast<int>(workers.size());
  CompressedAllReduce exchange = local_exchange(layout, num_workers, options);
  Tensors mean = blank_tensors(layout);
  exchange.exchange(tables(workers, 0, num_workers), mean.table, step);
  ReferenceExchange reference{
      layout, codecs_of(exchange, layout), ternary_of(options), options.downlink_codec, options.seed, step, {}, {}, {}};
  ASSERT_TRUE(same_bits(reference.run(workers), mean)) << what;
}

/// The mean of five workers is bit-identical for all `algorithms`, in messages and in payloads at fixed
/// places.
inline void expect_one_mean(const std::string& codec, std::span<const ExchangeAlgorithm> algorithms,
                            DownlinkCodec downlink = DownlinkCodec::kFloat32) {
  constexpr WorkerRange kWorkers{.num_workers = 5, .first_local_worker = 0, .num_local_workers = 5};
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, kWorkers.num_workers);
  const std::vector<TensorTable> gradients = tables(workers, 0, kWorkers.num_workers);
  const Tensors expected = blank_tensors(layout);
  bool is_first = true;
  for (const ExchangeAlgorithm algorithm : algorithms) {
    CompressedAllReduceOptions options = options_of(algorithm, downlink);
    options.codecs.codec = codec;
    const Tensors in_messages = blank_tensors(layout);
    CompressedAllReduce exchange(layout, make_worker_group(kWorkers.num_workers, make_self_communicator()), options);
    exchange.exchange(gradients, (is_first ? expected : in_messages).table, 5);
    const Tensors in_slots = blank_tensors(layout);
    CompressedAllReduce device(layout, {kWorkers, make_self_device_communicator()}, options, Stream(Device::cpu(), 2));
    device.exchange(gradients, in_slots.table, 5);
    if (!is_first) {
      EXPECT_TRUE(same_bits(expected.values, in_messages)) << options_text(options);
    }
    EXPECT_TRUE(same_bits(expected.values, in_slots)) << "in slots, " << options_text(options);
    is_first = false;
  }
}

}  // namespace terngrad::testing
