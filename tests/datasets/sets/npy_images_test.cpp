#include "datasets/sets/npy_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "tests/datasets/npy_files.h"

namespace terngrad::npy_images_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

float byte_value(int x) { return (static_cast<float>(x) / 255.0f - 0.5f) * 2.0f; }

Bytes float_bytes(const std::vector<float>& values) {
  Bytes bytes(4 * values.size());
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<float> read(const Dataset& set, std::int64_t index) {
  std::vector<float> image(static_cast<std::size_t>(set.image_elements()));
  set.read(index, {.seed = 1, .epoch = 2}, image);
  return image;
}

class NpyImages : public ::testing::Test {
 protected:
  /// Two training images and one test image of 2 x 3 pixels and 2 channels.
  NpyImages() {
    write("train_images.npy", "|u1", "(2, 2, 3, 2)", counting_bytes(24));
    write("train_labels.npy", "<i8", "(2,)", {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
    write("test_images.npy", "|u1", "(1, 2, 3, 2)", Bytes(12));
    write("test_labels.npy", "|u1", "(1,)", {4});
  }
  void write(const std::string& name, const std::string& type, const std::string& shape, const Bytes& data) {
    folder_.write(name, npy_file(npy_header(type, shape), data));
  }
  std::unique_ptr<Dataset> open(Subset subset = Subset::kTrain, int image_size = 0) {
    return make_npy_images({.data_dir = folder_.path().string(), .subset = subset, .image_size = image_size});
  }
  std::string refusal() {
    return data_error([&] { open(); });
  }
  TemporaryFolder folder_;
};

TEST_F(NpyImages, ReadsBytes) {
  const auto set = open();
  EXPECT_EQ(set->name(), "npy");
  EXPECT_FALSE(set->is_augmented());
  EXPECT_EQ(set->num_examples(), 2);
  EXPECT_EQ(set->height(), 2);
  EXPECT_EQ(set->width(), 3);
  EXPECT_EQ(set->channels(), 2);
  EXPECT_EQ(set->num_classes(), 5);
  EXPECT_EQ(set->label(0), 1);
  EXPECT_EQ(set->label(1), 0);
  const Bytes bytes = counting_bytes(24);
  const std::vector<float> image = read(*set, 1);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(image[i], byte_value(bytes[12 + i]));
  EXPECT_EQ(open(Subset::kTest)->num_classes(), 5);
  EXPECT_EQ(open(Subset::kTest)->label(0), 4);
  EXPECT_THROW(set->label(2), InvalidArgument);
  EXPECT_THROW(read(*set, -1), InvalidArgument);
  std::vector<float> small(3);
  EXPECT_THROW(set->read(0, {}, small), InvalidArgument);
}

TEST_F(NpyImages, CropsAndPadsAboutTheCentre) {
  write("train_images.npy", "|u1", "(2, 1, 4)", {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(read(*open(Subset::kTrain, 2), 1),
              ElementsAre(byte_value(6), byte_value(7), byte_value(0), byte_value(0)));
  write("train_images.npy", "<f4", "(2, 1, 2)", float_bytes({1, 2, 3, -4}));
  EXPECT_THAT(read(*open(Subset::kTrain, 3), 1), ElementsAre(0, 0, 0, 3, -4, 0, 0, 0, 0));
}

TEST_F(NpyImages, FloatsAreTakenAsTheyAreAndPackedFilesToo) {
  const Bytes images = npy_file(npy_header("<f4", "(2, 2, 1)"), float_bytes({0.5f, -7, 1e30f, 0}));
  std::filesystem::remove(folder_.path() / "train_images.npy");
  folder_.write("train_images.npy.xz", xz(images));
  EXPECT_EQ(open()->channels(), 1);
  EXPECT_THAT(read(*open(), 0), ElementsAre(0.5f, -7));
  EXPECT_THAT(read(*open(), 1), ElementsAre(1e30f, 0));
}

TEST_F(NpyImages, ClassesComeFromTheirFileIfThereIsOne) {
  folder_.write("classes.txt", {'a', '\n', 'b', '\n', 'c'});
  EXPECT_EQ(open()->num_classes(), 3);
  std::filesystem::remove(folder_.path() / "test_labels.npy");
  EXPECT_EQ(open()->num_classes(), 3);
  folder_.write("classes.txt", {'a', '\n'});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("train_labels.npy"), HasSubstr("example 0: expected 0 to 0"),
                               HasSubstr("classes.txt has 1 lines, found 1")));
  folder_.write("classes.txt", {});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("classes.txt"), HasSubstr("found 0")));
}

TEST_F(NpyImages, MissingFilesAreNamed) {
  for (const std::string name : {"train_images.npy", "train_labels.npy", "test_labels.npy"}) {
    std::filesystem::rename(folder_.path() / name, folder_.path() / "away");
    EXPECT_THAT(refusal(), AllOf(HasSubstr("no " + name), HasSubstr(folder_.path().string())));
    std::filesystem::rename(folder_.path() / "away", folder_.path() / name);
  }
  EXPECT_THROW(make_npy_images({}), InvalidArgument);
  EXPECT_THROW(open(Subset::kTrain, 2000), InvalidArgument);
}

TEST_F(NpyImages, OtherArraysAreRefused) {
  folder_.write("train_images.npy", counting_bytes(20));
  EXPECT_THAT(refusal(), HasSubstr("[npy] '" + folder_.path().string()));
  write("train_images.npy", "<i4", "(2, 1, 1)", Bytes(8));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("train_images.npy"), HasSubstr("expected uint8")));
  write("train_images.npy", "|u1", "(2, 6)", Bytes(12));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("field shape"), HasSubstr("found [2, 6]")));
  write("train_images.npy", "|u1", "(2, 3, 0)", {});
  EXPECT_THAT(refusal(), HasSubstr("found [2, 3, 0]"));
  write("train_images.npy", "|u1", "(1, 1, 1, 65)", Bytes(65));
  EXPECT_THAT(refusal(), HasSubstr("found [1, 1, 1, 65]"));
  write("train_images.npy", "|u1", "(3, 1, 1)", Bytes(3));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("train_labels.npy"), HasSubstr("expected 3 labels"), HasSubstr("found 2")));
  write("train_labels.npy", "<f4", "(2,)", Bytes(8));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("train_labels.npy"), HasSubstr("expected integer labels")));
  write("train_labels.npy", "|u1", "(2, 1)", Bytes(2));
  EXPECT_THAT(refusal(), HasSubstr("found shape [2, 1]"));
}

TEST_F(NpyImages, ChannelsBeforeRowsAreRefused) {
  for (const std::string shape : {"(2, 3, 8, 8)", "(2, 1, 28, 28)", "(2, 4, 1, 5)"}) {
    write("train_images.npy", "|u1", shape, Bytes(shape == "(2, 1, 28, 28)" ? 1568u : shape[4] == '3' ? 384u : 40u));
    EXPECT_THAT(refusal(),
                AllOf(HasSubstr("train_images.npy': field shape: expected [n, height, width, channels], found [2, "),
                      HasSubstr("looks like [n, channels, height, width]"), HasSubstr("images.transpose(0, 2, 3, 1)")))
        << shape;
  }
  // Rows of 1, 3 and 4 pixels, and many channels with larger images, are accepted.
  for (const std::string shape : {"(2, 3, 4, 1)", "(2, 1, 4, 3)", "(2, 4, 3, 1)", "(2, 1, 6, 2)", "(2, 2, 1, 6)"}) {
    write("train_images.npy", "|u1", shape, Bytes(24));
    EXPECT_NO_THROW(open()) << shape;
  }
}

TEST_F(NpyImages, ALabelFarBeyondTheExamplesNeedsClassesToBeNamed) {
  write("train_labels.npy", "<i4", "(2,)", {0xff, 0xff, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(open()->num_classes(), kMaxUnnamedClasses);
  write("train_labels.npy", "<i4", "(2,)", {3, 0, 0, 0, 0x40, 0x42, 0x0f, 0});
  for (const Subset subset : {Subset::kTrain, Subset::kTest}) {
    EXPECT_THAT(data_error([&] { open(subset); }),
                AllOf(HasSubstr("train_labels.npy': label of example 1: found 1000000, which makes 1000001 classes"),
                      HasSubstr("both subsets have 3 examples"), HasSubstr("classes.txt")));
  }
  const Bytes names(1'000'001, '\n');
  folder_.write("classes.txt", names);
  EXPECT_EQ(open()->num_classes(), 1'000'001);
}

TEST_F(NpyImages, TrailingBytesOfPackedFilesAreNotUnpacked) {
  std::filesystem::remove(folder_.path() / "train_images.npy");
  folder_.write("train_images.npy.gz", gzip(npy_file(npy_header("|u1", "(2, 2, 3, 2)"), Bytes(25))));
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("[npy] '"), HasSubstr("train_images.npy.gz' has trailing bytes: its header says")));
}

TEST_F(NpyImages, NumbersThatAreNoneAreRefused) {
  const float infinity = std::numeric_limits<float>::infinity();
  write("train_images.npy", "<f4", "(2, 1, 2)", float_bytes({0, 1, 2, infinity}));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("train_images.npy"), HasSubstr("image 1: expected finite numbers")));
  write("train_images.npy", "<f4", "(2, 1, 2)", float_bytes({0, NAN, 2, 3}));
  EXPECT_THAT(refusal(), HasSubstr("image 0: expected finite numbers"));
}

TEST_F(NpyImages, TestImagesMustBeLikeTheTrainingImages) {
  write("test_images.npy", "|u1", "(1, 2, 4, 2)", Bytes(16));
  EXPECT_THAT(data_error([&] { open(Subset::kTest); }),
              AllOf(HasSubstr("test_images.npy"), HasSubstr("train_images.npy"),
                    HasSubstr("[2, 3, 2] of 1-byte integers"), HasSubstr("[2, 4, 2]")));
  write("test_images.npy", "<f4", "(1, 2, 3, 2)", float_bytes(std::vector<float>(12)));
  EXPECT_THAT(data_error([&] { open(Subset::kTest); }), HasSubstr("found [2, 3, 2] of 4-byte floats"));
  write("test_images.npy", "|u1", "(3, 2, 3, 2)", Bytes(36));
  write("test_labels.npy", "|u1", "(3,)", {4, 0, 1});
  EXPECT_EQ(open(Subset::kTest)->num_examples(), 3);
}

TEST(NpyLabels, AllIntegerTypesAndTheirLimits) {
  const auto labels = [](const std::string& type, const Bytes& data) {
    const std::size_t count = data.size() / static_cast<std::size_t>(type[2] - '0');
    const Bytes bytes = npy_file(npy_header(type, "(" + std::to_string(count) + ",)"), data);
    return read_npy_labels("some.npy", parse_npy("some.npy", bytes));
  };
  const auto refused = [&](const std::string& type, const Bytes& data) {
    return data_error([&] { labels(type, data); });
  };
  EXPECT_THAT(labels("|u1", {0, 255}), ElementsAre(0, 255));
  EXPECT_THAT(labels("|i1", {0, 127}), ElementsAre(0, 127));
  EXPECT_THAT(labels("<u2", {1, 2}), ElementsAre(513));
  EXPECT_THAT(labels("<i4", {0xff, 0xff, 0x0f, 0}), ElementsAre(kMaxArrayClasses - 1));
  EXPECT_THAT(labels("<i8", {7, 0, 0, 0, 0, 0, 0, 0}), ElementsAre(7));
  EXPECT_THAT(refused("|i1", {0, 0xff}), AllOf(HasSubstr("label of example 1"), HasSubstr("found -1")));
  EXPECT_THAT(refused("<i8", Bytes(8, 0xff)), HasSubstr("found -1"));
  EXPECT_THAT(refused("<u8", Bytes(8, 0xff)), HasSubstr("found 18446744073709551615"));
  EXPECT_THAT(refused("<i4", {0, 0, 0x10, 0}), HasSubstr("expected 0 to 1048575, found 1048576"));
  EXPECT_THAT(refused("|u1", {}), HasSubstr("n at least 1"));
}

}  // namespace
}  // namespace terngrad::npy_images_test
