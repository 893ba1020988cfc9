// Overlapped exchanges: results and reports equal those of runs without overlap.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/nets/branched_net.h"
#include "tests/support/bits.h"
#include "tests/support/sanitized.h"
#include "tests/support/thread_communicator.h"
#include "tests/trainers/small_training.h"
#include "tests/trainers/tensor_transform.h"

namespace terngrad::host_trainer_overlap_test {
namespace {

using ::testing::HasSubstr;
using testing::make_small_trainer;
using testing::only_transform;
using testing::run_ranks;
using testing::SmallRun;
using testing::state_bits;

/// One bucket per tensor, several tensors per bucket, and one bucket.
constexpr std::int64_t kBucketBytes[] = {1, 10'000, 1 << 30};

/// Final state and reports of a run, without times.
struct Result {
  std::vector<std::uint32_t> parameters;
  std::vector<std::uint32_t> chief;  // all state, rank 0
  std::vector<double> losses;
  std::vector<std::int64_t> sent, received, zeroed;
  std::vector<std::string> nonfinite;
  std::vector<bool> skipped;

  friend bool operator==(const Result&, const Result&) = default;
};

/// Runs on `size` ranks. @throws rank 0's exception
Result result_of(const SmallRun& run, int size) {
  Result result;
  std::mutex mutex;
  std::vector<std::vector<std::uint32_t>> parameters(static_cast<std::size_t>(size));
  const auto errors = run_ranks(size, [&](const std::shared_ptr<Communicator>& communicator) {
    SmallRun own = run;
    own.communicator = communicator;
    const std::unique_ptr<Trainer> trainer = make_small_trainer(own);
    trainer->add_hook(every_steps(1, [&](const TrainingView&, const StepView& step) {
      result.losses.push_back(step.loss);
      result.sent.push_back(step.report.sent_bytes());
      result.received.push_back(step.report.received_bytes());
      result.zeroed.push_back(step.transform_counts.zeroed_elements);
      result.nonfinite.push_back(step.report.nonfinite);
      result.skipped.push_back(step.report.skipped);
      EXPECT_GE(step.exposed_seconds, 0);
      EXPECT_GE(step.hidden_seconds, 0);
      EXPECT_TRUE(own.overlap || step.hidden_seconds == 0);
      return HookVerdict::kContinue;
    }));
    trainer->run();
    const std::lock_guard lock(mutex);
    parameters[static_cast<std::size_t>(communicator->rank())] = testing::bits_of(trainer->parameters());
    if (communicator->rank() != 0) return;
    result.chief = state_bits(*trainer);
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  EXPECT_THAT(parameters, ::testing::Each(parameters[0]));
  result.parameters = parameters[0];
  return result;
}

SmallRun small_run(const std::string& codec) { return {.num_workers = 4, .codec = codec, .total_steps = 2}; }

SmallRun with_overlap(SmallRun run, std::int64_t bucket_bytes, bool overlap = true) {
  run.bucket_bytes = bucket_bytes;
  run.overlap = overlap;
  return run;
}

// Contracts B2 and B3.
TEST(HostTrainerOverlap, ChangesNothing) {
  const std::vector<int> sizes = testing::kIsSanitized ? std::vector{1, 3} : std::vector{1, 2, 3, 4};
  for (const char* codec : {"fp32", "bf16", "ternary"}) {
    const Result whole = result_of(small_run(codec), 1);
    for (const std::int64_t bytes : kBucketBytes) {
      const Result in_buckets = result_of(with_overlap(small_run(codec), bytes, false), 1);
      EXPECT_EQ(in_buckets.chief, whole.chief) << codec << " " << bytes;
      EXPECT_EQ(in_buckets.losses, whole.losses);
      for (const int size : sizes) {
        const Result overlapped = result_of(with_overlap(small_run(codec), bytes), size);
        EXPECT_EQ(overlapped.parameters, whole.parameters) << codec << " " << bytes << " " << size;
        EXPECT_EQ(overlapped.losses, whole.losses);
        EXPECT_EQ(overlapped.sent, in_buckets.sent) << codec << " " << bytes << " " << size;
        EXPECT_EQ(overlapped.received, in_buckets.received);
      }
    }
  }
}

TEST(HostTrainerOverlap, ChangesNothingOfDropoutAndMovingStatistics) {
  SmallRun run{
      .num_workers = 4, .codec = "ternary", .total_steps = 3, .batch_size = 4, .net = test::branched_net(0.6f)};
  const Result one = result_of(run, 1);
  const Result four = result_of(run, 4);
  for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{3000}}) {
    EXPECT_EQ(result_of(with_overlap(run, bytes), 1).chief, one.chief) << bytes;
    EXPECT_EQ(result_of(with_overlap(run, bytes), 4).chief, four.chief) << bytes;
  }
}

TEST(HostTrainerOverlap, ChangesNothingForThreads) {
  SmallRun run = small_run("ternary");
  const Result one = result_of(run, 1);
  run.num_threads = 3;
  EXPECT_EQ(result_of(with_overlap(run, 1), 1).chief, one.chief);
  EXPECT_EQ(result_of(with_overlap(run, 1), 2).parameters, one.parameters);
}

/// A run whose gradients are all spoiled in two tensors of different buckets.
SmallRun spoiled_run(OnNonfinite on_nonfinite, bool nan_to_zero = false) {
  SmallRun run = small_run("ternary");
  run.on_nonfinite = on_nonfinite;
  run.transforms = [nan_to_zero](const Net& net) {
    auto transforms = only_transform(net.layout(), [](int segment, std::span<float> gradient) {
      if (segment == 2 || segment == 5) gradient[1] = std::numeric_limits<float>::infinity();
    });
    if (nan_to_zero) transforms.push_back(make_nan_to_zero());
    return transforms;
  };
  return run;
}

TEST(HostTrainerOverlap, NonFiniteTensorsInAnyBucketDropOrZeroTheStepAsWithout) {
  for (const OnNonfinite policy : {OnNonfinite::kSkip, OnNonfinite::kZero}) {
    const Result whole = result_of(spoiled_run(policy), 1);
    for (const std::string& text : whole.nonfinite)
      EXPECT_THAT(text, HasSubstr("worker 0 holds NaN or infinity, or is too large for the codec (and 7"));
    for (const std::int64_t bytes : kBucketBytes) {
      const Result in_buckets = result_of(with_overlap(spoiled_run(policy), bytes, false), 1);
      EXPECT_EQ(in_buckets.chief, whole.chief);
      for (const int size : {1, 2, 4}) {
        const Result overlapped = result_of(with_overlap(spoiled_run(policy), bytes), size);
        EXPECT_EQ(overlapped.parameters, whole.parameters);
        EXPECT_EQ(overlapped.nonfinite, whole.nonfinite) << bytes << " " << size;
        EXPECT_EQ(overlapped.skipped, whole.skipped);
        EXPECT_EQ(overlapped.sent, in_buckets.sent);
      }
    }
  }
}

std::string message_of_stop(const SmallRun& run, int size) {
  try {
    result_of(run, size);
  } catch (const NonFiniteError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(HostTrainerOverlap, StopNamesTheSameTensor) {
  const std::string whole = message_of_stop(spoiled_run(OnNonfinite::kStop), 1);
  EXPECT_THAT(whole, HasSubstr("step 0: tensor 'conv2/weights' of worker 0"));
  for (const std::int64_t bytes : kBucketBytes) {
    for (const int size : {1, 2, 4}) {
      EXPECT_EQ(message_of_stop(with_overlap(spoiled_run(OnNonfinite::kStop), bytes), size), whole);
    }
  }
}

TEST(HostTrainerOverlap, TransformsAreAppliedAndCounted) {
  const Result whole = result_of(spoiled_run(OnNonfinite::kStop, /*nan_to_zero=*/true), 1);
  EXPECT_THAT(whole.zeroed, ::testing::Each(8));
  for (const int size : {1, 2, 4}) {
    const Result overlapped = result_of(with_overlap(spoiled_run(OnNonfinite::kStop, true), 1), size);
    EXPECT_EQ(overlapped.parameters, whole.parameters);
    EXPECT_EQ(overlapped.zeroed, whole.zeroed);
  }
}

TEST(HostTrainerOverlap, WhatNeedsWholeGradientsIsRefused) {
  SmallRun clipped = with_overlap(small_run("fp32"), 1);
  clipped.transforms = [](const Net& net) {
    std::vector<std::unique_ptr<GradientTransform>> transforms;
    transforms.push_back(make_clip_by_global_norm(net.layout(), 1, 4));
    return transforms;
  };
  EXPECT_THROW(make_small_trainer(clipped), InvalidArgument);
}

TEST(HostTrainerOverlap, NothingHangsWhenTheBackwardPassOfOneRankThrows) {
  for (const int fails_at : {7, 4, 0}) {  // before, during and after the exchange of other tensors
    for (const int failing_rank : {0, 1}) {
      std::mutex mutex;
      int lost = 0;
      const auto errors = run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
        SmallRun run = with_overlap(small_run("ternary"), 1);
        run.communicator = communicator;
        run.transforms = [&](const Net& net) {
          return only_transform(net.layout(), [&](int segment, std::span<float>) {
            if (communicator->rank() == failing_rank && segment == fails_at) throw DataError("the net is lost");
          });
        };
        const std::unique_ptr<Trainer> trainer = make_small_trainer(run);
        try {
          trainer->run();
        } catch (const DataError& error) {
          const std::lock_guard lock(mutex);
          lost += std::string(error.what()) == "the net is lost" ? 1 : 0;
          throw;
        }
      });
      for (const auto& error : errors) EXPECT_NE(error, nullptr);
      EXPECT_EQ(lost, 1);
    }
  }
}

/// The communicator of one process; calls a function before each gather, with its number.
class Watched final : public Communicator {
 public:
  explicit Watched(std::function<void(int call)> on_gather) : on_gather_(std::move(on_gather)) {}
  int rank() const override { return self_->rank(); }
  int size() const override { return self_->size(); }
  bool is_alone() const override { return false; }  // must see the exchanged data
  void all_gather(Parcels& mine, Parcels& all) override {
    on_gather_(calls_++);
    self_->all_gather(mine, all);
  }
  void all_to_all(std::span<Parcels> outgoing, Parcels& incoming) override { self_->all_to_all(outgoing, incoming); }
  void all_reduce_sum(std::span<std::uint64_t> values) override { self_->all_reduce_sum(values); }
  void all_reduce_max(std::span<std::uint32_t> values) override { self_->all_reduce_max(values); }
  void broadcast(std::span<std::uint8_t> values, int root) override { self_->broadcast(values, root); }
  void barrier() override { self_->barrier(); }

 private:
  std::unique_ptr<Communicator> self_ = make_self_communicator();
  std::function<void(int)> on_gather_;
  int calls_ = 0;
};

TEST(HostTrainerOverlap, ExchangesWhileTheBackwardPassGoesOn) {
  std::promise<void> exchanged;
  SmallRun run = with_overlap({.num_workers = 1, .codec = "ternary", .total_steps = 1}, 1);
  // Each bucket gathers scalers and gradients: at the third gather the first bucket is done.
  run.communicator = std::make_shared<Watched>([&](int call) {
    if (call == 2) exchanged.set_value();
  });
  // Blocks the backward pass at the first layer until the last layer's exchange is done.
  const std::future<void> has_been_exchanged = exchanged.get_future();
  bool is_in_time = false;
  run.transforms = [&](const Net& net) {
    return only_transform(net.layout(), [&](int segment, std::span<float>) {
      if (segment != 0) return;
      is_in_time = has_been_exchanged.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
    });
  };
  const std::unique_ptr<Trainer> trainer = make_small_trainer(run);
  double hidden = 0;
  trainer->add_hook(every_steps(1, [&](const TrainingView&, const StepView& step) {
    hidden = step.hidden_seconds;
    return HookVerdict::kContinue;
  }));
  trainer->run();
  EXPECT_TRUE(is_in_time);
  EXPECT_GT(hidden, 0);
}

TEST(HostTrainerOverlap, AFailedExchangeEndsTheRunWithItsMessage) {
  for (const int fails_at : {0, 5, 15, 16, 20}) {
    SmallRun run = with_overlap(small_run("ternary"), 1);
    run.communicator = std::make_shared<Watched>([fails_at](int call) {
      if (call == fails_at) throw CommunicationError("a peer is gone");
    });
    const std::unique_ptr<Trainer> trainer = make_small_trainer(run);
    try {
      trainer->run();
      FAIL() << "nothing was thrown";
    } catch (const CommunicationError& error) {
      EXPECT_STREQ(error.what(), "a peer is gone");
    }
  }
}

TEST(HostTrainerOverlap, DecodesWhatWasSentAsWithout) {
  const auto sent_of = [](const SmallRun& run) {
    std::vector<float> sent;
    const std::unique_ptr<Trainer> trainer = make_small_trainer(run);
    trainer->add_hook(every_steps(1, [&](const TrainingView& training, const StepView& step) {
      for (const Segment& segment : training.net.layout().segments()) {
        std::vector<float> out(static_cast<std::size_t>(segment.num_elements));
        const int index = training.net.layout().find(segment.name);
        sent.push_back(step.decode_sent(index, out));
        sent.insert(sent.end(), out.begin(), out.end());
        const auto gradient = step.gradient(index);
        sent.insert(sent.end(), gradient.begin(), gradient.end());
        const auto mean = step.mean(index);
        sent.insert(sent.end(), mean.begin(), mean.end());
      }
      return HookVerdict::kContinue;
    }));
    trainer->run();
    return sent;
  };
  EXPECT_EQ(sent_of(with_overlap(small_run("ternary"), 1)), sent_of(small_run("ternary")));
}

}  // namespace
}  // namespace terngrad::host_trainer_overlap_test
