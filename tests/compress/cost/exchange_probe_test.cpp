// Compares the probe's bytes and rounds with exchanges between ranks; times must only be positive.
#include "compress/cost/exchange_probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "compress/comm/all_gather_doubles.h"
#include "compress/comm/metered_communicator.h"
#include "compress/cost/compared_codecs.h"
#include "compress/cost/sample_gradient.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/errors.h"
#include "support/thread_communicator.h"

namespace terngrad::exchange_probe_test {
namespace {

Layout small_layout() {
  Layout layout;
  layout.add("conv/weights", {3, 3, 7, 300});
  layout.add("conv/biases", {300});
  layout.add("logits/weights", {300, 100}, true);
  layout.add("logits/biases", {100}, true);
  return layout;
}

Buffer<float> sample(const Layout& layout) {
  Buffer<float> gradient(layout.flat_elements());
  fill_sample_gradient(gradient.span(), 1, 1);
  return gradient;
}

ProbeOptions options_of(const std::string& codec, ExchangeAlgorithm algorithm, ExchangeWorld world,
                        int num_threads = 1) {
  ProbeOptions options{.codec = codec, .exchange = compared_codec(codec, {}), .world = world, .repetitions = 1};
  options.exchange.algorithm = algorithm;
  options.exchange.num_threads = num_threads;
  return options;
}

/// Algorithms that the codec supports: lanes need ternary codes.
std::vector<ExchangeAlgorithm> algorithms_of(const std::string& codec) {
  std::vector<ExchangeAlgorithm> algorithms{ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce};
  if (codec == "t2" || codec == "t5") algorithms.push_back(ExchangeAlgorithm::kIntegerSum);
  return algorithms;
}

/// Bytes of each round, in the busier direction.
class RoundMeter final : public Communicator {
 public:
  explicit RoundMeter(std::shared_ptr<Communicator> inner) : metered_(std::move(inner)) {}
  const std::vector<double>& rounds() const { return rounds_; }

  int rank() const override { return metered_.rank(); }
  int size() const override { return metered_.size(); }
  void all_gather(Parcels& mine, Parcels& all) override {
    metered_.all_gather(mine, all);
    end_round();
  }
  void all_to_all(std::span<Parcels> outgoing, Parcels& incoming) override {
    metered_.all_to_all(outgoing, incoming);
    end_round();
  }
  void all_reduce_sum(std::span<std::uint64_t> values) override {
    metered_.all_reduce_sum(values);
    end_round();
    end_round();  // two rounds
  }
  void all_reduce_max(std::span<std::uint32_t>) override { FAIL() << "not of these exchanges"; }
  void broadcast(std::span<std::uint8_t>, int) override { FAIL() << "not of these exchanges"; }
  void barrier() override { FAIL() << "not of these exchanges"; }

 private:
  void end_round() {
    rounds_.push_back(static_cast<double>(std::max(metered_.sent_bytes(), metered_.received_bytes())));
    metered_.reset();
  }
  MeteredCommunicator metered_;
  std::vector<double> rounds_;
};

/// Volume of an exchange between ranks: the maximum over ranks in each round.
WireVolume volume_between_ranks(const Layout& layout, const ProbeOptions& options) {
  WireVolume volume;
  const auto errors = testing::run_ranks(options.world.num_processes, [&](const auto& communicator) {
    const auto meter = std::make_shared<RoundMeter>(communicator);
    const WorkerGroup workers = make_worker_group(options.world.num_workers, meter);
    CompressedAllReduce exchange(layout, workers, options.exchange);
    const Buffer<float> gradient = sample(layout);
    const std::vector<TensorTable> tables(static_cast<std::size_t>(workers.num_local_workers),
                                          TensorTable(layout, const_cast<float*>(gradient.data())));
    Buffer<float> mean(layout.flat_elements());
    exchange.exchange(tables, TensorTable(layout, mean.data()), 1);
    const std::vector<double> busiest = max_over_ranks(*communicator, meter->rounds());
    if (communicator->rank() == 0) {
      volume = {std::accumulate(busiest.begin(), busiest.end(), 0.0), static_cast<int>(busiest.size())};
    }
  });
  for (const auto& error : errors) EXPECT_EQ(error, nullptr);
  return volume;
}

TEST(ExchangeProbe, BytesAreThoseOfExchanges) {
  const Layout layout = small_layout();
  const Buffer<float> gradient = sample(layout);
  for (const std::string& codec : compared_codec_names()) {
    for (const ExchangeAlgorithm algorithm : algorithms_of(codec)) {
      for (const ExchangeWorld world : {ExchangeWorld{2, 2}, {4, 2}, {5, 2}, {3, 1}}) {
        SCOPED_TRACE(codec + " " + word_of(algorithm) + " " + std::to_string(world.num_workers) + " over " +
                     std::to_string(world.num_processes));
        const ProbeOptions options = options_of(codec, algorithm, world);
        const ExchangeCost cost = probe_exchange(layout, gradient.span(), options);
        const WireVolume exchanged = volume_between_ranks(layout, options);
        EXPECT_EQ(cost.wire.bytes, exchanged.bytes);
        EXPECT_EQ(cost.wire.rounds, world.num_processes > 1 ? exchanged.rounds : 0);
      }
    }
  }
}

// Both low-rank rounds count, each with scalers; sizes of topk depend on the data.
TEST(ExchangeProbe, BytesAreThoseOfRoundsAndOfSparseMessages) {
  const Layout layout = small_layout();
  const Buffer<float> gradient = sample(layout);
  for (const char* codec : {"powersgd:rank=3", "powersgd", "topk", "topk:scope=block", "randomk"}) {
    for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce}) {
      for (const ExchangeWorld world : {ExchangeWorld{2, 2}, {5, 3}, {3, 1}}) {
        SCOPED_TRACE(std::string(codec) + " " + word_of(algorithm) + " " + std::to_string(world.num_workers));
        const ProbeOptions options = options_of(codec, algorithm, world);
        const ExchangeCost cost = probe_exchange(layout, gradient.span(), options);
        const WireVolume exchanged = volume_between_ranks(layout, options);
        EXPECT_EQ(cost.wire.bytes, exchanged.bytes);
        EXPECT_EQ(cost.wire.rounds, world.num_processes > 1 ? exchanged.rounds : 0);
        EXPECT_GT(cost.encode_seconds, 0);
      }
    }
  }
}

TEST(ExchangeProbe, TimesEveryPart) {
  const Layout layout = small_layout();
  const Buffer<float> gradient = sample(layout);
  for (const ExchangeAlgorithm algorithm : algorithms_of("t2")) {
    // Also with more local workers than threads, which are then encoded in parallel.
    for (const int num_threads : {1, 2, 4}) {
      const ExchangeCost cost =
          probe_exchange(layout, gradient.span(), options_of("t2", algorithm, {6, 2}, num_threads));
      EXPECT_EQ(cost.codec, "t2");
      EXPECT_EQ(cost.exchange, word_of(algorithm));
      EXPECT_GT(cost.encode_seconds, 0);
      EXPECT_GT(cost.check_seconds, 0);
      EXPECT_GT(cost.decode_seconds, 0);
    }
  }
}

TEST(ExchangeProbe, RepetitionsAreSamplesUnlessItIsBeaten) {
  const Layout layout = small_layout();
  const Buffer<float> gradient = sample(layout);
  ProbeOptions options = options_of("t2", ExchangeAlgorithm::kAllGather, {2, 2});
  options.repetitions = 5;
  EXPECT_EQ(probe_exchange(layout, gradient.span(), options).samples.size(), 5u);
  // On a link that takes seconds per round, one second cannot be reached, so two samples suffice.
  options.link = {5, 1e9};
  options.beaten_seconds = 1;
  EXPECT_EQ(probe_exchange(layout, gradient.span(), options).samples.size(), 2u);
  options.beaten_seconds = 1000;
  EXPECT_EQ(probe_exchange(layout, gradient.span(), options).samples.size(), 5u);
}

TEST(ExchangeProbe, LogitsCountAsTheyTravel) {
  const Layout layout = small_layout();
  const Buffer<float> gradient = sample(layout);
  ProbeOptions options = options_of("t2", ExchangeAlgorithm::kAllGather, {2, 2});
  const double with_floats = probe_exchange(layout, gradient.span(), options).wire.bytes;
  options.exchange.codecs.quantize_logits = true;
  // 30100 elements with 2 instead of 32 bits.
  EXPECT_NEAR(with_floats - probe_exchange(layout, gradient.span(), options).wire.bytes, 30100 * 30 / 8, 64);
}

TEST(ExchangeProbe, LanesOfAllTensorsNeedNoMessageOfOthers) {
  const Layout layout = small_layout();
  const Buffer<float> gradient = sample(layout);
  ProbeOptions options = options_of("t2", ExchangeAlgorithm::kIntegerSum, {5, 3});
  options.exchange.codecs.quantize_logits = true;
  const ExchangeCost cost = probe_exchange(layout, gradient.span(), options);
  EXPECT_EQ(cost.wire.rounds, 3);
  EXPECT_EQ(cost.wire.bytes, volume_between_ranks(layout, options).bytes);
}

TEST(ExchangeProbe, RefusesWhatItCannotMeasure) {
  const Layout layout = small_layout();
  const Buffer<float> gradient = sample(layout);
  const auto refuse = [&](const ProbeOptions& options) {
    EXPECT_THROW(probe_exchange(layout, gradient.span(), options), InvalidArgument);
  };
  refuse(options_of("bf16", ExchangeAlgorithm::kIntegerSum, {2, 2}));
  refuse(options_of("t2", ExchangeAlgorithm::kAuto, {2, 2}));
  refuse(options_of("t2", ExchangeAlgorithm::kAllGather, {2, 3}));
  ProbeOptions options = options_of("t2", ExchangeAlgorithm::kAllGather, {2, 2});
  options.repetitions = 0;
  refuse(options);
  options = options_of("t2", ExchangeAlgorithm::kAllGather, {2, 2});
  options.exchange.downlink_codec = DownlinkCodec::kBfloat16;
  refuse(options);
  options = options_of("t2", ExchangeAlgorithm::kAllGather, {2, 2});
  EXPECT_THROW(probe_exchange(layout, gradient.span().first(5), options), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::exchange_probe_test
