// Times are those of threads in this process; the tests check what the model makes of them.
#include "compress/cost/link_probe.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "compress/cost/compared_codecs.h"
#include "compress/cost/exchange_probe.h"
#include "compress/cost/sample_gradient.h"
#include "compress/exchange/vendor_codecs.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/layout.h"
#include "support/thread_communicator.h"

namespace terngrad::link_probe_test {
namespace {

Layout small_layout() {
  Layout layout;
  layout.add("weights", {100, 30});
  layout.add("biases", {100});
  return layout;
}

/// Each sum takes a given time; counts the sums.
class SlowLibrary final : public Communicator {
 public:
  SlowLibrary(std::shared_ptr<Communicator> inner, double seconds) : inner_(std::move(inner)), seconds_(seconds) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void all_gather(Parcels& mine, Parcels& all) override { inner_->all_gather(mine, all); }
  void all_to_all(std::span<Parcels>, Parcels&) override { FAIL() << "not of these exchanges"; }
  void all_reduce_sum(std::span<std::uint64_t>) override { FAIL() << "not of these exchanges"; }
  void all_reduce_max(std::span<std::uint32_t>) override { FAIL() << "not of these exchanges"; }
  void broadcast(std::span<std::uint8_t>, int) override { FAIL() << "not of these exchanges"; }
  void barrier() override { inner_->barrier(); }
  void vendor_sum(const FloatSpan& values) override {
    ++num_sums;
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
    inner_->vendor_sum(values);
  }
  int num_sums = 0;

 private:
  std::shared_ptr<Communicator> inner_;
  double seconds_;
};

struct Probed {
  std::vector<ExchangeCost> of_ranks;
  int num_sums = 0;  // number on rank 0
};

/// Probes the library's all-reduce.
Probed probe(int num_ranks, double seconds, const LinkModel& link, LinkProbeOptions options) {
  options.exchange.vendor_type = vendor_element_type(options.codec);
  const Layout layout = small_layout();
  Buffer<float> gradient(layout.flat_elements());
  fill_sample_gradient(gradient.span(), 1, 1);
  Probed probed{.of_ranks = std::vector<ExchangeCost>(static_cast<std::size_t>(num_ranks))};
  std::mutex mutex;
  const auto errors = testing::run_ranks(num_ranks, [&](const std::shared_ptr<Communicator>& communicator) {
    const auto library = std::make_shared<SlowLibrary>(communicator, seconds);
    const ExchangeCost cost = probe_link(library, layout, gradient.span(), link, options);
    const std::lock_guard lock(mutex);
    probed.of_ranks[static_cast<std::size_t>(communicator->rank())] = cost;
    if (communicator->rank() == 0) probed.num_sums = library->num_sums;
  });
  for (const auto& error : errors) EXPECT_EQ(error, nullptr);
  return probed;
}

TEST(LinkProbe, OnThisLinkAnExchangeTakesWhatWasMeasured) {
  const LinkModel link{0.001, 1e6};
  const Probed probed = probe(2, 0.02, link, {.codec = "bf16", .num_workers = 3, .repetitions = 2});
  const ExchangeCost& cost = probed.of_ranks[0];
  EXPECT_EQ(cost.codec, "bf16");
  EXPECT_EQ(cost.exchange, "vendor");
  EXPECT_EQ(cost.wire.rounds, 0);
  EXPECT_GE(cost.wire.bytes, 0.02 * 1e6);
  EXPECT_EQ(cost.check_seconds, 0);
  EXPECT_GT(cost.encode_seconds, 0);
  EXPECT_GT(cost.decode_seconds, 0);
  EXPECT_EQ(cost.seconds(link), cost.processor_seconds() + cost.wire.bytes / 1e6);
  EXPECT_EQ(probed.of_ranks[1].wire.bytes, cost.wire.bytes);
  EXPECT_EQ(probed.of_ranks[1].encode_seconds, cost.encode_seconds);
}

TEST(LinkProbe, OnALinkWithoutABandwidthTimeIsWork) {
  for (const auto& [codec, bytes] : {std::pair{"fp32", 4.0}, {"fp16", 2.0}}) {
    const ExchangeCost cost = probe(4, 0.02, kNoLink, {.codec = codec, .num_workers = 4, .repetitions = 1}).of_ranks[0];
    EXPECT_EQ(cost.wire.bytes, 3100 * bytes * 2 * 3 / 4);
    EXPECT_EQ(cost.moved_bytes, cost.wire.bytes);
    EXPECT_GE(cost.check_seconds, 0.02);
    EXPECT_EQ(cost.seconds(kNoLink), cost.processor_seconds());
  }
}

TEST(LinkProbe, StopsWhenItHasTakenEnough) {
  // One warm-up and five; one that is long enough by itself; one and at most two more.
  EXPECT_EQ(probe(2, 0, kNoLink, {.num_workers = 2, .repetitions = 5, .enough_seconds = 60}).num_sums, 6);
  EXPECT_EQ(probe(2, 0.05, kNoLink, {.num_workers = 2, .repetitions = 5, .enough_seconds = 0.04}).num_sums, 1);
  EXPECT_LE(probe(2, 0.05, kNoLink, {.num_workers = 2, .repetitions = 5, .enough_seconds = 0.12}).num_sums, 3);
}

TEST(LinkProbe, StopsWhenOthersAreFaster) {
  // One warm-up, and two samples above a millisecond.
  const Probed probed = probe(2, 0.002, kNoLink, {.num_workers = 2, .repetitions = 5, .beaten_seconds = 0.001});
  EXPECT_EQ(probed.num_sums, 3);
  EXPECT_EQ(probed.of_ranks[0].samples.size(), 2u);
  EXPECT_GE(probed.of_ranks[0].samples[0], 0.002);
  EXPECT_EQ(probed.of_ranks[0].samples, probed.of_ranks[1].samples);
}

/// Probes groups of two workers, of the ranks of this process.
std::vector<ExchangeCost> probe_groups(int num_ranks, const LinkModel& link, const std::string& codec) {
  const Layout layout = small_layout();
  Buffer<float> gradient(layout.flat_elements());
  fill_sample_gradient(gradient.span(), 1, 1);
  std::vector<ExchangeCost> costs(static_cast<std::size_t>(num_ranks));
  const auto errors = testing::run_ranks(num_ranks, [&](const std::shared_ptr<Communicator>& communicator) {
    LinkProbeOptions options{.codec = codec,
                             .exchange = compared_codec(codec, {}),
                             .num_workers = 6,
                             .workers_per_group = 2,
                             .repetitions = 2};
    options.exchange.algorithm = ExchangeAlgorithm::kAllGather;
    const auto rank = static_cast<std::size_t>(communicator->rank());
    costs[rank] = probe_link(communicator, layout, gradient.span(), link, options);
  });
  for (const auto& error : errors) EXPECT_EQ(error, nullptr);
  return costs;
}

TEST(LinkProbe, AGroupMovesTheBytesOfOneWorker) {
  const Layout layout = small_layout();
  Buffer<float> gradient(layout.flat_elements());
  fill_sample_gradient(gradient.span(), 1, 1);
  for (const std::string codec : {"fp32", "t2"}) {
    ProbeOptions three_workers{.exchange = compared_codec(codec, {}), .world = {3, 3}, .repetitions = 1};
    three_workers.exchange.algorithm = ExchangeAlgorithm::kAllGather;
    const double bytes = probe_exchange(layout, gradient.span(), three_workers).moved_bytes;
    for (const int num_ranks : {3, 6}) {
      const std::vector<ExchangeCost> costs = probe_groups(num_ranks, kNoLink, codec);
      EXPECT_EQ(costs[0].workers_per_group, 2);
      EXPECT_GT(bytes, 0);
      EXPECT_EQ(costs[0].moved_bytes, bytes) << codec << " on " << num_ranks << " ranks";
      EXPECT_EQ(costs[0].wire.bytes, bytes);
      EXPECT_GT(costs[0].check_seconds, 0);
      EXPECT_EQ(costs.back().samples, costs[0].samples);
    }
  }
}

TEST(LinkProbe, OnThisLinkGroupsTakeWhatWasMeasured) {
  const LinkModel link{0.001, 1e6};
  const ExchangeCost cost = probe_groups(6, link, "t2")[0];
  EXPECT_EQ(cost.wire.rounds, 0);
  EXPECT_GT(cost.wire.bytes, 0);
  EXPECT_EQ(cost.check_seconds, 0);
  EXPECT_EQ(cost.seconds(link), cost.processor_seconds() + cost.wire.bytes / 1e6);
}

TEST(LinkProbe, RefusesWhatItCannotMeasure) {
  const Layout layout = small_layout();
  Buffer<float> gradient(layout.flat_elements());
  fill_sample_gradient(gradient.span(), 1, 1);
  const std::shared_ptr<Communicator> alone = make_self_communicator();
  const auto of = [&](std::span<const float> values, const LinkProbeOptions& options) {
    return probe_link(alone, layout, values, kNoLink, options);
  };
  EXPECT_THROW(of(gradient.span(), {.num_workers = 4, .workers_per_group = 2}), InvalidArgument);  // two on a rank
  LinkProbeOptions vendor;
  vendor.exchange.vendor_type = ElementType::kFloat32;
  EXPECT_NO_THROW(of(gradient.span(), vendor));
  EXPECT_THROW(of(gradient.span().first(5), vendor), InvalidArgument);
  EXPECT_THROW(of(gradient.span(), {}), InvalidArgument);  // its bytes can be counted
  vendor.repetitions = 0;
  EXPECT_THROW(of(gradient.span(), vendor), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::link_probe_test
