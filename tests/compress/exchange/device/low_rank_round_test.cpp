// Both rounds of low-rank exchanges on a GPU against the CPU, bit for bit.
#include "compress/exchange/low_rank_round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "kernels/runtime/errors.h"
#include "support/codes/low_rank_tensors.h"
#include "support/cuda_device.h"
#include "support/device_exchange.h"
#include "support/device_ranks.h"
#include "support/sanitized.h"

namespace terngrad::device_low_rank_round_test {
namespace {

using ::testing::HasSubstr;
using testing::kLowRankParts;
using testing::kLowRankSpecs;
using testing::kLowRankWhole;
using testing::low_rank_layout;
using testing::low_rank_options;
using testing::Tensors;
using CudaLowRankRound = testing::CudaTest;

constexpr int kWorkers = 4;
constexpr std::uint64_t kSteps = 3;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<Tensors> gradients_of(std::uint64_t step) {
  return testing::worker_gradients(low_rank_layout(), kWorkers, step + 1);
}

/// Exchanges with error feedback on both devices.
class Pair : public testing::ExchangePair {
 public:
  Pair(const CompressedAllReduceOptions& options, const Buckets& buckets, bool overlaps = false,
       const std::shared_ptr<DeviceCommunicator>& communicator = make_self_device_communicator())
      : ExchangePair(low_rank_layout(), kWorkers, options,
                     {.buckets = buckets, .overlaps = overlaps, .memory = "ef", .communicator = communicator}) {}
};

// Contracts B1 and B2.
TEST_F(CudaLowRankRound, HasTheCpusBitsForAnyBuckets) {
  for (const char* spec : kLowRankSpecs) {
    for (const bool overlaps : {false, true}) {
      if (testing::kIsSanitized && !overlaps) continue;
      const ExchangeAlgorithm algorithm = overlaps ? ExchangeAlgorithm::kScatterReduce : ExchangeAlgorithm::kAllGather;
      Pair pair(low_rank_options(spec, algorithm), overlaps ? kLowRankParts : kLowRankWhole, overlaps);
      EXPECT_TRUE(pair.gpu.exchange.codecs_through_host(kLowRankParts).empty());
      for (std::uint64_t step = 0; step < kSteps; ++step) {
        EXPECT_EQ(pair.step(gradients_of(step), step).nonfinite, "");
      }
    }
  }
}

TEST_F(CudaLowRankRound, HasTheSameBitsOnAnyNumberOfRanks) {
  for (const ExchangeAlgorithm algorithm : testing::kAlgorithms) {
    const CompressedAllReduceOptions options = low_rank_options("powersgd:rank=2", algorithm);
    testing::on_device_ranks(3, [&](const std::shared_ptr<DeviceCommunicator>& communicator) {
      Pair pair(options, kLowRankParts, /*overlaps=*/false, communicator);
      for (std::uint64_t step = 0; step < kSteps; ++step) pair.step(gradients_of(step), step);
    });
  }
}

TEST_F(CudaLowRankRound, RunsFromAGraphWithTheStepOnTheDevice) {
  // Without warm start, factors are drawn in each step.
  for (const char* spec : {"powersgd:rank=2", "powersgd:rank=2,warm_start=false"}) {
    Pair(low_rank_options(spec), kLowRankParts, /*overlaps=*/true).steps_from_a_graph(kWorkers);
  }
}

TEST_F(CudaLowRankRound, ADroppedStepLeavesFactorsAndStates) {
  CompressedAllReduceOptions options = low_rank_options("powersgd:rank=2");
  options.on_nonfinite = OnNonfinite::kSkip;
  Pair pair(options, kLowRankParts);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    std::vector<Tensors> gradients = gradients_of(step);
    if (step == 1) gradients[2].values[2][70] = kNan;
    const ExchangeReport report = pair.step(gradients, step);
    EXPECT_EQ(report.skipped, step == 1);
    EXPECT_THAT(report.nonfinite, HasSubstr(step == 1 ? "tensor 'wide' of worker 2" : ""));
    std::vector<float> sent(1600);
    if (step == 1) {
      EXPECT_THROW(pair.gpu.exchange.decode_local(0, 5, sent), InvalidArgument);
    }
  }
}

TEST_F(CudaLowRankRound, AWorkersTensorThatIsNotFiniteCountsAsZerosWhereTheStepGoesOn) {
  for (const char* spec : kLowRankSpecs) {
    CompressedAllReduceOptions options = low_rank_options(spec);
    options.on_nonfinite = OnNonfinite::kZero;
    Pair pair(options, kLowRankWhole);
    for (std::uint64_t step = 0; step < 2; ++step) {
      std::vector<Tensors> gradients = gradients_of(step);
      gradients[1].values[0][33] = step == 0 ? kNan : std::numeric_limits<float>::infinity();
      EXPECT_NE(pair.step(gradients, step).nonfinite, "");
    }
    std::vector<float> sent(4500, 1.0f);
    pair.gpu.exchange.decode_local(1, 0, sent);
    EXPECT_EQ(sent, std::vector<float>(4500, 0.0f));
  }
}

TEST_F(CudaLowRankRound, FactorsThatLeaveTheirRangeAreSaidAsOnTheCpu) {
  // A column of 40 equal numbers: |P| is at most twice them, and |Q| sqrt(40) times: for the first case 0x1.94p127 per
  // worker, whose sum overflows; for the second it overflows in the worker itself.
  struct Case {
    float value;
    int num_workers;
    const char* words;
  };
  for (const Case& c : {Case{0x1p125f, kWorkers, "overflows"}, Case{0x1p126f, 1, "tensor 'square' of worker 0"}}) {
    for (const OnNonfinite policy : {OnNonfinite::kSkip, OnNonfinite::kZero}) {
      CompressedAllReduceOptions options = low_rank_options("powersgd:rank=1");
      options.on_nonfinite = policy;
      Pair pair(options, kLowRankParts);
      std::vector<Tensors> gradients = gradients_of(0);
      for (int worker = 0; worker < kWorkers; ++worker) {
        std::vector<float>& square = gradients[static_cast<std::size_t>(worker)].values[5];
        std::fill_n(square.begin(), square.size(), 0.0f);
        for (std::size_t row = 0; worker < c.num_workers && row < 40; ++row) square[40 * row] = c.value;
      }
      const ExchangeReport report = pair.step(gradients, 0);
      EXPECT_THAT(report.nonfinite, HasSubstr(c.words));
      EXPECT_EQ(report.skipped, policy == OnNonfinite::kSkip);
    }
  }
}

TEST_F(CudaLowRankRound, ExchangesAWholeGradientByOneCall) {
  Pair pair(low_rank_options("powersgd"), {});
  const ExchangeReport report = pair.step(gradients_of(0), 0);
  EXPECT_EQ(report.sent_bytes(), pair.gpu.exchange.bytes().sent_bytes());
}

TEST_F(CudaLowRankRound, PartsThatAreNotKnownBeforehandHaveTheSameBits) {
  Pair pair(low_rank_options("powersgd"), kLowRankParts);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    pair.step(gradients_of(step), step);
    pair.gpu.buckets = step % 2 == 0 ? Buckets{{0, 4}, {5, 3, 2}, {1}} : kLowRankParts;
  }
}

}  // namespace
}  // namespace terngrad::device_low_rank_round_test
