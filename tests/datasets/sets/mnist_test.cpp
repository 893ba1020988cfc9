#include "datasets/sets/mnist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>

#include "tests/datasets/data_files.h"

namespace terngrad::mnist_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Bytes idx_header(std::uint8_t num_dimensions, const std::vector<std::uint8_t>& dimensions) {
  Bytes bytes = {0, 0, 8, num_dimensions};
  for (const std::uint8_t dimension : dimensions) bytes.insert(bytes.end(), {0, 0, 0, dimension});
  return bytes;
}

class Mnist : public ::testing::Test {
 protected:
  Mnist() : images_(idx_header(3, {3, 28, 28})), labels_(idx_header(1, {3})) {
    const Bytes pixels = counting_bytes(3 * 28 * 28);
    images_.insert(images_.end(), pixels.begin(), pixels.end());
    labels_.insert(labels_.end(), {7, 0, 9});
  }

  std::unique_ptr<Dataset> open() { return make_mnist({.data_dir = folder_.path().string(), .subset = Subset::kTest}); }
  std::string refusal() {
    return data_error([&] { open(); });
  }

  TemporaryFolder folder_;
  Bytes images_;
  Bytes labels_;
};

std::vector<float> read_all(const Dataset& set) {
  const auto image_elements = static_cast<std::size_t>(set.image_elements());
  std::vector<float> images(static_cast<std::size_t>(set.num_examples()) * image_elements);
  for (std::size_t i = 0; i * image_elements < images.size(); ++i) {
    set.read(static_cast<std::int64_t>(i), {}, std::span(images).subspan(i * image_elements, image_elements));
  }
  return images;
}

TEST_F(Mnist, ReadsPlainAndGzipAlike) {
  folder_.write("t10k-images-idx3-ubyte", images_);
  folder_.write("t10k-labels-idx1-ubyte.gz", gzip(labels_));
  const auto plain = open();
  std::filesystem::remove(folder_.path() / "t10k-images-idx3-ubyte");
  folder_.write("t10k-images-idx3-ubyte.gz", gzip(images_));
  const auto packed = open();
  EXPECT_EQ(plain->name(), "mnist");
  EXPECT_EQ(plain->num_examples(), 3);
  EXPECT_EQ(plain->num_classes(), 10);
  EXPECT_EQ(plain->image_elements(), 28 * 28);
  EXPECT_EQ(plain->label(0), 7);
  EXPECT_EQ(plain->label(2), 9);
  const std::vector<float> images = read_all(*plain);
  EXPECT_EQ(images, read_all(*packed));
  for (std::size_t i = 0; i < images.size(); ++i) {
    ASSERT_EQ(images[i], (static_cast<float>(images_[16 + i]) / 255.0f - 0.5f) * 2.0f) << i;
  }
}

TEST_F(Mnist, MissingFilesAreNamed) {
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("t10k-images-idx3-ubyte or t10k-images-idx3-ubyte.gz or t10k-images-idx3-ubyte.xz"),
                    HasSubstr(folder_.path().string()), HasSubstr("scripts/download_data.sh")));
  folder_.write("t10k-images-idx3-ubyte", images_);
  EXPECT_THAT(refusal(), HasSubstr("no t10k-labels-idx1-ubyte or"));
  EXPECT_THROW(make_mnist({}), InvalidArgument);
}

TEST_F(Mnist, NamesMayHaveADot) {
  folder_.write("t10k-images.idx3-ubyte", images_);
  std::filesystem::create_directory(folder_.path() / "t10k-images-idx3-ubyte");  // as an archive of both has it
  folder_.write("t10k-labels.idx1-ubyte", labels_);
  EXPECT_EQ(open()->num_examples(), 3);
}

TEST_F(Mnist, DifferentCountsAreRefused) {
  folder_.write("t10k-images-idx3-ubyte", images_);
  labels_[7] = 2;
  labels_.pop_back();
  folder_.write("t10k-labels-idx1-ubyte", labels_);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("t10k-labels-idx1-ubyte"), HasSubstr("expected 3"), HasSubstr("found 2")));
}

TEST_F(Mnist, OtherImageSizesAreRefused) {
  images_[11] = 14;
  images_[15] = 56;
  folder_.write("t10k-images-idx3-ubyte", images_);
  folder_.write("t10k-labels-idx1-ubyte", labels_);
  EXPECT_THAT(refusal(), HasSubstr("expected 28 x 28, found 14 x 56"));
}

TEST_F(Mnist, UnpackingEndsWhereTheHeaderSays) {
  folder_.write("t10k-labels-idx1-ubyte", labels_);
  images_.push_back(0);
  folder_.write("t10k-images-idx3-ubyte.gz", gzip(images_));
  EXPECT_THAT(refusal(),
              HasSubstr("images-idx3-ubyte.gz' has trailing bytes: its header says 2368 bytes, and there are"));
}

TEST_F(Mnist, WhereToGetTheFilesIsSaidOnlyOfMissingOnes) {
  std::filesystem::create_symlink("t10k-images-idx3-ubyte", folder_.path() / "t10k-images-idx3-ubyte");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("Too many levels"), ::testing::Not(HasSubstr("download_data"))));
}

TEST_F(Mnist, DamagedFilesAreRefused) {
  folder_.write("t10k-images-idx3-ubyte", images_);
  labels_[9] = 10;
  folder_.write("t10k-labels-idx1-ubyte.gz", gzip(labels_));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("t10k-labels-idx1-ubyte.gz"), HasSubstr("found 10")));
  Bytes packed = gzip(labels_);
  packed.resize(packed.size() - 3);
  folder_.write("t10k-labels-idx1-ubyte.gz", packed);
  EXPECT_THAT(refusal(), HasSubstr("truncated"));
}

/// Number of examples, first labels and sum of all pixels of the published files.
struct Published {
  Subset subset;
  std::int64_t num_examples;
  std::array<std::int32_t, 5> first_labels;
  std::int64_t pixel_sum;
};

class RealMnist : public ::testing::TestWithParam<Published> {};

TEST_P(RealMnist, IsThePublishedSet) {
  const std::string data_dir = "../shared/data/mnist";
  if (!std::filesystem::exists(data_dir)) GTEST_SKIP() << "no MNIST in " << data_dir;
  const auto set = make_mnist({.data_dir = data_dir, .subset = GetParam().subset});
  ASSERT_EQ(set->num_examples(), GetParam().num_examples);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(set->label(static_cast<std::int64_t>(i)), GetParam().first_labels[i]);
  }
  std::vector<float> image(28 * 28);
  std::int64_t pixel_sum = 0;
  for (std::int64_t i = 0; i < set->num_examples(); ++i) {
    set->read(i, {}, image);
    for (const float value : image) pixel_sum += static_cast<std::int64_t>((value * 0.5f + 0.5f) * 255.0f + 0.5f);
  }
  EXPECT_EQ(pixel_sum, GetParam().pixel_sum);
}

INSTANTIATE_TEST_SUITE_P(Subsets, RealMnist,
                         ::testing::Values(Published{Subset::kTrain, 60'000, {5, 0, 4, 1, 9}, 1'567'298'545},
                                           Published{Subset::kTest, 10'000, {7, 2, 1, 0, 4}, 264'923'200}),
                         [](const auto& test) {
                           return std::string(test.param.subset == Subset::kTrain ? "Train" : "Test");
                         });

}  // namespace
}  // namespace terngrad::mnist_test
