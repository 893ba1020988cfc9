// Overlapped exchanges on GPUs: results and reports equal those of runs without overlap.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/copy.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/errors.h"
#include "tests/nets/branched_net.h"
#include "tests/support/bits.h"
#include "tests/support/cuda_device.h"
#include "tests/support/sanitized.h"
#include "tests/trainers/device_runs.h"
#include "trainers/optim/flat_range.h"
#include "trainers/optim/gradient_transform.h"
#include "trainers/optim/worker_gradients.h"

namespace terngrad::device_trainer_overlap_test {
namespace {

using testing::DeviceRun;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::make_device_trainer;
using testing::Meeting;
using testing::state_bits;
class CudaDeviceTrainerOverlap : public testing::CudaTest {};

/// Final state and reports of a run, without times.
struct Result {
  std::vector<std::uint32_t> parameters;
  std::vector<std::uint32_t> chief;  // all state, first process
  std::vector<double> losses;
  std::vector<std::int64_t> sent, received, zeroed;
  std::vector<std::string> nonfinite;
  std::vector<bool> skipped;
};

/// Number of processes, and GPUs per process.
struct Split {
  int processes = 1;
  int gpus = 1;
};

/// @throws the first process's exception
Result result_of(DeviceRun run, const Split& split = {}) {
  run.num_replicas = split.gpus;
  if (split.processes > 1) run.gpus = std::make_shared<Meeting>(split.processes * split.gpus);
  Result result;
  std::mutex mutex;
  std::vector<std::vector<std::uint32_t>> parameters(static_cast<std::size_t>(split.processes));
  const auto errors = testing::run_ranks(split.processes, [&](const std::shared_ptr<Communicator>& communicator) {
    DeviceRun own = run;
    own.run.communicator = communicator;
    const std::unique_ptr<DeviceTrainer> trainer = make_device_trainer(own);
    trainer->add_hook(every_steps(1, [&](const TrainingView&, const StepView& step) {
      result.losses.push_back(step.loss);
      result.sent.push_back(step.report.sent_bytes());
      result.received.push_back(step.report.received_bytes());
      result.zeroed.push_back(step.transform_counts.zeroed_elements);
      result.nonfinite.push_back(step.report.nonfinite);
      result.skipped.push_back(step.report.skipped);
      return HookVerdict::kContinue;
    }));
    trainer->run();
    const std::lock_guard lock(mutex);
    parameters[static_cast<std::size_t>(communicator->rank())] = testing::bits_of(trainer->parameters());
    if (communicator->rank() == 0) result.chief = state_bits(*trainer);
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  EXPECT_THAT(parameters, Each(parameters[0]));
  result.parameters = parameters[0];
  return result;
}

/// Two submitted steps, the first directly and the second into a graph, and one replayed step.
DeviceRun small_run(const std::string& codec) {
  return {
      .run = {.num_workers = 4, .codec = codec, .total_steps = 3, .batch_size = 4, .net = test::branched_net(0.6f)}};
}

DeviceRun with_buckets(DeviceRun run, std::int64_t bucket_bytes, bool overlap = true) {
  run.run.bucket_bytes = bucket_bytes;
  run.run.overlap = overlap;
  return run;
}

/// One bucket per tensor, and several tensors per bucket.
constexpr std::int64_t kBucketBytes[] = {1, 1500};

// Contracts B2 and B3.
TEST_F(CudaDeviceTrainerOverlap, ChangesNothing) {
  for (const char* codec : {"fp32", "ternary"}) {
    const Result whole = result_of(small_run(codec));
    for (const std::int64_t bytes : kBucketBytes) {
      if (testing::kIsSanitized && bytes != 1) continue;
      const Result in_buckets = result_of(with_buckets(small_run(codec), bytes, false));
      EXPECT_EQ(in_buckets.chief, whole.chief) << codec << " " << bytes;
      EXPECT_EQ(in_buckets.losses, whole.losses);
      const Result overlapped = result_of(with_buckets(small_run(codec), bytes));
      EXPECT_EQ(overlapped.chief, whole.chief) << codec << " " << bytes;
      for (const Split& split : {Split{1, 2}, Split{2, 1}}) {
        const Result of_ranks = result_of(with_buckets(small_run(codec), bytes), split);
        EXPECT_EQ(of_ranks.parameters, whole.parameters) << codec << " " << bytes << " " << split.processes;
        EXPECT_EQ(of_ranks.losses, whole.losses);
        EXPECT_EQ(of_ranks.sent, in_buckets.sent) << codec << " " << bytes << " " << split.processes;
        EXPECT_EQ(of_ranks.received, in_buckets.received);
      }
    }
  }
}

TEST_F(CudaDeviceTrainerOverlap, ExchangesChangeNothing) {
  for (const DownlinkCodec downlink_codec : {DownlinkCodec::kFloat32, DownlinkCodec::kTernary}) {
    DeviceRun run = small_run("ternary");
    run.downlink_codec = downlink_codec;
    run.algorithm = ExchangeAlgorithm::kAllGather;
    const Result gathered = result_of(run);
    for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kScatterReduce, ExchangeAlgorithm::kIntegerSum}) {
      run.algorithm = algorithm;
      for (const Split& split : {Split{1, 1}, Split{1, 2}}) {
        EXPECT_EQ(result_of(with_buckets(run, 1), split).parameters, gathered.parameters)
            << word_of(algorithm) << ", " << word_of(downlink_codec);
      }
    }
  }
}

TEST_F(CudaDeviceTrainerOverlap, StepsOfAnotherExchangeAndWithoutGraphsChangeNothing) {
  DeviceRun floating = small_run("ternary");
  floating.run.total_steps = 5;
  floating.floating_from = 2;
  EXPECT_EQ(result_of(with_buckets(floating, 1)).chief, result_of(floating).chief);
  DeviceRun waiting = small_run("ternary");
  waiting.format = "tmask";  // makes the host wait in each bucket
  EXPECT_EQ(result_of(with_buckets(waiting, 1)).chief, result_of(waiting).chief);
}

// Within a burst nothing waits for the host: only events separate a step's exchange from the passes around it.
TEST_F(CudaDeviceTrainerOverlap, BurstsOfStepsWithoutGraphsChangeNothing) {
  const auto bits_after = [](const DeviceRun& run) {
    const std::unique_ptr<DeviceTrainer> trainer = make_device_trainer(run);
    trainer->run();
    return state_bits(*trainer);
  };
  DeviceRun run = small_run("ternary");
  run.run.total_steps = 7;
  const auto whole = bits_after(run);
  run.captures = false;
  for (const std::int64_t bytes : kBucketBytes) EXPECT_EQ(bits_after(with_buckets(run, bytes)), whole) << bytes;
}

/// Makes elements of some tensors infinite in all workers' gradients.
class Spoil final : public GradientTransform {
 public:
  explicit Spoil(const Layout& layout) : layout_(layout), infinity_(1, Device::cuda()) {
    Stream stream(Device::cuda());
    copy<float>(std::vector<float>{std::numeric_limits<float>::infinity()}, infinity_.span(), stream);
    stream.synchronize();
  }
  std::string name() const override { return "spoil"; }
  bool is_per_tensor() const override { return true; }
  void submit(const float*, const WorkerGradients& gradients, const FlatRange& range, TransformCounts*,
              Stream& stream) override {
    for (const int segment : {2, 5}) {
      const std::int64_t at = layout_.segment(segment).offset;
      if (at < range.first || at >= range.first + range.count) continue;
      for (int w = 0; w < gradients.num_workers; ++w) {
        copy<float>(infinity_.span(), std::span<float>(gradients.buffers.of(w) + at, 1), stream);
      }
    }
  }

 private:
  const Layout& layout_;
  Buffer<float> infinity_;
};

DeviceRun spoiled_run(OnNonfinite on_nonfinite, bool nan_to_zero = false) {
  DeviceRun run = small_run("ternary");
  run.run.on_nonfinite = on_nonfinite;
  run.transforms = [nan_to_zero](const Net& net) {
    std::vector<std::unique_ptr<GradientTransform>> transforms;
    transforms.push_back(std::make_unique<Spoil>(net.layout()));
    if (nan_to_zero) transforms.push_back(make_nan_to_zero());
    return transforms;
  };
  return run;
}

TEST_F(CudaDeviceTrainerOverlap, NonFiniteTensorsInAnyBucketDropOrZeroTheStepAsWithout) {
  for (const OnNonfinite policy : {OnNonfinite::kSkip, OnNonfinite::kZero}) {
    const Result whole = result_of(spoiled_run(policy));
    EXPECT_THAT(whole.nonfinite,
                Each(HasSubstr("of worker 0 holds NaN or infinity, or is too large for the codec (and 7 more)")));
    EXPECT_THAT(whole.skipped, Each(policy == OnNonfinite::kSkip));
    for (const std::int64_t bytes : kBucketBytes) {
      for (const Split& split : {Split{1, 1}, Split{1, 2}}) {
        const Result overlapped = result_of(with_buckets(spoiled_run(policy), bytes), split);
        EXPECT_EQ(overlapped.parameters, whole.parameters);
        EXPECT_EQ(overlapped.nonfinite, whole.nonfinite) << bytes;
        EXPECT_EQ(overlapped.skipped, whole.skipped);
      }
    }
  }
}

std::string words_of_stop(const DeviceRun& run, const Split& split) {
  try {
    result_of(run, split);
  } catch (const NonFiniteError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_F(CudaDeviceTrainerOverlap, StopNamesTheSameTensor) {
  const std::string whole = words_of_stop(spoiled_run(OnNonfinite::kStop), {});
  EXPECT_THAT(whole, HasSubstr("step 0: tensor '"));
  for (const std::int64_t bytes : kBucketBytes) {
    for (const Split& split : {Split{1, 1}, Split{1, 2}, Split{2, 1}}) {
      EXPECT_EQ(words_of_stop(with_buckets(spoiled_run(OnNonfinite::kStop), bytes), split), whole);
    }
  }
}

TEST_F(CudaDeviceTrainerOverlap, TransformsAreAppliedAndCounted) {
  const Result whole = result_of(spoiled_run(OnNonfinite::kStop, /*nan_to_zero=*/true));
  EXPECT_THAT(whole.zeroed, Each(8));
  for (const Split& split : {Split{1, 1}, Split{2, 1}}) {
    const Result overlapped = result_of(with_buckets(spoiled_run(OnNonfinite::kStop, true), 1), split);
    EXPECT_EQ(overlapped.parameters, whole.parameters);
    EXPECT_EQ(overlapped.zeroed, whole.zeroed);
  }
}

TEST_F(CudaDeviceTrainerOverlap, WhatNeedsWholeGradientsIsRefused) {
  DeviceRun run = with_buckets(small_run("fp32"), 1);
  run.clip_by_global_norm = 1;
  EXPECT_THROW(make_device_trainer(run), InvalidArgument);
  run.run.overlap = false;
  EXPECT_NO_THROW(make_device_trainer(run));
}

TEST_F(CudaDeviceTrainerOverlap, DecodesWhatWasSentAsWithout) {
  const auto sent_of = [](const DeviceRun& run) {
    std::vector<float> sent;
    const std::unique_ptr<Trainer> trainer = make_device_trainer(run);
    trainer->add_hook(every_steps(1, [&](const TrainingView& training, const StepView& step) {
      for (int index = 0; index < training.net.layout().num_segments(); ++index) {
        std::vector<float> out(static_cast<std::size_t>(training.net.layout().segment(index).num_elements));
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
  EXPECT_EQ(sent_of(with_buckets(small_run("ternary"), 1)), sent_of(small_run("ternary")));
}

/// Submitted work, in order.
using Log = std::vector<std::string>;

/// Records announced tensors and the end of the pass.
class WatchedNet final : public DeviceNet {
 public:
  WatchedNet(std::unique_ptr<DeviceNet> inner, Log& log) : inner_(std::move(inner)), log_(log) {}
  const std::string& name() const override { return inner_->name(); }
  const Layout& layout() const override { return inner_->layout(); }
  const Layout& state_layout() const override { return inner_->state_layout(); }
  ImageShape image_shape() const override { return inner_->image_shape(); }
  int num_classes() const override { return inner_->num_classes(); }
  Device device() const override { return inner_->device(); }
  bool is_regularized(int segment) const override { return inner_->is_regularized(segment); }
  std::vector<int> gradient_order() const override { return inner_->gradient_order(); }
  void initialize(std::uint64_t seed, std::span<float> parameters) const override {
    inner_->initialize(seed, parameters);
  }
  void initialize_state(std::span<float> state) const override { inner_->initialize_state(state); }
  Stream& stream() override { return inner_->stream(); }
  std::vector<std::string> notes() const override { return inner_->notes(); }
  void submit_gradients(const float* parameters, const DeviceBatch& batch, WorkerBuffers<float> gradients,
                        WorkerLoss* losses, const SegmentSubmitted& on_segment) override {
    SegmentSubmitted watched;
    if (on_segment) {
      watched = [&](int segment) {
        log_.push_back("tensor " + std::to_string(segment));
        on_segment(segment);
      };
    }
    inner_->submit_gradients(parameters, batch, gradients, losses, watched);
    log_.emplace_back("end of the pass");
  }
  void submit_predict(const float* parameters, const float* state, const float* images, int num_examples,
                      float* logits) override {
    inner_->submit_predict(parameters, state, images, num_examples, logits);
  }
  void compute_gradients(std::span<const float> parameters, const TrainBatch& batch, std::span<float* const> gradients,
                         std::span<WorkerLoss> losses, const SegmentReady& on_segment_ready) override {
    inner_->compute_gradients(parameters, batch, gradients, losses, on_segment_ready);
  }
  void predict(std::span<const float> parameters, std::span<const float> state, std::span<const float> images,
               int num_examples, std::span<float> logits) override {
    inner_->predict(parameters, state, images, num_examples, logits);
  }

 private:
  std::unique_ptr<DeviceNet> inner_;
  Log& log_;
};

/// A group of one rank that calls a function before each gather, with its number and stream.
class WatchedGroup final : public DeviceCommunicator {
 public:
  using OnGather = std::function<void(int call, const Stream& stream)>;
  explicit WatchedGroup(OnGather on_gather) : on_gather_(std::move(on_gather)) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void check() override {}

 protected:
  void submit_all_gather(std::span<const DeviceGather>, Stream& stream) override { on_gather_(calls_++, stream); }
  void submit_all_reduce_sum(std::span<std::uint64_t>, Stream&) override {}
  void submit_all_reduce_max(std::span<std::uint32_t>, Stream&) override {}
  void submit_all_to_all(const std::uint8_t*, std::span<const ByteRange>, std::uint8_t*, std::span<const ByteRange>,
                         Stream&) override {}
  void submit_broadcast(std::span<std::uint8_t>, int, Stream&) override {}

 private:
  OnGather on_gather_;
  int calls_ = 0;
};

/// Work submitted by the first step of a run with one bucket per tensor.
Log log_of(bool overlap) {
  Log log;
  Stream* of_net = nullptr;
  DeviceRun run = with_buckets(small_run("ternary"), 1, overlap);
  run.run.total_steps = 1;
  run.algorithm = ExchangeAlgorithm::kAllGather;
  run.wrap_net = [&](std::unique_ptr<DeviceNet> net) {
    of_net = &net->stream();
    return std::make_unique<WatchedNet>(std::move(net), log);
  };
  run.communicator_of = [&](int) {
    return std::make_shared<WatchedGroup>([&](int, const Stream& stream) {
      log.emplace_back(stream.native() == of_net->native() ? "gather in the stream" : "gather beside");
    });
  };
  make_device_trainer(run)->run();
  // The same work is submitted to a graph.
  EXPECT_EQ(log.size() % 2, 0u);
  EXPECT_TRUE(std::equal(log.begin(), log.begin() + static_cast<std::ptrdiff_t>(log.size() / 2),
                         log.begin() + static_cast<std::ptrdiff_t>(log.size() / 2)));
  log.resize(log.size() / 2);
  return log;
}

TEST_F(CudaDeviceTrainerOverlap, SubmitsABucketAsSoonAsItIsComputed) {
  // Each bucket gathers scalers and payloads.
  const std::unique_ptr<DeviceNet> net =
      make_device_net(test::branched_net(0.6f), {testing::kSmallImage, testing::kSmallImage, 1}, 10, {},
                      MathMode::kFp32, Stream(Device::cuda()));
  Log overlapped;
  Log after = {"end of the pass"};
  for (const int segment : net->gradient_order()) {
    overlapped.push_back("tensor " + std::to_string(segment));
    for (int gathering = 0; gathering < 2; ++gathering) {
      overlapped.emplace_back("gather beside");
      after.emplace_back("gather in the stream");
    }
  }
  overlapped.emplace_back("end of the pass");
  EXPECT_EQ(log_of(true), overlapped);
  EXPECT_EQ(log_of(false), after);
}

TEST_F(CudaDeviceTrainerOverlap, AFailedExchangeEndsTheRunWithItsMessage) {
  const int per_step = static_cast<int>(log_of(false).size()) - 1;
  // In the first bucket and later ones, in the direct step and in the captured one.
  for (const int fails_at : {0, 5, per_step - 1, per_step, per_step + 5}) {
    DeviceRun run = with_buckets(small_run("ternary"), 1);
    run.algorithm = ExchangeAlgorithm::kAllGather;  // as in the log
    run.communicator_of = [fails_at](int) {
      return std::make_shared<WatchedGroup>([fails_at](int call, const Stream&) {
        if (call == fails_at) throw CommunicationError("a peer is gone");
      });
    };
    const std::unique_ptr<Trainer> trainer = make_device_trainer(run);
    try {
      trainer->run();
      FAIL() << "nothing was thrown";
    } catch (const CommunicationError& error) {
      EXPECT_STREQ(error.what(), "a peer is gone");
    }
    for (const float parameter : trainer->parameters()) EXPECT_TRUE(std::isfinite(parameter));
  }
}

}  // namespace
}  // namespace terngrad::device_trainer_overlap_test
