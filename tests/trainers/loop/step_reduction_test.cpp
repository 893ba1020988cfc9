#include "trainers/loop/step_reduction.h"

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/support/thread_communicator.h"

namespace terngrad::step_reduction_test {
namespace {

using testing::run_ranks;

constexpr int kNumWorkers = 5;

WorkerLoss loss_of(int worker) { return {.entropy_loss = 0.1 * (worker + 1) / 3, .num_correct = worker}; }

StepSummary summarize_local(const WorkerGroup& workers, bool stop) {
  std::vector<WorkerLoss> losses;
  TransformCounts counts;
  ExchangeReport report;
  for (int local = 0; local < workers.num_local_workers; ++local) {
    const int worker = workers.first_local_worker + local;
    losses.push_back(loss_of(worker));
    counts += {.zeroed_elements = worker, .clipped_gradients = 1};
    report.scalers.sent += 10;
    report.gradient.received += 100 + worker;
    report.mean.sent += 1000;
    report.servers.sent += 7;
    ++report.num_workers;
  }
  return summarize_step(workers, losses, counts, report, stop);
}

TEST(StepSummary, IsTheSameForAnySplit) {
  double sum = 0;
  for (int worker = 0; worker < kNumWorkers; ++worker) sum += loss_of(worker).entropy_loss;
  for (const int size : {1, 2, 3, 5}) {
    const auto errors = run_ranks(size, [&](const std::shared_ptr<Communicator>& communicator) {
      const StepSummary summary = summarize_local(make_worker_group(kNumWorkers, communicator), false);
      EXPECT_EQ(summary.loss, sum / kNumWorkers);  // bit-identical
      EXPECT_EQ(summary.num_correct, 10);
      EXPECT_EQ(summary.counts.zeroed_elements, 10);
      EXPECT_EQ(summary.counts.clipped_gradients, 5);
      EXPECT_EQ(summary.bytes.scalers.sent, 50);
      EXPECT_EQ(summary.bytes.scalers.received, 0);
      EXPECT_EQ(summary.bytes.gradient.received, 510);
      EXPECT_EQ(summary.bytes.mean.sent, 5000);
      EXPECT_EQ(summary.bytes.servers.sent, 35);
      EXPECT_EQ(summary.bytes.num_workers, 5);
      EXPECT_EQ(summary.bytes.num_servers, 0);
      EXPECT_FALSE(summary.stop);
    });
    for (const auto& error : errors) EXPECT_FALSE(error);
  }
}

TEST(StepSummary, TellsAllRanksOfOneThatAsksToStop) {
  for (const int asking : {0, 2}) {
    const auto errors = run_ranks(3, [&](const std::shared_ptr<Communicator>& communicator) {
      const WorkerGroup workers = make_worker_group(kNumWorkers, communicator);
      EXPECT_TRUE(summarize_local(workers, communicator->rank() == asking).stop);
    });
    for (const auto& error : errors) EXPECT_FALSE(error);
  }
}

TEST(StepSummary, OfSeveralStepsAreThoseOfEach) {
  for (const int size : {1, 3}) {
    const auto errors = run_ranks(size, [&](const std::shared_ptr<Communicator>& communicator) {
      const WorkerGroup workers = make_worker_group(kNumWorkers, communicator);
      std::vector<LocalStep> steps(3);
      for (int step = 0; step < 3; ++step) {
        for (int local = 0; local < workers.num_local_workers; ++local) {
          WorkerLoss loss = loss_of(workers.first_local_worker + local);
          loss.entropy_loss += step;
          steps[static_cast<std::size_t>(step)].losses.push_back(loss);
          steps[static_cast<std::size_t>(step)].bytes.mean.received += step;
        }
      }
      const std::vector<StepSummary> summaries = summarize_steps(workers, steps, false);
      ASSERT_EQ(summaries.size(), 3u);
      for (int step = 0; step < 3; ++step) {
        double sum = 0;
        for (int worker = 0; worker < kNumWorkers; ++worker) sum += loss_of(worker).entropy_loss + step;
        EXPECT_EQ(summaries[static_cast<std::size_t>(step)].loss, sum / kNumWorkers);
        EXPECT_EQ(summaries[static_cast<std::size_t>(step)].bytes.mean.received, kNumWorkers * step);
      }
    });
    for (const auto& error : errors) EXPECT_FALSE(error);
  }
}

TEST(StepSummary, RanksHearOfEachOthersFailures) {
  std::mutex mutex;
  std::vector<std::string> heard;
  run_ranks(3, [&](const std::shared_ptr<Communicator>& communicator) {
    const WorkerGroup workers = make_worker_group(kNumWorkers, communicator);
    try {
      if (communicator->rank() == 1) {
        summarize_local(workers, false);
      } else {
        report_failed_steps(workers, "waited until the timeout");
      }
    } catch (const CommunicationError& error) {
      const std::lock_guard lock(mutex);
      heard.emplace_back(error.what());
    }
  });
  EXPECT_EQ(heard, std::vector<std::string>(3, "rank 0: waited until the timeout; rank 2: waited until the timeout"));
}

TEST(StepSummary, RefusesRanksWithOtherWorkers) {
  std::mutex mutex;
  int refused = 0;
  run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
    const WorkerGroup workers = make_worker_group(2, communicator);
    const std::vector<WorkerLoss> losses(communicator->rank() == 0 ? 1 : 2);
    try {
      summarize_step(workers, losses, {}, {}, false);
    } catch (const CommunicationError&) {
      const std::lock_guard lock(mutex);
      ++refused;
    }
  });
  EXPECT_EQ(refused, 2);
}

}  // namespace
}  // namespace terngrad::step_reduction_test
