// Downlink between ranks that are threads, in CPU memory, compared with Downlink in one process.
#include "compress/exchange/device/device_downlink.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "compress/codecs/ternary_spec.h"
#include "compress/exchange/codec_shards.h"
#include "compress/exchange/device/device_payloads.h"
#include "compress/exchange/downlink.h"
#include "compress/exchange/wire_bytes.h"
#include "kernels/runtime/errors.h"
#include "support/exchanges.h"
#include "support/thread_device_communicator.h"

namespace terngrad::device_downlink_test {
namespace {

using testing::blank_tensors;
using testing::mixed_layout;
using testing::Tensors;

constexpr int kWorkers = 5;
constexpr std::uint64_t kSeed = 77;
constexpr std::uint64_t kStep = 12;

CodecPlan plan_of(const Layout& layout, const TernaryOptions& ternary) {
  CodecPlanOptions options = testing::options_of(ExchangeAlgorithm::kAuto).codecs;
  options.codec = ternary_spec(ternary);
  options.context.num_workers = kWorkers;
  return {layout, options};
}

/// One rank's downlink, with coders whose scalers are shared.
struct Leg {
  Layout layout = mixed_layout();
  CodecPlan plan;
  CoderSetup setup;
  std::vector<WorkerRange> ranks;
  std::unique_ptr<DevicePayloads> payloads;
  std::vector<std::unique_ptr<Coder>> coders;
  std::unique_ptr<DeviceDownlink> leg;
  Stream stream{Device::cpu(), 1};

  Leg(DownlinkCodec codec, bool travels, DeviceCommunicator& communicator, const TernaryOptions& ternary = {})
      : plan(plan_of(layout, ternary)) {
    for (int r = 0; r < communicator.size(); ++r) ranks.push_back(worker_range(kWorkers, r, communicator.size()));
    setup = {.layout = layout,
             .workers = ranks[static_cast<std::size_t>(communicator.rank())],
             .seed = kSeed,
             .drops_nonfinite_steps = true,
             .device = Device::cpu()};
    payloads = make_gathered_payloads(
        {.layout = layout, .plan = plan, .ranks = ranks, .rank = communicator.rank(), .device = Device::cpu()});
    const std::vector<Tensors> gradients = testing::worker_gradients(layout, kWorkers);
    const auto local = testing::tables(gradients, setup.workers.first_local_worker, setup.workers.num_local_workers);
    NonfiniteReport report;
    std::uint32_t skip = 0;
    const std::uint32_t stop_latched = 0;
    for (std::size_t g = 0; g < plan.groups().size(); ++g) {
      const CodecPlan::Group& group = plan.groups()[g];
      coders.push_back(group.codec->make_coder(setup, group.segments, payloads->slots(g)));
      coders.back()->measure(local, {kStep, nullptr}, stream);
      const DeviceGather gather = coders.back()->gather_scalers(ranks);
      communicator.all_gather({&gather, 1}, stream);
      coders.back()->combine_scalers(&report, &skip, &stop_latched, stream);
    }
    leg = std::make_unique<DeviceDownlink>(
        setup, plan, coders,
        DeviceDownlink::Options{.codec = codec, .ranks = ranks, .rank = communicator.rank(), .travels = travels});
  }

  /// Integer sums for the tensors that are aggregated to sums, means for the others.
  Tensors aggregated() const {
    Tensors tensors = testing::gaussian_tensors(layout, 3);
    for (int t = 0; t < layout.num_segments(); ++t) {
      if (!leg->wants_sums(static_cast<std::size_t>(plan.group_of(t)))) continue;
      for (float& value : tensors.values[static_cast<std::size_t>(t)]) {
        value = std::clamp(std::round(2 * value), -5.0f, 5.0f);
      }
    }
    return tensors;
  }
  /// Shared scalers of all tensors, in the plan's order.
  std::vector<float> shared() const {
    std::vector<float> scalers;
    for (int t = 0; t < layout.num_segments(); ++t) {
      const Coder& coder = *coders[static_cast<std::size_t>(plan.group_of(t))];
      const auto row = coder.shared_scalers();
      const auto count = static_cast<std::size_t>(plan.first_scaler(t + 1) - plan.first_scaler(t));
      const auto first = row.begin() + coder.first_scaler({t, 0, layout.segment(t).num_elements});
      scalers.insert(scalers.end(), first, first + static_cast<std::ptrdiff_t>(count));
    }
    return scalers;
  }
  void submit(const Tensors& mean, DeviceCommunicator& communicator) {
    leg->submit(mean.table, {kStep, nullptr}, communicator, stream, nullptr);
  }
};

/// Result of Downlink.
Tensors expected_of(Leg& leg, DownlinkCodec codec) {
  const std::vector<std::vector<Slice>> whole = {whole_segments(leg.layout)};
  Downlink reference(leg.layout, leg.plan, whole, {.codec = codec, .num_workers = kWorkers, .seed = kSeed});
  Tensors mean = leg.aggregated();
  std::vector<std::uint32_t> max(static_cast<std::size_t>(leg.plan.num_scalers()), 0u);
  reference.measure(0, mean.table, max, leg.stream);
  MessageWriter writer;
  const MessageContext context{1, 2, kStep};
  const auto bytes = reference.encode(0, 0, mean.table, leg.shared(), max, context, writer, leg.stream);
  Message message;
  read_message(bytes, MessageKind::kMean, context, leg.layout, message);
  reference.decode(0, message, mean.table, leg.stream);
  return mean;
}

template <class Body>
void as_ranks(int size, const Body& body) {
  const auto errors = testing::run_device_ranks(
      size, [&](const std::shared_ptr<DeviceCommunicator>& communicator) { body(*communicator); });
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

void expect_downlink_bits(DownlinkCodec codec, const TernaryOptions& ternary) {
  for (const int size : {1, 2, 3, 5}) {
    as_ranks(size, [&](DeviceCommunicator& communicator) {
      Leg leg(codec, /*travels=*/true, communicator, ternary);
      // This rank has only its own shards; the rest must come from the others.
      const Tensors aggregated = leg.aggregated();
      Tensors mean = blank_tensors(leg.layout);
      for (auto& values : mean.values) std::ranges::fill(values, std::numeric_limits<float>::quiet_NaN());
      const auto all = shards_by_codec(leg.layout, leg.plan, kWorkers);
      for (int w = 0; w < leg.setup.workers.num_local_workers; ++w) {
        for (const Slice& slice : all[static_cast<std::size_t>(leg.setup.workers.first_local_worker + w)]) {
          std::copy_n(aggregated.table.slice(slice), slice.count, mean.table.slice(slice));
        }
      }
      leg.submit(mean, communicator);
      ASSERT_TRUE(testing::same_bits(expected_of(leg, codec).values, mean))
          << to_string(codec) << ", rank " << communicator.rank() << " of " << size;
    });
  }
}

TEST(DeviceDownlink, BringsShardsBackAsTheDownlinkOfMessagesDoes) {
  for (const DownlinkCodec codec : testing::kDownlinkCodecs) {
    expect_downlink_bits(codec, {});
    expect_downlink_bits(codec, {.scope = ScalerScope::kBlock, .block_elements = 192});
    expect_downlink_bits(codec, {.scope = ScalerScope::kBlock, .block_elements = 8192, .format = TernaryFormat::kT5});
    expect_downlink_bits(codec, {.scope = ScalerScope::kModel, .format = TernaryFormat::kTMask});
  }
}

TEST(DeviceDownlink, DoesTheSameToAMeanThatStays) {
  for (const DownlinkCodec codec : {DownlinkCodec::kFloat32, DownlinkCodec::kBfloat16, DownlinkCodec::kTernary}) {
    as_ranks(2, [&](DeviceCommunicator& communicator) {
      Leg leg(codec, /*travels=*/false, communicator, {.scope = ScalerScope::kBlock, .block_elements = 4096});
      Tensors mean = leg.aggregated();
      leg.submit(mean, communicator);
      ASSERT_TRUE(testing::same_bits(expected_of(leg, codec).values, mean)) << to_string(codec);
      ExchangeBytes bytes;
      leg.leg->add_bytes(bytes);
      EXPECT_EQ(bytes.sent_bytes() + bytes.received_bytes(), 0);
    });
  }
}

TEST(DeviceDownlink, WantsSumsOfCodesThatTravelAsSumsOrAreDrawnAgain) {
  const auto self = make_self_device_communicator();
  for (const bool travels : {false, true}) {
    for (const DownlinkCodec codec : testing::kDownlinkCodecs) {
      const Leg leg(codec, travels, *self);
      const bool wants = codec == DownlinkCodec::kTernary || (codec == DownlinkCodec::kSums && travels);
      for (std::size_t g = 0; g < leg.plan.groups().size(); ++g) {
        EXPECT_EQ(leg.leg->wants_sums(g), wants && leg.plan.groups()[g].codec->traits().summable);
      }
    }
  }
}

TEST(DeviceDownlink, CountsWhatEveryShareTakes) {
  // Bytes of a slice.
  const auto bytes_of = [](DownlinkCodec codec, const Slice& slice) -> std::int64_t {
    const bool is_codes = slice.segment < 5;
    if (codec == DownlinkCodec::kBfloat16) return (2 * slice.count + 3) / 4 * 4;
    if (!is_codes || codec == DownlinkCodec::kFloat32) return 4 * slice.count;
    const TernaryFormat format = codec == DownlinkCodec::kSums ? TernaryFormat::kLanes : TernaryFormat::kT2;
    return payload_bytes(format, slice.count, kWorkers);
  };
  // One number for the scaler of each ternary tensor that is not empty.
  const auto max_bytes = [](DownlinkCodec codec) {
    return codec == DownlinkCodec::kTernary ? all_reduce_bytes(4 * 4, kWorkers) : 0;
  };
  for (const DownlinkCodec codec : testing::kDownlinkCodecs) {
    std::vector<std::int64_t> shard_bytes;
    std::int64_t all = 0;
    const Layout layout = mixed_layout();
    for (const auto& shard : shards_by_codec(layout, plan_of(layout, {}), kWorkers)) {
      shard_bytes.push_back(0);
      for (const Slice& slice : shard) shard_bytes.back() += (bytes_of(codec, slice) + 15) / 16 * 16;
      all += shard_bytes.back();
    }
    as_ranks(3, [&](DeviceCommunicator& communicator) {
      const Leg leg(codec, /*travels=*/true, communicator);
      std::int64_t own = 0;
      const WorkerRange& workers = leg.setup.workers;
      for (int w = 0; w < workers.num_local_workers; ++w) {
        own += shard_bytes[static_cast<std::size_t>(workers.first_local_worker + w)];
      }
      ExchangeBytes bytes;
      leg.leg->add_bytes(bytes);
      EXPECT_EQ(bytes.mean.sent - max_bytes(codec) * workers.num_local_workers, own * (kWorkers - 1));
      EXPECT_EQ(bytes.mean.received - max_bytes(codec) * workers.num_local_workers,
                workers.num_local_workers * all - own);
    });
  }
}

TEST(DeviceDownlink, RefusesCodesWithoutASharedScaler) {
  const auto self = make_self_device_communicator();
  const TernaryOptions unshared{.sharing = ScalerSharing::kNone};
  for (const bool travels : {false, true}) {
    EXPECT_THROW(Leg(DownlinkCodec::kSums, travels, *self, unshared), InvalidArgument);
    EXPECT_THROW(Leg(DownlinkCodec::kTernary, travels, *self, unshared), InvalidArgument);
    EXPECT_NO_THROW(Leg(DownlinkCodec::kBfloat16, travels, *self, unshared));
  }
}

}  // namespace
}  // namespace terngrad::device_downlink_test
