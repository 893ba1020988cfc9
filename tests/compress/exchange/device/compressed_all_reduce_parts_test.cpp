// Exchanges in parts on a GPU, in one stream and in a branch of it, compared with the CPU's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compress/codecs/ternary_spec.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/errors.h"
#include "support/cuda_device.h"
#include "support/device_exchange.h"
#include "support/device_ranks.h"
#include "support/exchange_parts.h"
#include "support/exchanges.h"
#include "support/sanitized.h"

namespace terngrad::device_compressed_all_reduce_parts_test {
namespace {

using testing::DeviceExchange;
using testing::ExchangePair;
using ::testing::HasSubstr;
using testing::kAllParts;
using testing::kDownlinkCodecs;
using testing::mixed_layout;
using testing::options_of;
using testing::options_text;
using testing::Tensors;
using testing::worker_gradients;
using CudaCompressedAllReduceParts = testing::CudaTest;

/// All valid combinations of algorithm, downlink codec, sharing and scope with buckets.
std::vector<CompressedAllReduceOptions> all_options() {
  std::vector<CompressedAllReduceOptions> all;
  for (const ExchangeAlgorithm algorithm :
       {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce, ExchangeAlgorithm::kIntegerSum}) {
    for (const DownlinkCodec downlink_codec : kDownlinkCodecs) {
      CompressedAllReduceOptions options = options_of(algorithm, downlink_codec);
      options.codecs.codec = "ternary:clip_factor=2.5";
      all.push_back(options);
    }
  }
  for (const ScalerSharing sharing : {ScalerSharing::kMean, ScalerSharing::kNone}) {
    CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAuto);
    TernaryOptions ternary;
    ternary.sharing = sharing;
    ternary.scope = ScalerScope::kBlock;
    ternary.block_elements = 4096;
    options.codecs.codec = ternary_spec(ternary);
    all.push_back(options);
  }
  return all;
}

// Contracts B1 and B2.
TEST_F(CudaCompressedAllReduceParts, HasTheCpusBitsForAnyBuckets) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), 3);
  for (const CompressedAllReduceOptions& options : all_options()) {
    for (const Buckets& parts : kAllParts) {
      for (const bool overlaps : {false, true}) {
        if (testing::kIsSanitized && !overlaps && options.downlink_codec != DownlinkCodec::kFloat32) continue;
        ExchangePair pair(mixed_layout(), 3, options, {.buckets = parts, .overlaps = overlaps});
        // The second time without uploads of tables, for which the host waits.
        for (int time = 0; time < (overlaps ? 2 : 1); ++time) pair.step(workers, 5);
        EXPECT_EQ(pair.gpu.exchange.plan().fingerprint(), pair.cpu.plan().fingerprint());
      }
    }
  }
}

TEST_F(CudaCompressedAllReduceParts, BytesDependOnTheBucketsAlone) {
  const auto bytes_of = [](ExchangeAlgorithm algorithm, const Buckets& parts, bool overlaps) {
    DeviceExchange cuda(mixed_layout(), 3, options_of(algorithm), {.buckets = parts, .overlaps = overlaps});
    cuda.write(worker_gradients(mixed_layout(), 3));
    return cuda.run(5);
  };
  for (const ExchangeAlgorithm algorithm : testing::kAlgorithms) {
    const ExchangeBytes whole = bytes_of(algorithm, {}, false);
    for (const Buckets& parts : kAllParts) {
      const ExchangeBytes beside = bytes_of(algorithm, parts, true);
      const ExchangeBytes after = bytes_of(algorithm, parts, false);
      EXPECT_EQ(beside.sent_bytes(), after.sent_bytes());
      EXPECT_EQ(beside.received_bytes(), after.received_bytes());
      EXPECT_EQ(beside.scalers.sent, whole.scalers.sent);
      if (parts.size() > 1 && algorithm != ExchangeAlgorithm::kAllGather) continue;
      EXPECT_EQ(beside.sent_bytes(), whole.sent_bytes()) << word_of(algorithm);
      EXPECT_EQ(beside.received_bytes(), whole.received_bytes());
    }
  }
}

TEST_F(CudaCompressedAllReduceParts, HasTheSameBitsAndBytesOnAnyNumberOfRanks) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), 4);
  for (const CompressedAllReduceOptions& options : all_options()) {
    ExchangePair alone(mixed_layout(), 4, options, {.buckets = kAllParts[1]});
    const ExchangeBytes all = alone.step(workers, 9);
    for (const int size : {2, 3}) {
      std::vector<ExchangeReport> reports(static_cast<std::size_t>(size));
      testing::on_device_ranks(size, [&](const std::shared_ptr<DeviceCommunicator>& communicator) {
        ExchangePair rank(mixed_layout(), 4, options,
                          {.buckets = kAllParts[1], .overlaps = true, .communicator = communicator});
        // Twice: the second step starts from the state that the first one left.
        for (const std::uint64_t step : {8u, 9u}) {
          reports[static_cast<std::size_t>(communicator->rank())] = rank.step(workers, step);
        }
      });
      ExchangeBytes sum;
      for (const ExchangeReport& report : reports) sum += report;
      EXPECT_EQ(sum.scalers.sent, all.scalers.sent);
      EXPECT_EQ(sum.gradient.sent, all.gradient.sent) << options_text(options);
      EXPECT_EQ(sum.gradient.received, all.gradient.received);
    }
  }
}

TEST_F(CudaCompressedAllReduceParts, AStepIsDroppedAsAWholeWhicheverBucketWasNotFinite) {
  for (const std::vector<Tensors>& workers : testing::damaged_gradients(mixed_layout())) {
    for (const OnNonfinite policy : {OnNonfinite::kStop, OnNonfinite::kSkip, OnNonfinite::kZero}) {
      CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kScatterReduce);
      options.on_nonfinite = policy;
      for (const Buckets& parts : kAllParts) {
        ExchangePair pair(mixed_layout(), 3, options, {.buckets = parts, .overlaps = true, .memory = "ef"});
        EXPECT_NE(pair.step(workers, 4).nonfinite, "");
        EXPECT_EQ(pair.gpu.skip(), policy == OnNonfinite::kZero ? 0u : 1u);
      }
    }
  }
}

TEST_F(CudaCompressedAllReduceParts, AStopIsKeptByLaterStepsAndASkipIsNot) {
  for (const OnNonfinite policy : {OnNonfinite::kStop, OnNonfinite::kSkip}) {
    CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAllGather);
    options.on_nonfinite = policy;
    std::vector<Tensors> workers = worker_gradients(mixed_layout(), 3);
    workers[1].values[0][5] = std::numeric_limits<float>::infinity();  // in the last bucket; earlier ones are finite
    DeviceExchange cuda(mixed_layout(), 3, options, {.buckets = kAllParts[0], .overlaps = true});
    cuda.write(workers);
    cuda.submit({.step = 4});
    cuda.write(worker_gradients(mixed_layout(), 3));
    cuda.submit({.step = 5});
    EXPECT_EQ(cuda.skip(), policy == OnNonfinite::kStop ? 1u : 0u);
    if (policy == OnNonfinite::kSkip) {
      EXPECT_FALSE(cuda.exchange.report(5).skipped);
      continue;
    }
    EXPECT_THAT(testing::report_of([&] { return cuda.exchange.report(5); }).nonfinite,
                HasSubstr("'conv/weights' of worker 1"));
    cuda.exchange.forget_nonfinite();
    cuda.submit({.step = 6});
    EXPECT_EQ(cuda.skip(), 0u);
    EXPECT_NO_THROW(cuda.exchange.report(6));
  }
}

TEST_F(CudaCompressedAllReduceParts, RunsFromAGraphWithTheStepOnTheDevice) {
  for (const bool overlaps : {false, true}) {
    for (const DownlinkCodec codec : {DownlinkCodec::kFloat32, DownlinkCodec::kTernary}) {
      ExchangePair(mixed_layout(), 4, options_of(ExchangeAlgorithm::kScatterReduce, codec),
                   {.buckets = kAllParts[1], .overlaps = overlaps})
          .steps_from_a_graph(4);
    }
  }
  for (const char* spec : {"topk:density=0.05", "topk:scope=block,block=256,density=0.1", "randomk:density=0.1"}) {
    CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kScatterReduce);
    options.codecs.codec = spec;
    for (const char* memory : {"none", "loco:reset=3", "ef21:decay=0.5"}) {
      ExchangePair(mixed_layout(), 4, options, {.buckets = kAllParts[1], .overlaps = true, .memory = memory})
          .steps_from_a_graph(4);
    }
  }
}

// Steps 0 and 1 send a quarter of the elements, steps 2 and 3 a 16th, later ones a 20th.
TEST_F(CudaCompressedAllReduceParts, SendsFewerBytesInEachStageOfAWarmUp) {
  CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAllGather);
  options.codecs.codec = "topk:density=0.05,stage_steps=2";
  ExchangePair pair(mixed_layout(), 2, options, {.buckets = kAllParts[1], .overlaps = true, .memory = "ef"});
  std::vector<std::int64_t> sent;
  for (std::uint64_t step = 0; step < 6; ++step) {
    sent.push_back(pair.step(worker_gradients(mixed_layout(), 2, step), step).gradient.sent);
  }
  EXPECT_EQ(sent, (std::vector<std::int64_t>{sent[0], sent[0], sent[2], sent[2], sent[4], sent[4]}));
  EXPECT_LT(2 * sent[2], sent[0]);
  EXPECT_LT(sent[4], sent[2]);
  // A stage's steps from a graph.
  pair.gpu.exchange.use_codecs_of(7);
  pair.steps_from_a_graph(2);
}

TEST_F(CudaCompressedAllReduceParts, ContinuesAfterAStepThatWasGivenUp) {
  const std::vector<Tensors> workers = worker_gradients(mixed_layout(), 2);
  ExchangePair pair(mixed_layout(), 2, options_of(ExchangeAlgorithm::kAuto),
                    {.buckets = kAllParts[0], .overlaps = true});
  DeviceExchange& cuda = pair.gpu;
  pair.step(workers, 1);
  for (const std::size_t submitted : {0u, 1u, 6u}) {
    // Also during capture: a branch that does not join would invalidate it.
    for (const bool captures : {false, true}) {
      const auto give_up = [&] {
        cuda.begin({.step = 2});
        for (std::size_t part = 0; part < submitted; ++part) cuda.submit_part(cuda.buckets[part]);
        cuda.join();
        throw DataError("the step is lost");
      };
      if (captures) {
        EXPECT_THROW(CapturedGraph(cuda.stream, give_up), DataError);
      } else {
        EXPECT_THROW(give_up(), DataError);
      }
    }
  }
  pair.step(workers, 3);
}

// Contracts B1 and B2: parts differ from step to step, in any order; the last step leaves out some tensors.
TEST_F(CudaCompressedAllReduceParts, HaveTheCpusBitsWhateverThePartsAreInEachStep) {
  const Buckets of_steps[] = {{{6, 5}, {4, 3}, {2, 1, 0}}, {{0, 3}, {6, 1, 5}, {2}, {4}}, {{3}, {1, 0}}};
  const std::pair<const char*, const char*> cases[] = {
      {"ternary:clip_factor=2.5", "ef"},  {"qsgd:bits=4,sharing=max", "none"},       {"sign", "ef:decay=0.5"},
      {"qsgd:bits=4", "loco:reset=2"},    {"topk:density=0.02,stage_steps=1", "ef"}, {"fp32", "none"},
      {"eden:levels=3", "ef21:decay=0.5"}};
  for (const auto& [codec, memory] : cases) {
    CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAuto);
    options.codecs.codec = codec;
    for (const int size : {1, 2}) {
      testing::on_device_ranks(size, [&](const std::shared_ptr<DeviceCommunicator>& communicator) {
        ExchangePair pair(mixed_layout(), 4, options, {.memory = memory, .communicator = communicator});
        for (std::uint64_t step = 0; step < 3; ++step) {
          pair.gpu.buckets = of_steps[step];
          const ExchangeReport report = pair.step(worker_gradients(mixed_layout(), 4, step), step);
          EXPECT_GT(report.sent_bytes(), 0);
          EXPECT_EQ(report.nonfinite, "");
        }
      });
    }
  }
}

}  // namespace
}  // namespace terngrad::device_compressed_all_reduce_parts_test
