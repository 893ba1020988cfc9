// Uploads of streamed sets, concurrent with running steps. With deferred streams (SIMT_STREAMS) nothing runs until the
// host waits, so a missing wait changes the batches.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "datasets/device_examples.h"
#include "datasets/shuffle.h"
#include "kernels/runtime/copy.h"
#include "tests/datasets/visited_images.h"
#include "tests/support/bits.h"
#include "tests/support/cuda_device.h"

namespace terngrad::streamed_examples_test {
namespace {

using testing::Batch;
using testing::bits_of;
using testing::expected_batches;
using testing::to_host;
using testing::VisitedImages;

constexpr int kMaxSteps = 3;
constexpr int kPrefetched = 9;  // batches that the host prefetches: more than a test takes at once
constexpr std::int64_t kBatch = 4;
const PipelineOptions kOptions{.batch_size = kBatch, .seed = 7, .prefetch_batches = kPrefetched};

/// Runs steps and copies their batches in stream order, without waiting on the host.
class Stepper {
 public:
  explicit Stepper(std::uint64_t num_steps)
      : expected_(expected_batches(set, kOptions, static_cast<int>(num_steps))),
        images_(static_cast<std::int64_t>(num_steps) * batch_values(), stream.device()),
        labels_(static_cast<std::int64_t>(num_steps) * kBatch, stream.device()) {}

  /// Waits until `count` batches after the first `taken` are ready, that is, the thread reads the next one.
  void await_ready(std::int64_t taken, std::int64_t count) const {
    while (set->num_reads <= (taken + count) * kBatch) std::this_thread::yield();
  }
  void submit(std::uint64_t first_step, std::uint64_t count) {
    for (std::uint64_t step = first_step; step < first_step + count; ++step) {
      examples->submit({.step = step});
      const auto values = static_cast<std::size_t>(batch_values());
      copy<float>({examples->images(), values}, images_.span().subspan(step * values, values), stream);
      copy<std::int32_t>({examples->labels(), std::size_t{kBatch}}, labels_.span().subspan(step * kBatch, kBatch),
                         stream);
    }
  }
  void expect_batches() {
    const std::vector<float> images = to_host<float>(images_.span(), stream);
    const std::vector<std::int32_t> labels = to_host<std::int32_t>(labels_.span(), stream);
    const auto values = static_cast<std::size_t>(batch_values());
    for (std::size_t step = 0; step < expected_.size(); ++step) {
      const auto first_label = labels.begin() + static_cast<std::ptrdiff_t>(step * kBatch);
      const Batch batch{bits_of(std::span(images).subspan(step * values, values)), {first_label, first_label + kBatch}};
      EXPECT_TRUE(batch == expected_[step]) << "step " << step;
    }
  }
  std::int64_t batch_values() const { return kBatch * set->image_elements(); }

  Stream stream{Device::cuda()};
  std::shared_ptr<VisitedImages> set = std::make_shared<VisitedImages>(30, 5);
  std::unique_ptr<DeviceExamples> examples = make_device_examples(set, kOptions, kMaxSteps, stream);

 private:
  std::vector<Batch> expected_;
  Buffer<float> images_;
  Buffer<std::int32_t> labels_;
};

using CudaStreamedExamples = testing::CudaTest;

TEST_F(CudaStreamedExamples, OfManyBurstsAreThoseOfThePipeline) {
  Stepper run(5 * kMaxSteps);
  for (std::uint64_t step = 0; step < 5 * kMaxSteps; step += kMaxSteps) {
    run.examples->prepare(step, kMaxSteps);
    run.submit(step, kMaxSteps);
  }
  run.expect_batches();
}

TEST_F(CudaStreamedExamples, AreUploadedBesideTheBurstBefore) {
  Stepper run(5 * kMaxSteps);
  run.set->num_reads = 0;
  for (std::uint64_t step = 0; step < 5 * kMaxSteps; step += kMaxSteps) {
    run.examples->prepare(step, kMaxSteps);
    run.submit(step, kMaxSteps);
    run.await_ready(static_cast<std::int64_t>(step) + kMaxSteps, kMaxSteps);
    run.examples->prefetch();
    run.examples->prefetch();  // does nothing
  }
  run.expect_batches();
}

/// Bursts vary in length; steps that were uploaded early may be skipped or repeated.
TEST_F(CudaStreamedExamples, MayBePreparedInPartsAndAgain) {
  Stepper run(12);
  run.set->num_reads = 0;
  const auto burst = [&](std::uint64_t first_step, int count) {
    run.examples->prepare(first_step, count);
    run.submit(first_step, static_cast<std::uint64_t>(count));
    run.examples->prefetch();
    run.stream.synchronize();
    run.examples->prefetch();
  };
  for (const auto& [first, count] :
       {std::pair(0, 1), std::pair(1, 3), std::pair(4, 2), std::pair(6, 1), std::pair(5, 3), std::pair(0, 3),
        std::pair(9, 3), std::pair(7, 1), std::pair(8, 1), std::pair(2, 2)}) {
    burst(static_cast<std::uint64_t>(first), count);
  }
  run.expect_batches();
}

TEST_F(CudaStreamedExamples, ThatAreUploadedEarlyAreStillToBePrepared) {
  Stepper run(2 * kMaxSteps + 1);
  run.set->num_reads = 0;
  run.examples->prefetch();  // nothing to continue before the first step
  run.examples->prepare(0, kMaxSteps);
  run.await_ready(kMaxSteps, kMaxSteps);
  run.examples->prefetch();
  EXPECT_THROW(run.examples->submit({.step = kMaxSteps}), InvalidArgument);
  run.submit(0, kMaxSteps);  // are still there
  run.examples->prepare(kMaxSteps, kMaxSteps);
  run.submit(kMaxSteps, kMaxSteps);
  run.examples->prepare(2 * kMaxSteps, 1);
  run.submit(2 * kMaxSteps, 1);
  run.expect_batches();
}

/// Counts reads of the pipeline, which continues when batches are taken, to observe uploads ahead.
TEST_F(CudaStreamedExamples, TakeAsManyBatchesAheadAsABurstHas) {
  Stepper run(1);
  run.set->num_reads = 0;
  run.examples->prepare(0, 1);
  run.await_ready(1, kMaxSteps + 2);
  run.examples->prefetch();
  const std::int64_t taken = 1 + kMaxSteps;
  // The ring has kPrefetched + 1 slots, one of them held by the consumer.
  while (run.set->num_reads < (taken + kPrefetched) * kBatch) std::this_thread::yield();
  EXPECT_EQ(run.set->num_reads, (taken + kPrefetched) * kBatch);
}

TEST_F(CudaStreamedExamples, AnErrorOfAStepThatIsReadAheadWaitsForIt) {
  std::vector<std::uint32_t> order;
  epoch_permutation(kOptions.seed, 0, 30, order);
  Stepper run(4);
  run.set->bad_index = order[4 * kBatch + 1];  // in step 4
  run.set->num_reads = 0;
  run.examples->prepare(0, 2);
  run.submit(0, 2);
  while (run.set->num_reads < 5 * kBatch) std::this_thread::yield();
  run.examples->prefetch();
  EXPECT_THROW(run.examples->prepare(2, kMaxSteps), DataError);
  run.examples->prefetch();
  run.submit(2, 2);
  EXPECT_THROW(run.examples->prepare(4, 1), DataError);
  run.expect_batches();
}

/// The destructor must wait for uploads, which use its memory.
TEST_F(CudaStreamedExamples, MayEndWhileTheyAreUploaded) {
  for (int turn = 0; turn < 3; ++turn) {
    Stepper run(kMaxSteps);
    run.set->num_reads = 0;
    run.examples->prepare(0, kMaxSteps);
    run.submit(0, kMaxSteps);
    run.await_ready(kMaxSteps, kMaxSteps);
    run.examples->prefetch();
    run.examples.reset();
    run.expect_batches();
  }
}

}  // namespace
}  // namespace terngrad::streamed_examples_test
