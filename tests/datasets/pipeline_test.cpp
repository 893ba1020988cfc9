#include "datasets/pipeline.h"

#include "kernels/runtime/errors.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "datasets/shuffle.h"

namespace terngrad::pipeline_test {
namespace {

/// Examples that identify themselves: an image is {index, epoch, seed}, a label the index.
class NumberedExamples : public Dataset {
 public:
  explicit NumberedExamples(std::int64_t num_examples) : num_examples_(num_examples) {}

  const std::string& name() const override { return name_; }
  std::int64_t num_examples() const override { return num_examples_; }
  int height() const override { return 1; }
  int width() const override { return 3; }
  int channels() const override { return 1; }
  int num_classes() const override { return static_cast<int>(num_examples_); }
  std::int32_t label(std::int64_t index) const override { return static_cast<std::int32_t>(index); }
  void read(std::int64_t index, const ExampleVisit& visit, std::span<float> image) const override {
    if (delay_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    ++num_reads;
    if (index == bad_index) throw DataError("example is damaged");
    image[0] = static_cast<float>(index);
    image[1] = static_cast<float>(visit.epoch);
    image[2] = static_cast<float>(visit.seed);
  }

  std::vector<std::int64_t> shard_sizes() const override { return shards; }
  void will_read(std::int64_t index) const override {
    ++num_hints;
    EXPECT_LT(index, num_examples_);
  }

  std::int64_t bad_index = -1;
  int delay_us = 0;
  std::vector<std::int64_t> shards;
  mutable std::atomic<std::int64_t> num_hints = 0;
  mutable std::atomic<std::int64_t> num_reads = 0;

 private:
  std::string name_ = "numbered";
  std::int64_t num_examples_;
};

/// Copy of one worker's images and labels of one step.
struct Slice {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  bool operator==(const Slice&) const = default;
};

/// [step][local worker] of the next `num_steps` batches.
std::vector<std::vector<Slice>> take(Pipeline& pipeline, const PipelineOptions& options, int num_steps) {
  std::vector<std::vector<Slice>> steps;
  const auto per_worker = static_cast<std::size_t>(options.batch_size / options.num_workers);
  for (int i = 0; i < num_steps; ++i) {
    const PipelineBatch batch = pipeline.next();
    EXPECT_EQ(batch.step, options.first_step + static_cast<std::uint64_t>(i));
    EXPECT_EQ(batch.labels.size(), per_worker * static_cast<std::size_t>(options.num_local_workers));
    EXPECT_EQ(batch.images.size(), batch.labels.size() * 3);
    std::vector<Slice>& workers = steps.emplace_back();
    for (std::size_t begin = 0; begin < batch.labels.size(); begin += per_worker) {
      const auto images = batch.images.subspan(begin * 3, per_worker * 3);
      const auto labels = batch.labels.subspan(begin, per_worker);
      workers.push_back({{images.begin(), images.end()}, {labels.begin(), labels.end()}});
    }
  }
  return steps;
}

std::vector<std::vector<Slice>> take(std::int64_t num_examples, const PipelineOptions& options, int num_steps) {
  Pipeline pipeline(std::make_shared<NumberedExamples>(num_examples), options);
  return take(pipeline, options, num_steps);
}

/// Labels of all workers, joined within each step.
std::vector<std::int32_t> joint_labels(const std::vector<std::vector<Slice>>& steps) {
  std::vector<std::int32_t> labels;
  for (const auto& workers : steps) {
    for (const Slice& slice : workers) labels.insert(labels.end(), slice.labels.begin(), slice.labels.end());
  }
  return labels;
}

TEST(Pipeline, FollowsThePermutationsOfTheEpochs) {
  // 30 is not a multiple of 7: batches span epochs. A batch of 64 spans several.
  for (const std::int64_t batch_size : {1, 7, 30, 64}) {
    const int num_steps = static_cast<int>(4 * 30 / batch_size);
    const auto steps = take(30, {.batch_size = batch_size, .seed = 11}, num_steps);
    const std::vector<std::int32_t> labels = joint_labels(steps);
    std::vector<std::uint32_t> order;
    for (std::size_t p = 0; p < labels.size(); ++p) {
      if (p % 30 == 0) epoch_permutation(11, p / 30, 30, order);
      ASSERT_EQ(labels[p], static_cast<std::int32_t>(order[p % 30])) << "batch " << batch_size << ", position " << p;
      const Slice& slice = steps[p / static_cast<std::size_t>(batch_size)][0];
      const float* image = slice.images.data() + p % static_cast<std::size_t>(batch_size) * 3;
      EXPECT_EQ(image[0], static_cast<float>(labels[p]));
      EXPECT_EQ(image[1], static_cast<float>(p / 30));
      EXPECT_EQ(image[2], 11.0f);
    }
  }
}

TEST(Pipeline, EpochIsThatOfTheStepsFirstExample) {
  Pipeline pipeline(std::make_shared<NumberedExamples>(10),
                    {.batch_size = 4, .num_workers = 2, .first_local_worker = 1, .num_local_workers = 1});
  for (const std::uint64_t epoch : {0u, 0u, 0u, 1u, 1u, 2u}) EXPECT_EQ(pipeline.next().epoch, epoch);
}

TEST(Pipeline, OrderDoesNotDependOnWorkersThreadsOrPrefetch) {
  const auto expected = joint_labels(take(50, {.batch_size = 12}, 30));
  for (const int num_workers : {1, 2, 3, 12}) {
    for (const int num_threads : {1, 2, 5}) {
      for (const int prefetch_batches : {1, 2, 7}) {
        const PipelineOptions options{.batch_size = 12,
                                      .num_workers = num_workers,
                                      .num_local_workers = num_workers,
                                      .num_threads = num_threads,
                                      .prefetch_batches = prefetch_batches};
        ASSERT_EQ(joint_labels(take(50, options, 30)), expected)
            << num_workers << " workers, " << num_threads << " threads, prefetch " << prefetch_batches;
      }
    }
  }
}

TEST(Pipeline, ProcessesReadTheirSlicesOfTheJointBatch) {
  const auto whole = take(50, {.batch_size = 12, .num_workers = 6, .num_local_workers = 6}, 20);
  for (int first = 0; first < 6; ++first) {
    for (int count = 1; first + count <= 6; ++count) {
      const auto part =
          take(50, {.batch_size = 12, .num_workers = 6, .first_local_worker = first, .num_local_workers = count}, 20);
      for (std::size_t step = 0; step < 20; ++step) {
        for (int worker = 0; worker < count; ++worker) {
          ASSERT_EQ(part[step][static_cast<std::size_t>(worker)],
                    whole[step][static_cast<std::size_t>(first + worker)]);
        }
      }
    }
  }
}

TEST(Pipeline, RestartContinuesExactly) {
  const auto whole = take(50, {.batch_size = 12}, 40);
  for (std::uint64_t first_step = 0; first_step < 20; ++first_step) {
    const auto part = take(50, {.batch_size = 12, .first_step = first_step, .num_threads = 2}, 20);
    for (std::size_t i = 0; i < part.size(); ++i) ASSERT_EQ(part[i], whole[first_step + i]) << first_step << " + " << i;
  }
}

TEST(Pipeline, BatchStaysValidUntilTheNextCall) {
  Pipeline pipeline(std::make_shared<NumberedExamples>(50), {.batch_size = 5, .num_threads = 3, .prefetch_batches = 1});
  for (int i = 0; i < 20; ++i) {
    const PipelineBatch batch = pipeline.next();
    const std::vector<float> images(batch.images.begin(), batch.images.end());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ASSERT_TRUE(std::equal(images.begin(), images.end(), batch.images.begin()));
  }
}

TEST(Pipeline, BuffersAreReused) {
  Pipeline pipeline(std::make_shared<NumberedExamples>(50), {.batch_size = 5, .prefetch_batches = 3});
  std::set<const float*> buffers;
  for (int i = 0; i < 40; ++i) buffers.insert(pipeline.next().images.data());
  EXPECT_EQ(buffers.size(), 4u);
}

TEST(Pipeline, PreparesAheadAndNoFurther) {
  const auto set = std::make_shared<NumberedExamples>(1000);
  Pipeline pipeline(set, {.batch_size = 10, .num_threads = 2, .prefetch_batches = 3});
  const auto reads_settle_at = [&](std::int64_t expected) {
    for (int i = 0; i < 2000 && set->num_reads < expected; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return set->num_reads.load();
  };
  EXPECT_EQ(reads_settle_at(30), 30);
  pipeline.next();
  EXPECT_EQ(reads_settle_at(40), 40);
}

TEST(Pipeline, ErrorArrivesAtItsStepAndStays) {
  std::vector<std::uint32_t> order;
  epoch_permutation(1, 0, 50, order);
  for (const int num_threads : {1, 3}) {
    const auto set = std::make_shared<NumberedExamples>(50);
    set->bad_index = order[23];  // step 4 with batches of 5
    Pipeline pipeline(set, {.batch_size = 5, .num_threads = num_threads});
    for (std::uint64_t step = 0; step < 4; ++step) EXPECT_EQ(pipeline.next().step, step);
    EXPECT_THROW(pipeline.next(), DataError);
    EXPECT_THROW(pipeline.next(), DataError);
  }
}

TEST(Pipeline, EndsWhileABatchIsBeingPrepared) {
  const auto set = std::make_shared<NumberedExamples>(100'000);
  set->delay_us = 1000;
  const auto start = std::chrono::steady_clock::now();
  {
    Pipeline pipeline(set, {.batch_size = 60'000, .num_threads = 3, .prefetch_batches = 4});  // a minute of work
    while (set->num_reads == 0) std::this_thread::yield();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  for (int i = 0; i < 50; ++i) {
    Pipeline unused(std::make_shared<NumberedExamples>(10), {.batch_size = 3, .num_threads = 4});
  }
}

TEST(Pipeline, RefusesImpossibleOptions) {
  const auto set = std::make_shared<NumberedExamples>(10);
  const auto refused = [&](const PipelineOptions& options) { EXPECT_THROW(Pipeline(set, options), InvalidArgument); };
  refused({.batch_size = 0});
  refused({.batch_size = -4});
  refused({.batch_size = 4, .num_workers = 0});
  refused({.batch_size = 4, .num_workers = 3, .num_local_workers = 3});
  refused({.batch_size = 4, .num_workers = 2, .first_local_worker = -1});
  refused({.batch_size = 4, .num_workers = 2, .num_local_workers = 0});
  refused({.batch_size = 4, .num_workers = 2, .first_local_worker = 1, .num_local_workers = 2});
  refused({.batch_size = 4, .first_step = std::uint64_t{1} << 40});
  refused({.batch_size = 4, .num_threads = 0});
  refused({.batch_size = 4, .prefetch_batches = 0});
  EXPECT_THROW(Pipeline(nullptr, {.batch_size = 4}), InvalidArgument);
  EXPECT_THROW(Pipeline(std::make_shared<NumberedExamples>(0), {.batch_size = 4}), InvalidArgument);
}

TEST(Pipeline, TakesWhatIsReadyWithoutWaiting) {
  const auto set = std::make_shared<NumberedExamples>(10);
  const PipelineOptions options{.batch_size = 3, .prefetch_batches = 4};
  Pipeline pipeline(set, options);
  // When three batches are ready, the only thread reads the fourth.
  while (set->num_reads < 10) std::this_thread::yield();
  const auto expected = take(10, options, 3);
  for (std::size_t step = 0; step < 3; ++step) {
    const std::optional<PipelineBatch> batch = pipeline.try_next();
    ASSERT_TRUE(batch.has_value());
    EXPECT_EQ(batch->step, step);
    EXPECT_EQ(std::vector(batch->labels.begin(), batch->labels.end()), expected[step][0].labels);
    EXPECT_EQ(std::vector(batch->images.begin(), batch->images.end()), expected[step][0].images);
  }
  EXPECT_EQ(pipeline.next().step, 3u);
}

/// Steps whose preparation fails, and steps that are not ready.
TEST(Pipeline, HasNothingReadyWhereItWouldThrowOrWait) {
  std::vector<std::uint32_t> order;
  epoch_permutation(1, 0, 10, order);
  const auto set = std::make_shared<NumberedExamples>(10);
  set->bad_index = order[0];
  Pipeline pipeline(set, {.batch_size = 2});
  EXPECT_FALSE(pipeline.try_next().has_value());
  EXPECT_THROW(pipeline.next(), DataError);
  EXPECT_FALSE(pipeline.try_next().has_value());
  EXPECT_THROW(pipeline.next(), DataError);
}

TEST(Pipeline, FailsAtTheStepWhoseExamplesTheCallerCannotName) {
  const auto set = std::make_shared<NumberedExamples>(60);
  PipelineOptions options{.batch_size = 12, .num_workers = 2, .num_local_workers = 2, .num_threads = 3};
  options.shuffle.example_at = [](std::uint64_t step, std::int64_t place) {
    if (step == 4) throw DataError("no examples for step 4");
    return place * 2 + static_cast<std::int64_t>(step);
  };
  Pipeline pipeline(set, options);
  for (std::uint64_t step = 0; step < 4; ++step) {
    const PipelineBatch batch = pipeline.next();
    for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(batch.labels[i], static_cast<std::int32_t>(2 * i + step));
  }
  EXPECT_THROW(pipeline.next(), DataError);
  EXPECT_THROW(pipeline.next(), DataError);
  options.first_step = 4;
  EXPECT_THROW(Pipeline(set, options), DataError);
}

TEST(Pipeline, AWindowShuffleReadsShards) {
  auto set = std::make_shared<NumberedExamples>(60);
  set->shards = {20, 30, 10};
  PipelineOptions options{.batch_size = 12, .num_workers = 2, .num_local_workers = 2, .num_threads = 3};
  options.shuffle = {.kind = ShuffleOptions::Kind::kWindow, .num_readers = 2, .window = 7};
  Pipeline pipeline(set, options);
  std::vector<std::uint32_t> order;
  for (std::uint64_t step = 0; step < 15; ++step) {
    if (step % 5 == 0) window_permutation(options.seed, step / 5, set->shards, 2, 7, order);
    const PipelineBatch batch = pipeline.next();
    for (std::size_t i = 0; i < 12; ++i)
      EXPECT_EQ(batch.labels[i], static_cast<std::int32_t>(order[step % 5 * 12 + i]));
  }
  // All examples of these batches and of the next one were announced.
  EXPECT_GE(set->num_hints, 16 * 12);
  set->shards = {20, 30};
  EXPECT_THROW(Pipeline(set, options), InvalidArgument);
  options.shuffle.window = 0;
  EXPECT_THROW(Pipeline(set, options), InvalidArgument);
}

/// Large images; reading the first one waits until another one is being read.
class LargeImages final : public Dataset {
 public:
  const std::string& name() const override { return name_; }
  std::int64_t num_examples() const override { return 2; }
  int height() const override { return 100; }
  int width() const override { return 100; }
  int channels() const override { return 1; }
  int num_classes() const override { return 2; }
  std::int32_t label(std::int64_t index) const override { return static_cast<std::int32_t>(index); }
  void read(std::int64_t, const ExampleVisit&, std::span<float>) const override {
    ++num_begun_;
    while (num_begun_ < 2) std::this_thread::yield();
  }

 private:
  std::string name_ = "large";
  mutable std::atomic<int> num_begun_ = 0;
};

TEST(Pipeline, ThreadsShareABatch) {
  // One batch has all examples: a single thread would wait forever.
  Pipeline pipeline(std::make_shared<LargeImages>(), {.batch_size = 2, .num_threads = 2, .prefetch_batches = 1});
  EXPECT_EQ(pipeline.next().labels.size(), 2u);
}

}  // namespace
}  // namespace terngrad::pipeline_test
