// NCCL calls of an exchange between GPUs, recorded by a stand-in: operations, groups and sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "compress/comm/nccl/nccl_communicator.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "kernels/runtime/captured_graph.h"
#include "support/cuda_device.h"
#include "support/device_exchange.h"
#include "support/recorded_nccl.h"

namespace terngrad::device_compressed_all_reduce_nccl_test {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::RecordedNccl;

/// Two ternary tensors, of two chunks and of one, and one fp32 tensor.
Layout four_chunks() {
  Layout layout;
  layout.add("a", {4096 + 64});
  layout.add("b", {160});
  layout.add("plain", {20});
  return layout;
}

CompressedAllReduceOptions options_of(ExchangeAlgorithm algorithm, DownlinkCodec downlink_codec) {
  CompressedAllReduceOptions options;
  options.algorithm = algorithm;
  options.downlink_codec = downlink_codec;
  options.codecs.rules = {{"plain", "fp32"}};
  return options;
}

CompressedAllReduceOptions vendor(ElementType type) {
  CompressedAllReduceOptions options;
  options.vendor_type = type;
  return options;
}

/// The exchange of rank 1 of 3, with one of `num_workers` workers.
struct RecordedExchange {
  RecordedNccl nccl;
  testing::DeviceExchange rank;

  RecordedExchange(int num_workers, ExchangeAlgorithm algorithm, DownlinkCodec downlink_codec)
      : RecordedExchange(num_workers, options_of(algorithm, downlink_codec)) {}
  RecordedExchange(int num_workers, const CompressedAllReduceOptions& options, const Buckets& buckets = {},
                   bool overlaps = false)
      : rank(four_chunks(), num_workers, options,
             {.buckets = buckets,
              .overlaps = overlaps,
              .communicator = std::make_shared<NcclCommunicator>(NcclUniqueId(), 1, 3, Device::cuda(), nccl)}) {
    nccl.stream = overlaps ? rank.fork->branch(0).native() : rank.stream.native();
    rank.write(testing::worker_gradients(rank.layout, num_workers));
  }
  /// NCCL calls of a step after the first, without addresses.
  std::vector<std::string> calls() {
    for (const std::uint64_t step : {5u, 6u}) {
      nccl.calls.clear();
      rank.submit({step, nullptr});
      rank.stream.synchronize();
    }
    std::vector<std::string> calls;
    for (const std::string& call : std::exchange(nccl.calls, {})) {
      calls.push_back(
          std::regex_replace(call, std::regex(" \\+-?[0-9]+( in(to| place)( \\+-?[0-9]+)?)?| uint8| as 1 stream"), ""));
    }
    return calls;
  }
};

class CudaNcclExchange : public testing::CudaTest {};

/// Scalers of all tensors: two ternary, one fp32, 4 bytes each.
const std::vector<std::string> kScalers = {"group_start", "all_gather 8", "all_gather 4", "group_end"};

std::vector<std::string> after_scalers(const std::vector<std::string>& calls) {
  std::vector<std::string> all = kScalers;
  all.insert(all.end(), calls.begin(), calls.end());
  return all;
}

TEST_F(CudaNcclExchange, GathersAllPayloadsAtOnce) {
  // 4160 and 160 codes of 2 bits, 20 elements of fp32.
  RecordedExchange equal(3, ExchangeAlgorithm::kAllGather, DownlinkCodec::kFloat32);
  EXPECT_THAT(
      equal.calls(),
      ElementsAreArray(after_scalers({"group_start", "all_gather " + std::to_string(1040 + 48 + 80), "group_end"})));
}

TEST_F(CudaNcclExchange, SendsEachPeerItsShardsAndGathersTheirMean) {
  // Shards of 3 workers: chunk 0; chunk 1; tensors b and plain.
  RecordedExchange equal(3, ExchangeAlgorithm::kScatterReduce, DownlinkCodec::kFloat32);
  EXPECT_THAT(equal.calls(),
              ElementsAreArray(after_scalers({"group_start", "send 1024 to 0", "receive 16 from 0", "send 16 to 1",
                                              "receive 16 from 1", "send 128 to 2", "receive 16 from 2", "group_end",
                                              // Equal slots for the shards, each of the largest one's size.
                                              "group_start", "all_gather 16384", "group_end"})));
}

TEST_F(CudaNcclExchange, TernaryMeansAreMeasuredByAllBeforeTheyAreDrawn) {
  RecordedExchange equal(3, ExchangeAlgorithm::kScatterReduce, DownlinkCodec::kTernary);
  EXPECT_THAT(equal.calls(),
              ElementsAreArray(after_scalers({"group_start", "send 1024 to 0", "receive 16 from 0", "send 16 to 1",
                                              "receive 16 from 1", "send 128 to 2", "receive 16 from 2", "group_end",
                                              "group_start", "all_reduce 2 uint32 max", "group_end",  //
                                              "group_start", "all_gather 1024", "group_end"})));
}

TEST_F(CudaNcclExchange, AddsLanesAndGathersTheOtherTensors) {
  // 3 workers take 3 bits: 21 lanes per word.
  RecordedExchange equal(3, ExchangeAlgorithm::kIntegerSum, DownlinkCodec::kFloat32);
  EXPECT_THAT(equal.calls(),
              ElementsAreArray(after_scalers({"group_start", "all_reduce " + std::to_string(200 + 8) + " uint64 sum",
                                              "group_end", "group_start", "all_gather 80", "group_end"})));
}

TEST_F(CudaNcclExchange, RanksOfUnequallyManyWorkersBroadcast) {
  // 4 workers, one on ranks 0 and 1 and two on rank 2; this is rank 1. Of the ternary tensors worker 1 owns chunk 0 and
  // worker 3 the rest; worker 3 owns all the others, which fit in one chunk.
  RecordedExchange unequal(4, ExchangeAlgorithm::kScatterReduce, DownlinkCodec::kBfloat16);
  EXPECT_THAT(unequal.calls(),
              ElementsAre("group_start", "broadcast 8 root 0", "broadcast 8 root 1", "broadcast 16 root 2",
                          "broadcast 4 root 0", "broadcast 4 root 1", "broadcast 8 root 2", "group_end",  //
                          "group_start", "receive 1024 from 0", "send 1024 to 1", "receive 1024 from 1",
                          "send 144 to 2", "receive 2048 from 2", "group_end",  //
                          "group_start", "broadcast 8192 root 1", "broadcast 496 root 2", "group_end"));
}

TEST_F(CudaNcclExchange, AddsAllTensorsAtOnceByTheLibrary) {
  RecordedExchange added(5, vendor(ElementType::kBfloat16));
  EXPECT_THAT(added.calls(), ElementsAre("group_start", "all_reduce 4340 bfloat16 sum", "group_end"));
}

TEST_F(CudaNcclExchange, GoesBucketAfterBucketInTheBranch) {
  for (const bool overlaps : {true, false}) {
    const auto nccl_calls = [&](ExchangeAlgorithm algorithm, const Buckets& buckets) {
      return RecordedExchange(3, options_of(algorithm, DownlinkCodec::kFloat32), buckets, overlaps).calls();
    };
    EXPECT_THAT(nccl_calls(ExchangeAlgorithm::kAllGather, {{1, 2}, {0}}),
                ElementsAre("group_start", "all_gather 4", "all_gather 4", "group_end",  // scalers of b, of plain
                            "group_start", "all_gather " + std::to_string(48 + 80), "group_end",  //
                            "group_start", "all_gather 4", "group_end",                           // scaler of a
                            "group_start", "all_gather 1040", "group_end"));
    // The bucket of "plain" has nothing to sum.
    EXPECT_THAT(nccl_calls(ExchangeAlgorithm::kIntegerSum, {{2}, {0, 1}}),
                ElementsAre("group_start", "all_gather 4", "group_end",   //
                            "group_start", "all_gather 80", "group_end",  //
                            "group_start", "all_gather 8", "group_end",   //
                            "group_start", "all_reduce " + std::to_string(200 + 8) + " uint64 sum", "group_end"));
  }
}

/// Capture fails if the exchange allocates, copies from the host or waits.
void expect_captured(RecordedExchange& recorded) {
  const std::vector<std::string> calls = recorded.calls();
  recorded.nccl.calls.clear();
  const CapturedGraph graph(recorded.rank.stream, [&] { recorded.rank.submit({7, nullptr}); });
  EXPECT_EQ(recorded.nccl.calls.size(), calls.size());
  EXPECT_NO_THROW(graph.launch(recorded.rank.stream));
  recorded.rank.stream.synchronize();
}

TEST_F(CudaNcclExchange, CanBeCaptured) {
  for (const ExchangeAlgorithm algorithm :
       {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce, ExchangeAlgorithm::kIntegerSum}) {
    for (const DownlinkCodec codec :
         {DownlinkCodec::kFloat32, DownlinkCodec::kBfloat16, DownlinkCodec::kSums, DownlinkCodec::kTernary}) {
      RecordedExchange recorded(4, algorithm, codec);
      expect_captured(recorded);
    }
  }
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16, ElementType::kFloat16}) {
    RecordedExchange added(4, vendor(type));
    expect_captured(added);
  }
}

}  // namespace
}  // namespace terngrad::device_compressed_all_reduce_nccl_test
