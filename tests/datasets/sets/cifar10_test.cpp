#include "datasets/sets/cifar10.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "datasets/formats/compressed_file.h"
#include "datasets/transforms/augmentation.h"
#include "datasets/transforms/padded_crop.h"
#include "tests/datasets/data_files.h"
#include "tests/support/sanitized.h"

namespace terngrad::cifar10_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kRecords = 10'000;

/// A batch file with labels (i + first_label) mod 10 and a distinct pixel pattern in the first records.
Bytes batch(int first_label) {
  Bytes bytes(kRecords * kCifar10RecordBytes);
  const Bytes pixels = counting_bytes(8 * kCifar10RecordBytes);
  std::copy(pixels.begin(), pixels.end(), bytes.begin());
  for (std::size_t i = 0; i < kRecords; ++i) {
    bytes[i * kCifar10RecordBytes] = static_cast<std::uint8_t>((i + static_cast<std::size_t>(first_label)) % 10);
  }
  return bytes;
}

std::vector<float> read(const Dataset& set, std::int64_t index, const ExampleVisit& visit = {}) {
  std::vector<float> image(static_cast<std::size_t>(set.image_elements()));
  set.read(index, visit, image);
  return image;
}

class Cifar10 : public ::testing::Test {
 protected:
  std::unique_ptr<Dataset> open(Subset subset, int image_size = 0) {
    return make_cifar10(
        {.data_dir = folder_.path().string(), .subset = subset, .image_size = image_size, .num_threads = 2});
  }
  std::string refusal() {
    return data_error([&] { open(Subset::kTest); });
  }
  TemporaryFolder folder_;
};

TEST_F(Cifar10, ReadsTheTestBatchPlainAndPacked) {
  const Bytes bytes = batch(3);
  folder_.write("test_batch.bin", bytes);
  const auto plain = open(Subset::kTest);
  EXPECT_EQ(plain->name(), "cifar10");
  EXPECT_EQ(plain->num_examples(), 10'000);
  EXPECT_EQ(plain->num_classes(), 10);
  EXPECT_EQ(plain->height(), 24);
  EXPECT_EQ(plain->width(), 24);
  EXPECT_EQ(plain->channels(), 3);
  EXPECT_EQ(plain->label(0), 3);
  EXPECT_EQ(plain->label(9'999), 2);
  // The centre crop of record 5, independent of the visit.
  std::vector<float> expected(24 * 24 * 3);
  const auto record = std::span(bytes).subspan(5 * kCifar10RecordBytes + 1, kCifar10RecordBytes - 1);
  standardize_crop(record, 32, {.top = 4, .left = 4}, 24, expected);
  EXPECT_EQ(read(*plain, 5), expected);
  EXPECT_EQ(read(*plain, 5, {.seed = 2, .epoch = 9}), expected);
  EXPECT_FALSE(plain->is_augmented());
  const std::optional<CropSource> source = plain->crop_source();
  ASSERT_TRUE(source.has_value());
  EXPECT_EQ(source->source_size, 32);
  EXPECT_FALSE(source->is_augmented);
  EXPECT_TRUE(std::ranges::equal(source->planar(5), record));

  for (const std::string suffix : {".gz", ".xz"}) {
    std::filesystem::remove_all(folder_.path() / "cifar-10-batches-bin");
    std::filesystem::create_directory(folder_.path() / "cifar-10-batches-bin");
    folder_.write("cifar-10-batches-bin/test_batch.bin" + suffix, suffix == ".gz" ? gzip(bytes) : xz(bytes));
    std::filesystem::remove(folder_.path() / "test_batch.bin");
    const auto packed = open(Subset::kTest);
    for (const std::int64_t i : {0, 7, 9'999}) EXPECT_EQ(read(*packed, i), read(*plain, i)) << suffix;
  }
}

TEST_F(Cifar10, TrainingJoinsFiveBatchesAndAugments) {
  for (int i = 1; i <= 5; ++i) folder_.write("data_batch_" + std::to_string(i) + ".bin.gz", gzip(batch(i)));
  const auto set = open(Subset::kTrain, 20);
  EXPECT_EQ(set->num_examples(), 50'000);
  EXPECT_EQ(set->height(), 20);
  for (int file = 0; file < 5; ++file) EXPECT_EQ(set->label(file * 10'000 + 2), (file + 1 + 2) % 10);
  const Bytes bytes = batch(4);
  const auto record = std::span(bytes).subspan(6 * kCifar10RecordBytes + 1, kCifar10RecordBytes - 1);
  const ExampleVisit visit{.seed = 11, .epoch = 4};
  std::vector<float> expected(20 * 20 * 3);
  standardize_crop(record, 32, draw_augmentation(visit, 30'006, 12), 20, expected);
  EXPECT_EQ(read(*set, 30'006, visit), expected);
  EXPECT_NE(read(*set, 30'006, {.seed = 11, .epoch = 5}), expected);
  EXPECT_TRUE(set->is_augmented());
  const std::optional<CropSource> source = set->crop_source();
  ASSERT_TRUE(source.has_value());
  EXPECT_TRUE(source->is_augmented);
  EXPECT_TRUE(std::ranges::equal(source->planar(30'006), record));
  EXPECT_THROW(set->label(50'000), InvalidArgument);
  EXPECT_THROW(read(*set, -1), InvalidArgument);
  EXPECT_THROW(set->read(0, {}, std::span(expected).first(3)), InvalidArgument);
}

TEST_F(Cifar10, PaddedTakesWindowsOfTheImageWithItsBorder) {
  for (int i = 1; i <= 5; ++i) folder_.write("data_batch_" + std::to_string(i) + ".bin.gz", gzip(batch(i)));
  folder_.write("test_batch.bin", batch(0));
  const auto open_padded = [&](Subset subset, int image_size) {
    return make_cifar10({.data_dir = folder_.path().string(),
                         .subset = subset,
                         .image_size = image_size,
                         .preprocessing = "padded",
                         .num_threads = 2});
  };
  const ByteTables tables = make_byte_tables(kCifar10Means, kCifar10Deviations);
  const auto train = open_padded(Subset::kTrain, 0);
  EXPECT_EQ(train->height(), 32);
  EXPECT_TRUE(train->is_augmented());
  EXPECT_FALSE(train->crop_source().has_value());
  const Bytes bytes = batch(4);
  const auto record = std::span(bytes).subspan(6 * kCifar10RecordBytes + 1, kCifar10RecordBytes - 1);
  const ExampleVisit visit{.seed = 11, .epoch = 4};
  Augmentation augmentation = draw_augmentation(visit, 30'006, 8);
  augmentation.contrast = 1;
  std::vector<float> expected(32 * 32 * 3);
  padded_crop(record, 32, 4, augmentation, tables, 32, expected);
  EXPECT_EQ(read(*train, 30'006, visit), expected);

  const Bytes test_bytes = batch(0);
  const auto test_record = std::span(test_bytes).subspan(1, kCifar10RecordBytes - 1);
  padded_crop(test_record, 32, 4, {.top = 4, .left = 4}, tables, 32, expected);
  EXPECT_EQ(read(*open_padded(Subset::kTest, 32), 0, visit), expected);
  EXPECT_EQ(open_padded(Subset::kTest, 40)->height(), 40);
  EXPECT_THROW(open_padded(Subset::kTest, 41), InvalidArgument);
  EXPECT_THROW(make_cifar10({.data_dir = folder_.path().string(), .subset = Subset::kTest, .preprocessing = "other"}),
               InvalidArgument);
}

TEST_F(Cifar10, MissingFilesAreNamed) {
  EXPECT_THAT(refusal(), AllOf(HasSubstr("no test_batch.bin or test_batch.bin.gz or test_batch.bin.xz"),
                               HasSubstr(folder_.path().string()), HasSubstr("scripts/download_data.sh")));
  std::filesystem::create_directory(folder_.path() / "cifar-10-batches-bin");
  EXPECT_THAT(refusal(), HasSubstr((folder_.path() / "cifar-10-batches-bin").string()));
  EXPECT_THAT(data_error([&] { open(Subset::kTrain); }), HasSubstr("no data_batch_1.bin or"));
}

TEST_F(Cifar10, OtherDownloadsAreRecognized) {
  folder_.write("cifar-10-python.tar.gz", {1});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("'cifar-10-python.tar.gz' there is of the version for Python"),
                               HasSubstr("scripts/download_data.sh cifar10")));
  std::filesystem::remove(folder_.path() / "cifar-10-python.tar.gz");
  folder_.write("test_batch", {1});
  EXPECT_THAT(refusal(), HasSubstr("'test_batch' there is of the version for Python"));
  std::filesystem::remove(folder_.path() / "test_batch");
  folder_.write("fine_label_names.txt", {});
  EXPECT_THAT(refusal(), HasSubstr("'fine_label_names.txt' there is of CIFAR-100"));
  folder_.write("cifar-10-binary.tar.gz", {1});
  EXPECT_THAT(refusal(), HasSubstr("tar -xzf '" + (folder_.path() / "cifar-10-binary.tar.gz").string() + "' -C '" +
                                   folder_.path().string() + "'"));
}

TEST_F(Cifar10, SizesOutOfRangeAreRefused) {
  EXPECT_THROW(open(Subset::kTest, 33), InvalidArgument);
  EXPECT_THROW(open(Subset::kTest, -1), InvalidArgument);
  EXPECT_THROW(make_cifar10({.data_dir = "x", .num_threads = -1}), InvalidArgument);
  EXPECT_THROW(make_cifar10({}), InvalidArgument);
}

TEST_F(Cifar10, DamagedFilesAreRefused) {
  Bytes bytes = batch(0);
  bytes.pop_back();
  folder_.write("test_batch.bin", bytes);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("test_batch.bin' is truncated"), HasSubstr("10000 records of 3073 bytes"),
                               HasSubstr("found 30729999")));
  bytes.resize(bytes.size() + 2);
  folder_.write("test_batch.bin", bytes);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("trailing bytes"), HasSubstr("found 30730001")));
  folder_.write("test_batch.bin", Bytes(10'000 * 3074, 1));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("found 30740000"), HasSubstr("; CIFAR-100 has such files")));
  folder_.write("test_batch.bin", {0x80, 4, 0x95, 1});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("is truncated"), HasSubstr("; it looks like a pickle of Python")));
}

TEST(Cifar10Records, LabelsAreChecked) {
  Bytes bytes(3 * kCifar10RecordBytes, 255);
  for (std::size_t i = 0; i < 3; ++i) bytes[i * kCifar10RecordBytes] = 9;
  EXPECT_NO_THROW(check_cifar10_records("some.bin", bytes, 3));
  bytes[2 * kCifar10RecordBytes] = 10;
  EXPECT_THAT(data_error([&] { check_cifar10_records("some.bin", bytes, 3); }),
              AllOf(HasSubstr("some.bin"), HasSubstr("label of record 2: expected 0 to 9, found 10")));
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, 3 * kCifar10RecordBytes - 1}) {
    EXPECT_THAT(data_error([&] { check_cifar10_records("some.bin", std::span(bytes).first(length), 3); }),
                HasSubstr("truncated"));
  }
}

const std::string kRealFolder = "../shared/data/cifar-10";

TEST(RealCifar10, TrainingPixelsAndLabelsAreThePublishedOnes) {
  if (testing::kIsSanitized) GTEST_SKIP() << "loops of the test's own: the test subset goes through the same code";
  if (!std::filesystem::exists(kRealFolder)) GTEST_SKIP() << "no CIFAR-10 in " << kRealFolder;
  std::array<int, 10> labels{};
  std::array<double, 3> sums{}, squares{};
  for (int file = 1; file <= 5; ++file) {
    const auto path = find_data_file(kRealFolder, "data_batch_" + std::to_string(file) + ".bin");
    const Bytes bytes = read_data_file(path);
    ASSERT_NO_THROW(check_cifar10_records(path.string(), bytes, kCifar10FileRecords));
    for (std::size_t begin = 0; begin < bytes.size(); begin += kCifar10RecordBytes) {
      ++labels[bytes[begin]];
      for (std::size_t channel = 0; channel < 3; ++channel) {
        std::uint64_t sum = 0, square = 0;
        for (std::size_t i = 0; i < 1024; ++i) {
          const std::uint64_t p = bytes[begin + 1 + channel * 1024 + i];
          sum += p;
          square += p * p;
        }
        sums[channel] += static_cast<double>(sum);
        squares[channel] += static_cast<double>(square);
      }
    }
  }
  for (const int count : labels) EXPECT_EQ(count, 5'000);
  constexpr std::array kMeans = {125.307, 122.950, 113.865}, kDeviations = {62.993, 62.089, 66.705};
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const double mean = sums[channel] / (50'000.0 * 1024);
    EXPECT_NEAR(mean, kMeans[channel], 6e-4);
    const double deviation = std::sqrt(squares[channel] / (50'000.0 * 1024) - mean * mean);
    EXPECT_NEAR(deviation, kDeviations[channel], 6e-4);
    EXPECT_NEAR(mean / 255, kCifar10Means[channel], 1e-9);
    EXPECT_NEAR(deviation / 255, kCifar10Deviations[channel], 1e-9);
  }
}

TEST(RealCifar10, TestSubsetOpens) {
  if (!std::filesystem::exists(kRealFolder)) GTEST_SKIP() << "no CIFAR-10 in " << kRealFolder;
  const auto set = make_cifar10({.data_dir = kRealFolder, .subset = Subset::kTest});
  std::array<int, 10> labels{};
  for (std::int64_t i = 0; i < set->num_examples(); ++i) ++labels[static_cast<std::size_t>(set->label(i))];
  for (const int count : labels) EXPECT_EQ(count, 1'000);
  constexpr std::array kFirstLabels = {3, 8, 8, 0, 6};
  for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(set->label(i), kFirstLabels[static_cast<std::size_t>(i)]);
  double squares = 0;
  for (const float value : read(*set, 0)) squares += static_cast<double>(value) * static_cast<double>(value);
  EXPECT_NEAR(squares / (24 * 24 * 3), 1, 1e-5);
}

}  // namespace
}  // namespace terngrad::cifar10_test
