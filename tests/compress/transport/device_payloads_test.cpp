// Payloads between ranks that are threads, in CPU memory: slots and movement are the same on all devices.
#include "compress/transport/device_payloads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

#include "compress/plan/codec_plan.h"
#include "compress/route/codec_shards.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/tensor/slice.h"
#include "support/exchanges.h"
#include "support/thread_device_communicator.h"

namespace terngrad::device_payloads_test {
namespace {

constexpr int kWorkers = 5;

using Make = std::unique_ptr<DevicePayloads> (*)(const DevicePayloadsSetup&);

CodecPlan plan_of(const Layout& layout, int num_workers) {
  CodecPlanOptions options = testing::options_of(ExchangeAlgorithm::kAuto).codecs;
  options.context.num_workers = num_workers;
  return {layout, options};
}

struct Rank {
  Layout layout = testing::mixed_layout();
  CodecPlan plan;
  WorkerRange workers;
  std::unique_ptr<DevicePayloads> payloads;
  Stream stream{Device::cpu(), 1};

  Rank(Make make, int num_workers, int rank, int size, bool only_summable = false)
      : plan(plan_of(layout, num_workers)), workers(worker_range(num_workers, rank, size)) {
    DevicePayloadsSetup setup{.layout = layout, .plan = plan, .ranks = {}, .rank = rank, .device = Device::cpu()};
    for (int r = 0; r < size; ++r) setup.ranks.push_back(worker_range(num_workers, r, size));
    if (only_summable) setup.serves = [](const Codec& codec) { return codec.traits().summable; };
    payloads = make(setup);
  }
  std::int64_t bytes_of(const Slice& slice) const {
    return plan.codec_of(slice.segment).max_payload_bytes(slice, PayloadForm::kNatural);
  }
  /// Calls body(slice, worker, slot) for each outgoing slot.
  template <class Body>
  void for_each_outgoing(const Body& body) const {
    const auto n = static_cast<std::size_t>(workers.num_local_workers);
    for (std::size_t g = 0; g < plan.groups().size(); ++g) {
      const PayloadSlots& slots = payloads->slots(g);
      ASSERT_EQ(slots.outgoing.size(), slots.encoded.size() * n);
      for (std::size_t i = 0; i < slots.outgoing.size(); ++i) {
        body(slots.encoded[i / n], workers.first_local_worker + static_cast<int>(i % n), slots.outgoing[i]);
      }
    }
  }
};

/// Payload of worker `worker` for a slice, different for all workers and slices.
std::vector<std::uint8_t> pattern(const Slice& slice, int worker, std::int64_t bytes) {
  std::mt19937 random(static_cast<unsigned>(worker * 1000003 + slice.segment * 10007 + slice.first));
  std::vector<std::uint8_t> result(static_cast<std::size_t>(bytes));
  for (std::uint8_t& byte : result) byte = static_cast<std::uint8_t>(random());
  return result;
}

/// Each rank fills its slots, moves them, and expects the others' payloads in the incoming slots.
void expect_delivery(Make make, int num_workers, int size) {
  const auto errors = testing::run_device_ranks(size, [&](const std::shared_ptr<DeviceCommunicator>& communicator) {
    Rank rank(make, num_workers, communicator->rank(), size);
    rank.for_each_outgoing([&](const Slice& slice, int worker, std::uint8_t* place) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(place) % 16, 0u);
      std::ranges::copy(pattern(slice, worker, rank.bytes_of(slice)), place);
    });
    rank.payloads->submit(*communicator, rank.stream);
    for (std::size_t g = 0; g < rank.plan.groups().size(); ++g) {
      const PayloadSlots& slots = rank.payloads->slots(g);
      if (!slots.aggregated.empty()) {
        EXPECT_EQ(slots.num_payloads, num_workers);
      }
      for (std::size_t i = 0; i < slots.incoming.size(); ++i) {
        const Slice& slice = slots.aggregated[i / static_cast<std::size_t>(num_workers)];
        const auto expected =
            pattern(slice, static_cast<int>(i % static_cast<std::size_t>(num_workers)), rank.bytes_of(slice));
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), slots.incoming[i]))
            << "rank " << communicator->rank() << " of " << size << ", tensor " << slice.segment << " from "
            << slice.first;
      }
    }
  });
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

TEST(DevicePayloads, ComeWhereTheyAreAggregated) {
  for (const int num_workers : {4, 5, 13}) {
    for (const int size : {1, 2, 3, 4}) {
      expect_delivery(make_gathered_payloads, num_workers, size);
      expect_delivery(make_scattered_payloads, num_workers, size);
    }
  }
}

using Key = std::tuple<int, std::int64_t, std::int64_t>;
Key key_of(const Slice& slice) { return {slice.segment, slice.first, slice.count}; }

TEST(DevicePayloads, GatheredAreWholeTensorsForEveryRank) {
  const Rank rank(make_gathered_payloads, kWorkers, 1, 2);
  std::vector<Key> encoded;
  for (std::size_t g = 0; g < rank.plan.groups().size(); ++g) {
    const PayloadSlots& slots = rank.payloads->slots(g);
    EXPECT_EQ(slots.aggregated, slots.encoded);
    EXPECT_EQ(slots.form, PayloadForm::kNatural);
    for (const Slice& slice : slots.encoded) encoded.push_back(key_of(slice));
  }
  std::ranges::sort(encoded);
  std::vector<Key> expected;
  for (const Slice& slice : whole_segments(rank.layout)) {
    if (slice.count > 0) expected.push_back(key_of(slice));
  }
  EXPECT_EQ(encoded, expected);
}

TEST(DevicePayloads, ScatteredAreAggregatedByTheRankOfTheShardsWorker) {
  const Layout layout = testing::mixed_layout();
  const std::vector<std::vector<Slice>> all = shards_by_codec(layout, plan_of(layout, kWorkers), kWorkers);
  std::vector<Key> every;
  for (const auto& shard : all) {
    for (const Slice& slice : shard) every.push_back(key_of(slice));
  }
  std::ranges::sort(every);
  for (int r = 0; r < 3; ++r) {
    const Rank rank(make_scattered_payloads, kWorkers, r, 3);
    std::vector<Key> encoded, aggregated, own;
    for (std::size_t g = 0; g < rank.plan.groups().size(); ++g) {
      for (const Slice& slice : rank.payloads->slots(g).encoded) encoded.push_back(key_of(slice));
      for (const Slice& slice : rank.payloads->slots(g).aggregated) aggregated.push_back(key_of(slice));
    }
    for (int worker = 0; worker < rank.workers.num_local_workers; ++worker) {
      for (const Slice& slice : all[static_cast<std::size_t>(rank.workers.first_local_worker + worker)]) {
        own.push_back(key_of(slice));
      }
    }
    std::ranges::sort(encoded);
    std::ranges::sort(aggregated);
    std::ranges::sort(own);
    EXPECT_EQ(encoded, every);
    EXPECT_EQ(aggregated, own);
  }
}

TEST(DevicePayloads, SummedAreLanesThatHoldTheSumsOfAllWorkers) {
  const auto codes_of = [](const Slice& slice, int worker) {
    std::mt19937 random(static_cast<unsigned>(100 * worker + slice.segment));
    std::vector<std::int8_t> codes(static_cast<std::size_t>(slice.count));
    for (std::int8_t& code : codes) code = static_cast<std::int8_t>(static_cast<int>(random() % 3) - 1);
    return codes;
  };
  for (const int size : {2, 3, 5}) {
    const auto errors = testing::run_device_ranks(size, [&](const std::shared_ptr<DeviceCommunicator>& communicator) {
      Rank rank(make_summed_payloads, kWorkers, communicator->rank(), size, /*only_summable=*/true);
      const auto bytes_of = [](const Slice& slice) {
        return static_cast<std::size_t>(payload_bytes(TernaryFormat::kLanes, slice.count, kWorkers));
      };
      rank.for_each_outgoing([&](const Slice& slice, int worker, std::uint8_t* place) {
        pack_codes(codes_of(slice, worker), TernaryFormat::kLanes, kWorkers, {place, bytes_of(slice)});
      });
      // The second time, results of the first must not count.
      for (int i = 0; i < 2; ++i) rank.payloads->submit(*communicator, rank.stream);
      for (std::size_t g = 0; g < rank.plan.groups().size(); ++g) {
        const PayloadSlots& slots = rank.payloads->slots(g);
        const bool summable = rank.plan.groups()[g].codec->traits().summable;
        EXPECT_EQ(slots.encoded.empty(), !summable);
        EXPECT_EQ(slots.incoming.size(), slots.encoded.size());
        EXPECT_EQ(slots.form, PayloadForm::kLanes);
        for (std::size_t i = 0; i < slots.incoming.size(); ++i) {
          const Slice& slice = slots.aggregated[i];
          std::vector<std::int16_t> sums(static_cast<std::size_t>(slice.count));
          unpack_codes({TernaryFormat::kLanes, {slots.incoming[i], bytes_of(slice)}, slice.count, kWorkers}, 0, sums);
          for (int worker = 0; worker < kWorkers; ++worker) {
            const auto codes = codes_of(slice, worker);
            for (std::size_t e = 0; e < sums.size(); ++e) sums[e] = static_cast<std::int16_t>(sums[e] - codes[e]);
          }
          EXPECT_EQ(std::ranges::count(sums, 0), slice.count) << "tensor " << slice.segment;
        }
      }
    });
    for (const auto& error : errors) {
      if (error) std::rethrow_exception(error);
    }
  }
}

}  // namespace
}  // namespace terngrad::device_payloads_test
