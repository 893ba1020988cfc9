// Votes on a GPU, compared with the majority.
#include "kernels/codes/votes.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "kernels/runtime/errors.h"
#include "support/codes/vote_cases.h"
#include "support/cuda_device.h"

namespace terngrad::cuda_votes_test {
namespace {

using testing::expect_majorities;
using testing::VoteCase;
using CudaVotes = testing::CudaTest;

void expect_majority(const VoteCase& c) {
  Stream stream(Device::cuda());
  expect_majorities({&c, 1}, stream);
}

TEST_F(CudaVotes, AreTheMajorityAtRaggedLengths) {
  for (const std::int64_t n : {0, 1, 3, 4, 5, 31, 32, 33, 63, 65, 127, 129, 4095, 4096, 4097, 9001}) {
    for (const int workers : {3, 4}) {
      expect_majority({.num_workers = workers, .count = n});
      expect_majority({.num_workers = workers, .count = n, .lanes = true, .workers_each = workers});
    }
  }
}

TEST_F(CudaVotes, CountAnyNumberOfWorkers) {
  for (int workers = 1; workers <= 34; ++workers) expect_majority({.num_workers = workers, .count = 150});
  for (const int workers : {127, 128, 255, 256, 300}) expect_majority({.num_workers = workers, .count = 70});
  for (const int workers : {1, 2, 3, 5, 8, 31, 200}) {
    for (const int each : {1, 2, workers}) {
      expect_majority({.num_workers = workers, .count = 170, .lanes = true, .workers_each = each});
    }
  }
}

TEST_F(CudaVotes, HoldAsManyWorkersAsTheyPromise) { expect_majority({.num_workers = kMaxSummedWorkers, .count = 5}); }

TEST_F(CudaVotes, TakeAScalePerBlockAndAnyAlignment) {
  for (const bool lanes : {false, true}) {
    for (const std::int64_t block : {64, 192, 4096, 4160, 1 << 20}) {
      for (std::size_t start = 0; start < 4; ++start) {
        expect_majority({.num_workers = 4,
                         .count = 5001,
                         .first = 12288,
                         .block_elements = block,
                         .lanes = lanes,
                         .misalignment = start});
      }
    }
  }
}

TEST_F(CudaVotes, TakeManyTasksOfAllKindsAtOnce) {
  std::vector<VoteCase> cases;
  for (const int workers : {2, 20}) {
    for (const std::int64_t count : {70, 0, 4097, 1}) {
      cases.push_back({.num_workers = workers, .count = count});
      cases.push_back({.num_workers = workers, .count = count, .lanes = true});
    }
  }
  Stream stream(Device::cuda());
  expect_majorities(cases, stream);
}

TEST_F(CudaVotes, PassNanOnAsTheCanonicalOne) {
  const VoteCase c{.num_workers = 2, .count = 100};
  Stream stream(Device::cuda());
  testing::PreparedVotes votes(c, stream);
  const std::vector<float> nan = {-std::numeric_limits<float>::quiet_NaN()};
  const Buffer<float> scale = testing::to_device<float>(nan, stream);
  Buffer<float> out(c.count, Device::cuda());
  CodeSumTask task = votes.task();
  task.scales = scale.data();
  task.out = out.data();
  VoteCounter(Device::cuda()).run({&task, 1}, stream);
  for (const float value : testing::to_host<float>(out.span(), stream)) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(value), 0x7fc00000u);
  }
}

TEST_F(CudaVotes, RefuseAnotherDevicesStream) {
  Stream cpu(Device::cpu(), 1);
  EXPECT_THROW(VoteCounter(Device::cuda()).run({}, cpu), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_votes_test
