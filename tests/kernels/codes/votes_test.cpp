#include "kernels/codes/votes.h"

#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/slice.h"
#include "support/codes/vote_cases.h"
#include "support/simd_targets.h"

namespace terngrad::votes_test {
namespace {

using testing::expect_majorities;
using testing::VoteCase;

void expect_majority(const VoteCase& c, int num_threads = 1) {
  Stream stream(Device::cpu(), num_threads);
  expect_majorities({&c, 1}, stream);
}

TEST(VoteCounter, GivesTheMajorityAtRaggedLengths) {
  testing::for_each_target([&](const std::string&) {
    for (const std::int64_t n : {0, 1, 31, 32, 33, 63, 64, 65, 511, 512, 513, 4095, 4096, 4097, 9001}) {
      for (const int workers : {3, 4}) {
        expect_majority({.num_workers = workers, .count = n});
        expect_majority({.num_workers = workers, .count = n, .lanes = true, .workers_each = workers});
      }
    }
  });
}

TEST(VoteCounter, CountsAnyNumberOfWorkers) {
  testing::for_each_target([&](const std::string&) {
    for (int workers = 1; workers <= 34; ++workers) expect_majority({.num_workers = workers, .count = 700});
    for (const int workers : {127, 128, 255, 256, 300}) expect_majority({.num_workers = workers, .count = 130});
  });
  expect_majority({.num_workers = kMaxSummedWorkers, .count = 33});
}

TEST(VoteCounter, AddsUpLanesOfSomeOrAllWorkers) {
  for (const int workers : {1, 2, 3, 5, 8, 31, 200}) {
    for (const int each : {1, 2, workers}) {
      expect_majority({.num_workers = workers, .count = 4500, .lanes = true, .workers_each = each});
    }
  }
}

TEST(VoteCounter, TakesAScalePerBlockAnyAlignmentAndThreads) {
  for (const bool lanes : {false, true}) {
    for (const std::int64_t block : {64, 192, 4096, 4160, 1 << 20}) {
      for (std::size_t start = 0; start < 16; start += 5) {
        expect_majority({.num_workers = 4,
                         .count = 9001,
                         .first = 12288,
                         .block_elements = block,
                         .lanes = lanes,
                         .misalignment = start},
                        1 + static_cast<int>(start % 4));
      }
    }
  }
}

TEST(VoteCounter, TakesManyTasks) {
  std::vector<VoteCase> cases;
  for (const int workers : {2, 20}) {
    for (const std::int64_t count : {70, 0, 4097}) {
      cases.push_back({.num_workers = workers, .count = count});
      cases.push_back({.num_workers = workers, .count = count, .lanes = true});
    }
  }
  Stream stream(Device::cpu(), 3);
  expect_majorities(cases, stream);
}

TEST(VoteCounter, StoresLargeMeansPastTheCachesWithTheSameValues) {
  // From 2^24 elements on, targets that can use streaming stores.
  expect_majority({.num_workers = 2, .count = (std::int64_t{1} << 24) + 65}, 2);
}

TEST(VoteCounter, PassesNanOn) {
  testing::VoteCase c{.num_workers = 2, .count = 100};
  Stream stream(Device::cpu(), 1);
  testing::PreparedVotes votes(c, stream);
  const auto nan = std::bit_cast<float>(0x7fc00123u);
  CodeSumTask task = votes.task();
  task.scales = &nan;
  VoteCounter().run({&task, 1}, stream);
  for (std::int64_t i = 0; i < c.count; ++i) EXPECT_EQ(std::bit_cast<std::uint32_t>(task.out[i]), 0x7fc00123u);
}

TEST(VoteCounter, RefusesWhatItCannotHonour) {
  Stream stream(Device::cpu(), 1);
  const VoteCase c{.num_workers = 3, .count = 100};
  testing::PreparedVotes votes(c, stream);
  const auto refused = [&](auto change) {
    CodeSumTask task = votes.task();
    change(task);
    EXPECT_THROW(VoteCounter().run({&task, 1}, stream), InvalidArgument);
  };
  refused([](CodeSumTask& task) { task.format = CodeFormat::kT2; });
  refused([](CodeSumTask& task) { task.num_workers = 4; });
  refused([](CodeSumTask& task) { task.count = 200; });
  refused([](CodeSumTask& task) { task.first = 64; });
  refused([](CodeSumTask& task) { task.block_elements = 96; });
  refused([](CodeSumTask& task) {
    task.payloads = {};
    task.payload_bytes = {};
    task.num_workers = 0;
  });
  refused([](CodeSumTask& task) {
    task.format = CodeFormat::kLanes;
    task.lane_levels = 2;
  });
}

}  // namespace
}  // namespace terngrad::votes_test
