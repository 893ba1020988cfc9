#include "datasets/transforms/preprocessing.h"

#include "kernels/runtime/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "datasets/formats/compressed_file.h"
#include "tests/datasets/image_files.h"
#include "tests/datasets/imagenet_sample.h"

namespace terngrad::preprocessing_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kSize = 40;

class PreprocessingNames : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Preprocessing> make(Subset subset) const { return make_preprocessing(GetParam(), subset, kSize); }
};

std::vector<float> run(const Preprocessing& preprocessing, const StoredImage& image, const ExampleVisit& visit = {},
                       std::int64_t index = 0) {
  std::vector<float> square(3 * kSize * kSize, -1e9f);
  preprocessing.run(image, visit, index, square);
  return square;
}

Bytes some_jpeg() { return jpeg(counting_bytes(3 * 70 * 90), 70, 90); }

TEST_P(PreprocessingNames, EqualCallsGiveEqualBitsAndVisitsDiffer) {
  const Bytes bytes = some_jpeg();
  const StoredImage image{.name = "some", .bytes = bytes};
  const auto preprocessing = make(Subset::kTrain);
  EXPECT_TRUE(preprocessing->is_augmented());
  const std::vector<float> first = run(*preprocessing, image, {.seed = 1, .epoch = 1}, 7);
  run(*preprocessing, {.name = "other", .bytes = bytes}, {.seed = 1, .epoch = 2}, 9);
  EXPECT_EQ(run(*preprocessing, image, {.seed = 1, .epoch = 1}, 7), first);
  EXPECT_EQ(run(*make(Subset::kTrain), image, {.seed = 1, .epoch = 1}, 7), first);
  EXPECT_NE(run(*preprocessing, image, {.seed = 2, .epoch = 1}, 7), first);
  EXPECT_NE(run(*preprocessing, image, {.seed = 1, .epoch = 2}, 7), first);
  EXPECT_NE(run(*preprocessing, image, {.seed = 1, .epoch = 1}, 8), first);
}

TEST_P(PreprocessingNames, EvaluationDrawsNothing) {
  const Bytes bytes = some_jpeg();
  const StoredImage image{.name = "some", .bytes = bytes};
  const auto preprocessing = make(Subset::kTest);
  EXPECT_FALSE(preprocessing->is_augmented());
  const std::vector<float> first = run(*preprocessing, image);
  EXPECT_EQ(run(*preprocessing, image, {.seed = 5, .epoch = std::uint64_t{1} << 50}, -1), first);
  EXPECT_NE(run(*make(Subset::kTrain), image), first);
}

TEST_P(PreprocessingNames, ThreadsDoNotDisturbEachOther) {
  const Bytes bytes = some_jpeg();
  const StoredImage image{.name = "some", .bytes = bytes};
  const auto preprocessing = make(Subset::kTrain);
  std::vector<std::vector<float>> expected, found(8);
  for (int i = 0; i < 8; ++i) expected.push_back(run(*preprocessing, image, {}, i));
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; i < 8; i += 2) found[static_cast<std::size_t>(i)] = run(*preprocessing, image, {}, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found, expected);
}

TEST_P(PreprocessingNames, GreyGivesEqualChannels) {
  const Bytes bytes = jpeg(counting_bytes(50 * 64), 50, 64, {.colours = JCS_GRAYSCALE, .channels = 1});
  const std::vector<float> square = run(*make(Subset::kTest), {.name = "grey", .bytes = bytes});
  const bool is_normalized = GetParam() == "torchvision";
  for (std::size_t i = 0; i < square.size(); ++i) {
    // alexnet and vgg subtract another mean from each channel, torchvision divides by another deviation too.
    const std::size_t c = i % 3;
    const float scale = is_normalized ? kTorchvisionDeviations[c] / kTorchvisionDeviations[0] : 1;
    ASSERT_NEAR((square[i] - square[c]) * scale, square[i - c] - square[0], 1e-4f);
  }
}

TEST_P(PreprocessingNames, DamageIsRefusedByName) {
  const Bytes bytes = some_jpeg();
  const auto preprocessing = make(Subset::kTrain);
  for (std::size_t length = 0; length < bytes.size() / 8; length += 7) {
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    ASSERT_THAT(data_error([&] { run(*preprocessing, {.name = "shard 3, record 5", .bytes = cut}); }),
                HasSubstr("'shard 3, record 5'"));
  }
  for (std::size_t position = 0; position < bytes.size(); position += 13) {
    Bytes damaged = bytes;
    damaged[position] ^= 0xff;
    try {
      run(*preprocessing, {.name = "shard 3, record 5", .bytes = damaged});
    } catch (const DataError& error) {
      ASSERT_THAT(error.what(), HasSubstr("'shard 3, record 5'"));
    }
  }
}

TEST_P(PreprocessingNames, OptionsAreChecked) {
  for (const int size : {-1, 0, kMinPreprocessedSize - 1, kMaxPreprocessedSize + 1}) {
    EXPECT_THROW(make_preprocessing(GetParam(), Subset::kTrain, size), InvalidArgument) << size;
  }
  const Bytes bytes = some_jpeg();
  const StoredImage image{.name = "some", .bytes = bytes};
  std::vector<float> square(3 * kSize * kSize - 1);
  EXPECT_THROW(make(Subset::kTest)->run(image, {}, 0, square), InvalidArgument);
  EXPECT_THROW(run(*make(Subset::kTrain), image, {}, -1), InvalidArgument);
  EXPECT_THROW(run(*make(Subset::kTrain), image, {}, std::int64_t{1} << 41), InvalidArgument);
  EXPECT_THROW(run(*make(Subset::kTrain), image, {.seed = 1, .epoch = std::uint64_t{1} << 40}), InvalidArgument);
}

TEST_P(PreprocessingNames, RealPhotographsGiveValuesInTheRange) {
  const std::vector<std::filesystem::path> files = imagenet_sample();
  if (files.empty()) GTEST_SKIP() << "no images in " << kImageNetSample;
  ASSERT_EQ(files.size(), kImageNetSampleImages);
  const bool is_centred = GetParam() == "inception" || GetParam() == "standard";
  const bool is_normalized = GetParam() == "torchvision";
  const float min = is_centred ? -1.0001f : is_normalized ? -2.1180f : -124;
  const float max = is_centred ? 1.0001f : is_normalized ? 2.6401f : 152;
  const auto training = make(Subset::kTrain), evaluation = make(Subset::kTest);
  std::int64_t index = 0;
  for (const std::filesystem::path& file : files) {
    const Bytes bytes = read_data_file(file);
    const StoredImage image{.name = file.string(), .bytes = bytes};
    for (const Preprocessing* preprocessing : {training.get(), training.get(), evaluation.get()}) {
      for (const float value : run(*preprocessing, image, {.seed = 3, .epoch = 1}, index)) {
        ASSERT_GE(value, min);
        ASSERT_LE(value, max);
      }
      ++index;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PreprocessingNames, ::testing::ValuesIn(image_preprocessing_names()),
                         [](const auto& test) { return test.param; });

TEST(Preprocessing, UnknownNamesAreRefused) {
  try {
    make_preprocessing("lenet", Subset::kTrain, 224);
    FAIL() << "expected an InvalidArgument";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'lenet'"), HasSubstr("alexnet, vgg"), HasSubstr("standard")));
  }
}

TEST(Preprocessing, AlexnetAndVggCropNoMoreThanTheyResize) {
  EXPECT_NO_THROW(make_preprocessing("alexnet", Subset::kTrain, 256));
  EXPECT_THROW(make_preprocessing("alexnet", Subset::kTrain, 257), InvalidArgument);
  EXPECT_THROW(make_preprocessing("vgg", Subset::kTest, 257), InvalidArgument);
  EXPECT_NO_THROW(make_preprocessing("standard", Subset::kTest, 320));
}

}  // namespace
}  // namespace terngrad::preprocessing_test
