#include "datasets/sets/image_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "datasets/sets/first_examples.h"
#include "tests/datasets/image_files.h"

#include <sys/stat.h>

namespace terngrad::image_folder_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ImageFolder : public ::testing::Test {
 protected:
  /// Two classes; each image has one colour that identifies it.
  ImageFolder() {
    write("train/dog/b.JPG", jpeg(flat(40, 9, 5, 3), 9, 5));
    write("train/dog/a.png", flat_png(80));
    write("train/cat/a.png", flat_png(120));
    write("test/dog/a.png", flat_png(160));
  }
  static Bytes flat(std::uint8_t value, int height, int width, int channels) {
    return Bytes(static_cast<std::size_t>(height * width * channels), value);
  }
  static Bytes flat_png(std::uint8_t value) { return png(std::vector<Bytes>(4, Bytes(18, value)), 6); }
  static Bytes grey_png(std::uint8_t value) {
    return png(std::vector<Bytes>(4, Bytes(6, value)), 6, {.colour_type = PNG_COLOR_TYPE_GRAY});
  }
  void write(const std::string& name, const Bytes& content) {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    folder_.write(name, content);
  }
  std::unique_ptr<Dataset> open(Subset subset = Subset::kTrain) {
    return make_image_folder(
        {.data_dir = folder_.path().string(), .subset = subset, .image_size = 3, .num_threads = 2});
  }
  std::string refusal(Subset subset = Subset::kTrain) {
    return data_error([&] { open(subset); });
  }
  TemporaryFolder folder_;
};

/// The value of all pixels of an image, as a byte.
int colour(const Dataset& set, std::int64_t index) {
  std::vector<float> image(static_cast<std::size_t>(set.image_elements()));
  set.read(index, {}, image);
  EXPECT_THAT(image, Each(::testing::FloatNear(image[0], 1e-5f)));
  return static_cast<int>((image[0] / 2 + 0.5f) * 255 + 0.5f);
}

TEST_F(ImageFolder, ListsInOrderOfNames) {
  write("train/dog/.hidden", {1});
  write("train/dog/Thumbs.db", {1});
  write("train/cat/desktop.ini", {1});
  write("train/Desktop.ini", {1});
  write("train/.git/x", {1});
  const auto set = open();
  EXPECT_EQ(set->name(), "folder");
  EXPECT_FALSE(set->is_augmented());
  EXPECT_EQ(set->num_examples(), 3);
  EXPECT_EQ(set->num_classes(), 2);
  EXPECT_EQ(set->class_names(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(first_examples(open(), 1)->class_names(), set->class_names());
  EXPECT_EQ(set->height(), 3);
  EXPECT_EQ(set->width(), 3);
  EXPECT_EQ(set->channels(), 3);
  EXPECT_EQ(set->label(0), 0);
  EXPECT_EQ(colour(*set, 0), 120);
  EXPECT_EQ(set->label(1), 1);
  EXPECT_EQ(colour(*set, 1), 80);
  EXPECT_EQ(set->label(2), 1);
  EXPECT_EQ(colour(*set, 2), 40);
  const auto test = open(Subset::kTest);
  EXPECT_EQ(test->num_examples(), 1);
  EXPECT_EQ(test->num_classes(), 2);
  EXPECT_EQ(test->label(0), 1);
  EXPECT_EQ(colour(*test, 0), 160);
  EXPECT_THROW(set->label(3), InvalidArgument);
  EXPECT_THROW(set->label(-1), InvalidArgument);
}

TEST_F(ImageFolder, OneChannelIfAllTrainingImagesAreGrey) {
  write("train/dog/b.JPG", grey_png(40));
  EXPECT_EQ(open()->channels(), 3);
  write("train/dog/a.png", grey_png(80));
  write("train/cat/a.png", grey_png(120));
  EXPECT_EQ(open()->channels(), 1);
  EXPECT_EQ(colour(*open(), 0), 120);
  EXPECT_THAT(refusal(Subset::kTest),
              AllOf(HasSubstr("test/dog/a.png' has colours"), HasSubstr("training images are grey")));
  write("test/dog/a.png", grey_png(90));
  EXPECT_EQ(open(Subset::kTest)->channels(), 1);
  write("train/cat/a.png", flat_png(120));
  EXPECT_EQ(open(Subset::kTest)->channels(), 3);
  EXPECT_EQ(colour(*open(Subset::kTest), 0), 90);
}

TEST_F(ImageFolder, MissingAndEmptyFoldersAreNamed) {
  std::filesystem::create_directories(folder_.path() / "train/empty");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("train/empty' is empty"), HasSubstr("needs images")));
  std::filesystem::remove_all(folder_.path() / "test/dog");
  EXPECT_THAT(refusal(Subset::kTest), HasSubstr("test' is empty"));
  std::filesystem::remove_all(folder_.path() / "train");
  EXPECT_THAT(refusal(), HasSubstr("train' cannot be listed"));
  EXPECT_THROW(make_image_folder({.image_size = 3}), InvalidArgument);
  EXPECT_THROW(make_image_folder({.data_dir = "x"}), InvalidArgument);
  EXPECT_THROW(make_image_folder({.data_dir = "x", .image_size = 3, .num_threads = -1}), InvalidArgument);
}

TEST_F(ImageFolder, ClassesThatTrainingLacksAreRefused) {
  write("test/bird/a.png", flat_png(1));
  EXPECT_THAT(refusal(Subset::kTest), AllOf(HasSubstr("test/bird'"), HasSubstr("no class 'bird'")));
}

TEST_F(ImageFolder, OtherFilesAreRefused) {
  write("train/dog/notes.txt", {1});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("train/dog/notes.txt"), HasSubstr(".jpg, .jpeg or .png only")));
  std::filesystem::remove(folder_.path() / "train/dog/notes.txt");
  write("train/readme", {1});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("train/readme"), HasSubstr("expected folders only")));
}

TEST_F(ImageFolder, APipeAmongTheImagesIsNamed) {
  ASSERT_EQ(::mkfifo((folder_.path() / "train/dog/c.jpg").c_str(), 0600), 0);
  EXPECT_THAT(refusal(), AllOf(StartsWith("[folder] '"), HasSubstr("train/dog/c.jpg' is not a file")));
}

TEST_F(ImageFolder, LinksThatLeadNowhereAreNamed) {
  std::filesystem::create_directory_symlink("none", folder_.path() / "train/owl");
  EXPECT_THAT(refusal(), AllOf(StartsWith("[folder] '"), HasSubstr("train/owl' is a symbolic link to something")));
  std::filesystem::remove(folder_.path() / "train/owl");
  std::filesystem::create_symlink("c.jpg", folder_.path() / "train/dog/c.jpg");
  EXPECT_THAT(refusal(), HasSubstr("train/dog/c.jpg' cannot be opened: Too many levels of symbolic links"));
}

TEST_F(ImageFolder, BrokenHeadersAreRefusedAtOpeningAndBrokenPixelsInRead) {
  Bytes cut = flat_png(7);
  cut.resize(cut.size() - 20);
  write("train/dog/c.png", cut);
  const auto set = open();
  std::vector<float> image(27);
  EXPECT_THAT(data_error([&] { set->read(3, {}, image); }),
              AllOf(StartsWith("[folder] '"), HasSubstr("train/dog/c.png': expected an intact PNG image, found: ")));
  cut.resize(20);
  write("train/dog/c.png", cut);
  EXPECT_THAT(refusal(),
              AllOf(StartsWith("[folder] '"), HasSubstr("train/dog/c.png': expected an intact PNG image, found: ")));
}

TEST_F(ImageFolder, MessagesOfBothDecodersBeginWithTheSetsName) {
  Bytes cut = jpeg(counting_bytes(3 * 24 * 24), 24, 24);
  cut.resize(cut.size() - 30);
  write("test/dog/b.jpg", cut);
  const auto set = open(Subset::kTest);
  std::vector<float> image(27);
  const auto read_refusal = [&] { return data_error([&] { set->read(1, {}, image); }); };
  EXPECT_THAT(read_refusal(),
              AllOf(StartsWith("[folder] '"), HasSubstr("test/dog/b.jpg': expected an intact JPEG image, found: ")));
  write("test/dog/b.jpg", {});
  EXPECT_THAT(read_refusal(),
              AllOf(StartsWith("[folder] '"), HasSubstr("test/dog/b.jpg': expected a JPEG or PNG image, "
                                                        "found an empty file")));
  std::filesystem::remove(folder_.path() / "test/dog/b.jpg");
  EXPECT_THAT(read_refusal(), AllOf(StartsWith("[folder] '"), HasSubstr("test/dog/b.jpg' does not exist")));
}

TEST_F(ImageFolder, ImageSizesOutOfRangeAreRefusedWithTheRange) {
  for (const int size : {-1, 0, 1025}) {
    try {
      make_image_folder({.data_dir = folder_.path().string(), .image_size = size});
      FAIL() << "expected InvalidArgument";
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("[folder] image_size must be 1 to 1024"), EndsWith(", got " + std::to_string(size))));
    }
  }
  EXPECT_EQ(make_image_folder({.data_dir = folder_.path().string(), .image_size = 1024})->width(), 1024);
}

TEST(RealImageFolder, PhotographsOpen) {
  const std::filesystem::path images = "../shared/data/imagenet-sample/images";
  if (!std::filesystem::exists(images)) GTEST_SKIP() << "no images in " << images;
  const TemporaryFolder folder;
  std::filesystem::create_directory_symlink(std::filesystem::absolute(images), folder.path() / "train");
  const auto set = make_image_folder({.data_dir = folder.path().string(), .image_size = 64});
  EXPECT_EQ(set->num_examples(), 39);
  EXPECT_EQ(set->num_classes(), 39);
  EXPECT_EQ(set->channels(), 3);
  std::vector<float> image(64 * 64 * 3);
  std::set<float> first_values;
  for (std::int64_t i = 0; i < set->num_examples(); ++i) {
    set->read(i, {}, image);
    for (const float value : image) ASSERT_TRUE(value >= -1.00001f && value <= 1.00001f);
    first_values.insert(image[0]);
  }
  EXPECT_GT(first_values.size(), 30u);
}

}  // namespace
}  // namespace terngrad::image_folder_test
