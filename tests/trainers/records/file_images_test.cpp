#include "trainers/records/file_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/datasets/image_files.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::file_images_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;

class FileImages : public ::testing::Test {
 protected:
  void write(const std::string& name, const Bytes& content) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
  }
  void write_text(const std::string& name, const std::string& text) const {
    write(name, Bytes(text.begin(), text.end()));
  }
  std::string root() const { return folder_.path().string(); }

  const Bytes image_ = jpeg(smooth_pixels(6, 9, 3), 6, 9);
  TemporaryDirectory folder_;
};

TEST_F(FileImages, FoldersNameClasses) {
  for (const char* name : {"train/dog/1.jpg", "train/cat/2.jpg", "train/cat/1.jpg", "test/dog/7.jpg"}) {
    write(name, image_);
  }
  const ImageSources sources = folder_images(root());
  EXPECT_EQ(sources.names, (LabelNames{{0, "cat"}, {1, "dog"}}));
  EXPECT_TRUE(sources.is_shuffled);
  ASSERT_EQ(sources.train->size(), 3u);
  ASSERT_EQ(sources.test->size(), 1u);
  const ImageExample example = sources.test->example(0);
  EXPECT_EQ(example.encoded, std::string(image_.begin(), image_.end()));
  EXPECT_EQ(example.label, 1);
  EXPECT_EQ(example.class_text, "dog");
  EXPECT_EQ(example.filename, "7.jpg");
  EXPECT_EQ(example.height, 6);
  EXPECT_EQ(example.width, 9);
  std::set<std::string> keys;
  for (std::size_t i = 0; i < 3; ++i) keys.insert(sources.train->key(i));
  EXPECT_EQ(keys.size(), 3u);
  write("test/fox/1.jpg", image_);
  EXPECT_THAT(data_error([&] { folder_images(root()); }), HasSubstr("no class 'fox'"));
}

TEST_F(FileImages, ADamagedHeaderIsRefusedByName) {
  write("train/cat/1.jpg", Bytes(image_.begin(), image_.begin() + 10));
  const ImageSources sources = folder_images(root());
  EXPECT_EQ(sources.test, nullptr);
  EXPECT_THAT(data_error([&] { sources.train->example(0); }), HasSubstr("1.jpg"));
}

TEST_F(FileImages, ListsSayLabelsAndBoxes) {
  write("a/1.jpg", image_);
  write_text("train.csv", "a/1.jpg,7,0.25,0.5,0.75,1,0,0,1,1\r\n\na/1.jpg,0\n");
  const ImageSources sources = csv_images(root());
  EXPECT_EQ(sources.test, nullptr);
  ASSERT_EQ(sources.train->size(), 2u);
  const ImageExample example = sources.train->example(0);
  EXPECT_EQ(example.label, 7);
  ASSERT_EQ(example.boxes.size(), 2u);
  EXPECT_EQ(example.boxes[0], (BoundingBox{.x_min = 0.25f, .y_min = 0.5f, .x_max = 0.75f, .y_max = 1}));
  EXPECT_TRUE(sources.train->example(1).boxes.empty());
  EXPECT_NE(sources.train->key(0), sources.train->key(1));
}

TEST_F(FileImages, ListsAreReadAsCsvFiles) {
  // As written by spreadsheets: byte-order mark, quotes around a field with a comma or a quote.
  write("a, 1 \"b\".jpg", image_);
  write_text("train.csv", "\xef\xbb\xbf\"a, 1 \"\"b\"\".jpg\",\"7\"\r\n\"\xef\xbb\xbf\",1\n");
  const ImageSources sources = csv_images(root());
  EXPECT_EQ(sources.train->example(0).label, 7);
  EXPECT_EQ(sources.train->name(1), root() + "/\xef\xbb\xbf");
  for (const char* line : {"\"a.jpg,1", "\"a\".jpg,1", "a\"b.jpg,1", "\"a.jpg\"\",1", "\"\",1"}) {
    write_text("train.csv", "a.jpg,1\n" + std::string(line) + "\n");
    EXPECT_THAT(data_error([&] { csv_images(root()); }), AllOf(HasSubstr("train.csv"), HasSubstr("line 2"))) << line;
  }
}

TEST_F(FileImages, OtherListsAreRefusedByLine) {
  EXPECT_THAT(data_error([&] { csv_images(root()); }), HasSubstr("neither train.csv nor test.csv"));
  for (const char* line : {"a.jpg", "a.jpg,", "a.jpg,x", "a.jpg,-1", "a.jpg,1048576", ",3", "a.jpg,1,0,0,1",
                           "a.jpg,1,0,0,1,1.5", "a.jpg,1,0.5,0,0.25,1", "a.jpg,1,0,nan,1,1"}) {
    write_text("train.csv", "a.jpg,1\n" + std::string(line) + "\n");
    EXPECT_THAT(data_error([&] { csv_images(root()); }), AllOf(HasSubstr("train.csv"), HasSubstr("line 2"))) << line;
  }
}

TEST_F(FileImages, ImageNetIsLabelledByItsSynsets) {
  for (const char* name : {"train/n02/n02_5.JPEG", "train/n01/n01_1.JPEG", "validation/n01/val_3.JPEG"}) {
    write(name, image_);
  }
  write_text("synsets.txt", "n02 goldfish\nn01\n");
  write_text("boxes.csv", "n02_5.JPEG,0,0,0.5,0.5\nn02_5,0.5,0.5,1,1\nother,0,0,1,1\n");
  const std::string labels = (folder_ / "synsets.txt").string(), boxes = (folder_ / "boxes.csv").string();
  const ImageSources sources = imagenet_images(root(), labels, boxes);
  EXPECT_EQ(sources.names, (LabelNames{{1, "n02 goldfish"}, {2, "n01"}}));
  ASSERT_EQ(sources.train->size(), 2u);
  const ImageExample example = sources.train->example(1);
  EXPECT_EQ(example.label, 1);
  EXPECT_EQ(example.synset, "n02");
  EXPECT_EQ(example.boxes.size(), 2u);
  EXPECT_EQ(sources.test->example(0).label, 2);
  EXPECT_TRUE(imagenet_images(root(), labels, "").train->example(1).boxes.empty());
  write_text("synsets.txt", "n02\nn02\n");
  EXPECT_THAT(data_error([&] { imagenet_images(root(), labels, ""); }), HasSubstr("'n02' is there twice"));
  write_text("synsets.txt", "n02\n");
  EXPECT_THAT(data_error([&] { imagenet_images(root(), labels, ""); }), HasSubstr("no synset 'n01'"));
  write_text("boxes.csv", "n02_5,0,0,1\n");
  EXPECT_THAT(data_error([&] { imagenet_images(root(), labels, boxes); }), HasSubstr("line 1"));
}

}  // namespace
}  // namespace terngrad::file_images_test
