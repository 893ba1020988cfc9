#include "compress/transport/downlink_payloads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "support/exchanges.h"
#include "support/thread_device_communicator.h"

namespace terngrad::downlink_payloads_test {
namespace {

using testing::mixed_layout;

std::vector<WorkerRange> ranks_of(int num_workers, int size) {
  std::vector<WorkerRange> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(worker_range(num_workers, rank, size));
  return ranks;
}

/// Three bytes per element, except in tensor 4, which sends nothing.
std::int64_t bytes_of(const Slice& slice) { return slice.segment == 4 ? 0 : 3 * slice.count; }

DownlinkPayloads shards_of(const std::vector<WorkerRange>& ranks, int rank, bool travels) {
  const std::vector<std::vector<Slice>> whole = {whole_segments(mixed_layout())};
  return {travels ? shards(mixed_layout(), ranks[0].num_workers) : whole,
          {.ranks = ranks, .rank = rank, .travels = travels, .bytes_of = bytes_of},
          Device::cpu()};
}

/// Byte `at` of the payload of a slice.
std::uint8_t byte_of(const Slice& slice, std::int64_t at) {
  return static_cast<std::uint8_t>(31 * slice.segment + 7 * (slice.first / kChunkElements) + at % 5 + 1);
}

TEST(DownlinkPayloads, BringEveryRankTheOthersParts) {
  for (const int num_workers : {4, 5, 13}) {
    for (const int size : {1, 2, 3, 4}) {
      const std::vector<WorkerRange> ranks = ranks_of(num_workers, size);
      const auto errors = testing::run_device_ranks(size, [&](const std::shared_ptr<DeviceCommunicator>& communicator) {
        DownlinkPayloads mean = shards_of(ranks, communicator->rank(), /*travels=*/true);
        Stream stream(Device::cpu(), 1);
        for (const MeanPart& part : mean.parts()) {
          for (std::int64_t i = 0; part.is_own && i < part.bytes; ++i) part.outgoing[i] = byte_of(part.slice, i);
        }
        mean.gather(*communicator, stream);
        for (const MeanPart& part : mean.parts()) {
          EXPECT_EQ(reinterpret_cast<std::uintptr_t>(part.incoming) % 16, 0u);
          for (std::int64_t i = 0; i < part.bytes; ++i) ASSERT_EQ(part.incoming[i], byte_of(part.slice, i));
        }
      });
      for (const auto& error : errors) {
        if (error) std::rethrow_exception(error);
      }
    }
  }
}

TEST(DownlinkPayloads, AreTheShardsOfTheLayoutAndOwnedByTheirWorkersRank) {
  const std::vector<WorkerRange> ranks = ranks_of(5, 3);
  DownlinkPayloads mean = shards_of(ranks, 1, /*travels=*/true);
  std::vector<Slice> expected;
  std::vector<int> expected_shards;
  const auto all = shards(mixed_layout(), 5);
  for (std::size_t shard = 0; shard < all.size(); ++shard) {
    for (const Slice& slice : all[shard]) {
      if (bytes_of(slice) == 0) continue;
      expected.push_back(slice);
      expected_shards.push_back(static_cast<int>(shard));
    }
  }
  ASSERT_EQ(mean.parts().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const MeanPart& part = mean.parts()[i];
    EXPECT_EQ(part.slice, expected[i]);
    EXPECT_EQ(part.shard, expected_shards[i]);
    EXPECT_EQ(part.bytes, bytes_of(part.slice));
    EXPECT_EQ(part.is_own, part.shard >= ranks[1].first_local_worker && part.shard < ranks[2].first_local_worker);
  }
}

TEST(DownlinkPayloads, OfAServerAreWholeAndTheFirstRanks) {
  for (const int size : {1, 2, 3}) {
    const std::vector<WorkerRange> ranks = ranks_of(5, size);
    ExchangeBytes sum;
    const auto errors = testing::run_device_ranks(size, [&](const std::shared_ptr<DeviceCommunicator>& communicator) {
      const int rank = communicator->rank();
      DownlinkPayloads mean(
          shards(mixed_layout(), 1),
          {.ranks = ranks, .rank = rank, .owners = ShardOwners::kServers, .travels = true, .bytes_of = bytes_of},
          Device::cpu());
      Stream stream(Device::cpu(), 1);
      for (const MeanPart& part : mean.parts()) {
        EXPECT_EQ(part.is_own, rank == 0);
        for (std::int64_t i = 0; part.is_own && i < part.bytes; ++i) part.outgoing[i] = byte_of(part.slice, i);
      }
      mean.gather(*communicator, stream);
      for (const MeanPart& part : mean.parts()) {
        for (std::int64_t i = 0; i < part.bytes; ++i) ASSERT_EQ(part.incoming[i], byte_of(part.slice, i));
      }
      ExchangeBytes bytes;
      mean.add_bytes(bytes);
      EXPECT_EQ(bytes.servers.sent > 0, rank == 0);
      static std::mutex mutex;
      const std::lock_guard lock(mutex);
      sum += bytes;
    });
    for (const auto& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    // To all workers except the one in the server's process.
    EXPECT_EQ(sum.servers.received, 0);
    EXPECT_EQ(sum.mean.received, sum.servers.sent) << size;
    EXPECT_EQ(sum.mean.sent, 0);
  }
}

TEST(DownlinkPayloads, ThatStayAreWholeTensorsOfEveryRank) {
  const std::vector<WorkerRange> ranks = ranks_of(5, 3);
  DownlinkPayloads mean = shards_of(ranks, 2, /*travels=*/false);
  std::vector<Slice> whole = whole_segments(mixed_layout());
  std::erase_if(whole, [](const Slice& slice) { return bytes_of(slice) == 0; });
  ASSERT_EQ(mean.parts().size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(mean.parts()[i].slice, whole[i]);
    EXPECT_TRUE(mean.parts()[i].is_own);
  }
  ExchangeBytes bytes;
  mean.add_bytes(bytes);
  EXPECT_EQ(bytes.sent_bytes() + bytes.received_bytes(), 0);
}

TEST(DownlinkPayloads, TakeTheBytesOfTheDownlinksForms) {
  CodecPlanOptions options = testing::options_of(ExchangeAlgorithm::kAuto).codecs;
  options.context.num_workers = 5;
  const CodecPlan plan(mixed_layout(), options);
  const std::vector<WorkerRange> ranks = ranks_of(5, 3);
  for (const DownlinkCodec codec : testing::kDownlinkCodecs) {
    for (const bool travels : {false, true}) {
      const DownlinkForms forms(plan, codec, 5, travels);
      DownlinkPayloads mean(mixed_layout(), plan, forms, {.ranks = ranks, .rank = 1}, Device::cpu());
      // Codes are drawn into a payload even if it stays.
      EXPECT_EQ(mean.parts().empty(), !travels && codec != DownlinkCodec::kTernary);
      for (const MeanPart& part : mean.parts()) {
        const bool is_codes = part.slice.segment < 5;
        const std::int64_t count = part.slice.count;
        const std::int64_t expected = codec == DownlinkCodec::kBfloat16               ? (2 * count + 3) / 4 * 4
                                      : !is_codes || codec == DownlinkCodec::kFloat32 ? 4 * count
                                      : codec == DownlinkCodec::kSums ? payload_bytes(CodeFormat::kLanes, count, 5)
                                                                      : payload_bytes(CodeFormat::kT2, count, 5);
        EXPECT_EQ(part.bytes, expected) << word_of(codec) << ' ' << part.slice.segment;
      }
    }
  }
}

TEST(DownlinkPayloads, CountEachShareOnceForEachOtherWorker) {
  for (const int size : {1, 2, 5}) {
    const std::vector<WorkerRange> ranks = ranks_of(5, size);
    ExchangeBytes sum;
    for (int rank = 0; rank < size; ++rank) shards_of(ranks, rank, /*travels=*/true).add_bytes(sum);
    std::int64_t all = 0;
    for (const auto& shard : shards(mixed_layout(), 5)) {
      for (const Slice& slice : shard) all += (bytes_of(slice) + 15) / 16 * 16;
    }
    EXPECT_EQ(sum.mean.sent, 4 * all);
    EXPECT_EQ(sum.mean.received, 4 * all);
  }
  const std::vector<WorkerRange> one = ranks_of(1, 1);
  ExchangeBytes alone;
  shards_of(one, 0, /*travels=*/true).add_bytes(alone);
  EXPECT_EQ(alone.sent_bytes() + alone.received_bytes(), 0);
}

}  // namespace
}  // namespace terngrad::downlink_payloads_test
