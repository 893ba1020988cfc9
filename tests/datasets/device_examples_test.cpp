// Training examples in device memory against a Pipeline with the same options, bit for bit.
#include "datasets/device_examples.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "datasets/sets/constant_images.h"
#include "datasets/sets/first_examples.h"
#include "datasets/sets/grey_images.h"
#include "datasets/shuffle.h"
#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/errors.h"
#include "tests/datasets/stored_images.h"
#include "tests/datasets/visited_images.h"
#include "tests/support/bits.h"
#include "tests/support/cuda_device.h"

namespace terngrad::device_examples_test {
namespace {

using testing::Batch;
using testing::bits_of;
using testing::expected_batches;
using testing::StoredImages;
using testing::to_host;
using testing::VisitedImages;

std::unique_ptr<Dataset> grey_images(int count, int height, int width) {
  GreyPixels grey{.height = height, .width = width, .pixels = {}, .labels = {}};
  for (int i = 0; i < count; ++i) grey.labels.push_back(static_cast<std::uint8_t>(i % 7));
  for (int i = 0; i < count * height * width; ++i) grey.pixels.push_back(static_cast<std::uint8_t>(i * 31 + i / 256));
  return std::make_unique<GreyImages>("grey", std::move(grey), 7, 0);
}

Batch batch_on(const DeviceExamples& examples, const Dataset& set, Stream& stream) {
  const auto count = static_cast<std::size_t>(examples.local_batch());
  const std::size_t values = count * static_cast<std::size_t>(set.image_elements());
  return {bits_of(to_host<float>({examples.images(), values}, stream)),
          to_host<std::int32_t>({examples.labels(), count}, stream)};
}

/// Prepares and runs steps one after the other, submitted by the host.
void expect_steps(DeviceExamples& examples, const Dataset& set, const std::vector<Batch>& expected,
                  std::uint64_t expected_from, std::uint64_t first_step, int count, Stream& stream) {
  examples.prepare(first_step, count);
  for (std::uint64_t step = first_step; step < first_step + static_cast<std::uint64_t>(count); ++step) {
    examples.submit({.step = step});
    ASSERT_TRUE(batch_on(examples, set, stream) == expected[static_cast<std::size_t>(step - expected_from)])
        << "step " << step;
  }
}

struct Placed {
  std::string name;
  ExamplesPlacement placement;
  std::function<std::shared_ptr<const Dataset>()> make;
};

class CudaDeviceExamples : public testing::CudaTest, public ::testing::WithParamInterface<Placed> {};

const PipelineOptions kOptions[] = {
    {.batch_size = 1, .seed = 5},
    {.batch_size = 7, .seed = 1, .num_threads = 2},
    {.batch_size = 40, .seed = 2},  // several epochs per batch
    {.batch_size = 12, .num_workers = 4, .first_local_worker = 1, .num_local_workers = 2, .seed = 3},
    {.batch_size = 6, .num_workers = 3, .first_local_worker = 2, .seed = 4, .first_step = 1000, .prefetch_batches = 1},
};

TEST_P(CudaDeviceExamples, AreThoseOfThePipeline) {
  const std::shared_ptr<const Dataset> set = GetParam().make();
  Stream stream(Device::cuda());
  for (const PipelineOptions& options : kOptions) {
    const std::vector<Batch> expected = expected_batches(set, options, 8);
    for (const int max_steps : {1, 3}) {
      const auto examples = make_device_examples(set, options, max_steps, stream);
      ASSERT_EQ(examples->placement(), GetParam().placement);
      EXPECT_EQ(examples->max_steps(), max_steps);
      EXPECT_EQ(examples->local_batch(), options.batch_size / options.num_workers * options.num_local_workers);
      std::uint64_t step = options.first_step;
      for (const int count : {3, 1, 2, 2}) {
        expect_steps(*examples, *set, expected, options.first_step, step, std::min(count, max_steps), stream);
        step += static_cast<std::uint64_t>(std::min(count, max_steps));
      }
    }
  }
}

TEST_P(CudaDeviceExamples, AreReplayedWithTheStepInDeviceMemory) {
  const std::shared_ptr<const Dataset> set = GetParam().make();
  Stream stream(Device::cuda());
  const PipelineOptions options{.batch_size = 9, .num_workers = 3, .num_local_workers = 2, .seed = 8, .first_step = 2};
  const std::vector<Batch> expected = expected_batches(set, options, 11);
  const auto examples = make_device_examples(set, options, 4, stream);
  Buffer<std::uint64_t> step(1, stream.device());
  const auto tell = [&](std::uint64_t value) { copy<std::uint64_t>({&value, 1}, step.span(), stream); };
  examples->prepare(2, 1);
  tell(2);
  examples->submit({.on_device = step.data()});
  const CapturedGraph graph(stream, [&] { examples->submit({.on_device = step.data()}); });
  for (const auto& [first, count] : {std::pair(2, 4), std::pair(6, 4), std::pair(10, 3)}) {
    examples->prepare(static_cast<std::uint64_t>(first), count);
    for (int i = first; i < first + count; ++i) {
      tell(static_cast<std::uint64_t>(i));
      graph.launch(stream);
      ASSERT_TRUE(batch_on(*examples, *set, stream) == expected[static_cast<std::size_t>(i - 2)]) << "step " << i;
    }
  }
}

TEST_P(CudaDeviceExamples, AnyStepsMayBePrepared) {
  const std::shared_ptr<const Dataset> set = GetParam().make();
  Stream stream(Device::cuda());
  const PipelineOptions options{.batch_size = 8, .seed = 6, .first_step = 3};
  const std::vector<Batch> expected = expected_batches(set, {.batch_size = 8, .seed = 6}, 24);
  const auto examples = make_device_examples(set, options, 4, stream);
  // Repeated, overlapping and earlier steps, and steps around the end of the ring.
  for (const auto& [first, count] :
       {std::pair(3, 3), std::pair(3, 3), std::pair(4, 4), std::pair(20, 4), std::pair(0, 2), std::pair(21, 3)}) {
    expect_steps(*examples, *set, expected, 0, static_cast<std::uint64_t>(first), count, stream);
  }
  EXPECT_THROW(examples->submit({.step = 1}), InvalidArgument);  // the slot holds step 21
  EXPECT_THROW(examples->submit({.step = 24}), InvalidArgument);
}

TEST_P(CudaDeviceExamples, HostileOptionsAreRefused) {
  const std::shared_ptr<const Dataset> set = GetParam().make();
  const Stream stream(Device::cuda());
  const auto refused = [&](const PipelineOptions& options, int max_steps = 2) {
    EXPECT_THROW(make_device_examples(set, options, max_steps, stream), InvalidArgument);
  };
  refused({.batch_size = 0});
  refused({.batch_size = 4, .num_workers = 3});
  refused({.batch_size = 4, .num_workers = 2, .first_local_worker = 1, .num_local_workers = 2});
  refused({.batch_size = 4, .first_step = std::uint64_t{1} << 40});
  refused({.batch_size = 4, .num_threads = 0});
  refused({.batch_size = 4, .prefetch_batches = 0});
  refused({.batch_size = 4}, 0);
  refused({.batch_size = 4}, -1);
  refused({.batch_size = std::int64_t{1} << 60});
  refused({.batch_size = std::int64_t{1} << 20}, 1 << 30);
  EXPECT_THROW(make_device_examples(nullptr, {.batch_size = 4}, 1, stream), InvalidArgument);
  EXPECT_THROW(make_device_examples(set, {.batch_size = 4}, 1, Stream()), InvalidArgument);

  const auto examples = make_device_examples(set, {.batch_size = 4}, 2, stream);
  EXPECT_THROW(examples->submit({.step = 0}), InvalidArgument);
  EXPECT_THROW(examples->prepare(0, 0), InvalidArgument);
  EXPECT_THROW(examples->prepare(0, 3), InvalidArgument);
  EXPECT_THROW(examples->prepare(std::uint64_t{1} << 40, 1), InvalidArgument);
  EXPECT_THROW(examples->prepare((std::uint64_t{1} << 40) - 1, 2), InvalidArgument);
  EXPECT_THROW(examples->prepare(~std::uint64_t{0}, 2), InvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(
    Sets, CudaDeviceExamples,
    ::testing::Values(
        Placed{"Augmented", ExamplesPlacement::kCropped,
               [] { return std::make_shared<StoredImages>(15, 12, 8, true); }},
        Placed{"AugmentedRagged", ExamplesPlacement::kCropped,
               [] { return std::make_shared<StoredImages>(15, 9, 7, true); }},
        Placed{"Centred", ExamplesPlacement::kCropped, [] { return std::make_shared<StoredImages>(15, 12, 7, false); }},
        Placed{"FirstStored", ExamplesPlacement::kCropped,
               [] { return first_examples(std::make_unique<StoredImages>(30, 12, 8, true), 15); }},
        Placed{"Resident", ExamplesPlacement::kResident, [] { return grey_images(15, 6, 8); }},
        Placed{"ResidentRagged", ExamplesPlacement::kResident, [] { return grey_images(15, 3, 5); }},
        Placed{"FirstResident", ExamplesPlacement::kResident, [] { return first_examples(grey_images(20, 2, 2), 15); }},
        Placed{"Streamed", ExamplesPlacement::kStreamed, [] { return std::make_shared<VisitedImages>(15, 8); }},
        Placed{"StreamedRagged", ExamplesPlacement::kStreamed, [] { return std::make_shared<VisitedImages>(15, 5); }}),
    [](const auto& test) { return test.param.name; });

using CudaDeviceExamplesOfSets = testing::CudaTest;

TEST_F(CudaDeviceExamplesOfSets, StreamedErrorArrivesAtItsStepAndStays) {
  std::vector<std::uint32_t> order;
  epoch_permutation(1, 0, 50, order);
  const auto set = std::make_shared<VisitedImages>(50, 3);
  set->bad_index = order[23];  // step 4 with batches of 5
  Stream stream(Device::cuda());
  const auto examples = make_device_examples(set, {.batch_size = 5, .num_threads = 2}, 6, stream);
  const std::vector<Batch> expected = expected_batches(set, {.batch_size = 5}, 4);
  EXPECT_THROW(examples->prepare(0, 6), DataError);
  expect_steps(*examples, *set, expected, 0, 0, 4, stream);
  EXPECT_THROW(examples->prepare(4, 1), DataError);
  EXPECT_THROW(examples->prepare(3, 2), DataError);
  EXPECT_THROW(examples->submit({.step = 4}), InvalidArgument);
  expect_steps(*examples, *set, expected, 0, 1, 3, stream);

  // A failed step releases the slot that it replaced.
  const auto two = make_device_examples(set, {.batch_size = 5}, 2, stream);
  expect_steps(*two, *set, expected, 0, 2, 2, stream);
  EXPECT_THROW(two->prepare(4, 1), DataError);
  EXPECT_THROW(two->submit({.step = 2}), InvalidArgument);
  two->submit({.step = 3});
  EXPECT_TRUE(batch_on(*two, *set, stream) == expected[3]);
}

/// Only the examples of a step are on the device: no large allocation here.
TEST_F(CudaDeviceExamplesOfSets, LargeSetsAreStreamed) {
  const Stream stream(Device::cuda());
  const auto placement_of = [&](std::int64_t num_examples) {
    const ImageSetShape shape{.height = 16, .width = 16, .channels = 4, .num_classes = 2, .num_examples = num_examples};
    return make_device_examples(std::make_shared<ConstantImages>("set", shape, 1), {.batch_size = 2}, 1, stream)
        ->placement();
  };
  EXPECT_EQ(placement_of(kMaxResidentBytes / 4096 + 1), ExamplesPlacement::kStreamed);
  EXPECT_EQ(placement_of(10), ExamplesPlacement::kResident);
}

/// A set that offers windows larger than its images.
TEST_F(CudaDeviceExamplesOfSets, ImpossibleCropsAreRefused) {
  class Wrong final : public Dataset {
   public:
    explicit Wrong(int source_size) : source_size_(source_size) {}
    const std::string& name() const override { return name_; }
    std::int64_t num_examples() const override { return 4; }
    int height() const override { return 24; }
    int width() const override { return 24; }
    int channels() const override { return 3; }
    int num_classes() const override { return 2; }
    std::int32_t label(std::int64_t) const override { return 0; }
    void read(std::int64_t, const ExampleVisit&, std::span<float>) const override {}
    std::optional<CropSource> crop_source() const override {
      return CropSource{.source_size = source_size_, .is_augmented = true, .planar = [](std::int64_t) {
                          return std::span<const std::uint8_t>();
                        }};
    }

   private:
    std::string name_ = "wrong";
    int source_size_;
  };
  const Stream stream(Device::cuda());
  for (const int source_size : {-1, 0, 23, kMaxAugmentedSide + 1, 32}) {
    EXPECT_THROW(make_device_examples(std::make_shared<Wrong>(source_size), {.batch_size = 2}, 1, stream),
                 InvalidArgument)
        << source_size;
  }
}

/// A few batches of a published data set.
void expect_real_set(const std::string& name, const std::string& data_dir, Subset subset, ExamplesPlacement placement) {
  if (!std::filesystem::exists(data_dir)) GTEST_SKIP() << "no " << name << " in " << data_dir;
  const std::shared_ptr<const Dataset> set = make_dataset(name, {.data_dir = data_dir, .subset = subset});
  Stream stream(Device::cuda());
  const PipelineOptions options{.batch_size = 16,
                                .num_workers = 2,
                                .num_local_workers = 2,
                                .seed = 7,
                                .first_step = static_cast<std::uint64_t>(set->num_examples() / 16 - 1)};
  const std::vector<Batch> expected = expected_batches(set, options, 5);
  const auto examples = make_device_examples(set, options, 3, stream);
  EXPECT_EQ(examples->placement(), placement);
  expect_steps(*examples, *set, expected, options.first_step, options.first_step, 3, stream);
  expect_steps(*examples, *set, expected, options.first_step, options.first_step + 3, 2, stream);
}

TEST_F(CudaDeviceExamplesOfSets, Cifar10Train) {
  expect_real_set("cifar10", "../shared/data/cifar-10", Subset::kTrain, ExamplesPlacement::kCropped);
}
TEST_F(CudaDeviceExamplesOfSets, Cifar10Test) {
  expect_real_set("cifar10", "../shared/data/cifar-10", Subset::kTest, ExamplesPlacement::kCropped);
}
TEST_F(CudaDeviceExamplesOfSets, Mnist) {
  expect_real_set("mnist", "../shared/data/mnist", Subset::kTest, ExamplesPlacement::kResident);
}

}  // namespace
}  // namespace terngrad::device_examples_test
