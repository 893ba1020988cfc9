#include "datasets/sets/record_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/datasets/record_files.h"

namespace terngrad::record_images_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// One shard per subset, with records of these labels.
class Records {
 public:
  explicit Records(const std::vector<int>& train, const std::vector<int>& test = {}) {
    write(Subset::kTrain, train);
    if (!test.empty()) write(Subset::kTest, test);
  }
  DatasetOptions options(int label_offset = 0, Subset subset = Subset::kTrain) const {
    return {.data_dir = folder.path().string(),
            .subset = subset,
            .image_size = 32,
            .preprocessing = "standard",
            .label_offset = label_offset,
            .num_threads = 1};
  }
  TemporaryFolder folder;

 private:
  void write(Subset subset, const std::vector<int>& labels) {
    std::vector<ImageExample> examples;
    for (const int label : labels) examples.push_back(png_example(label, 10 * label));
    write_shards(folder, subset, {examples});
  }
};

std::vector<int> labels_of(const Dataset& set) {
  std::vector<int> labels;
  for (std::int64_t i = 0; i < set.num_examples(); ++i) labels.push_back(set.label(i));
  return labels;
}

template <class Exception>
std::string refusal(const std::function<void()>& make) {
  try {
    make();
  } catch (const Exception& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

TEST(RecordImages, AreOnesOwn) {
  const Records records({0, 3, 1}, {1, 2});
  const auto set = make_records(records.options());
  EXPECT_EQ(set->name(), "records");
  EXPECT_EQ(set->num_classes(), 4);
  EXPECT_THAT(labels_of(*set), ElementsAre(0, 3, 1));
  EXPECT_EQ(set->height(), 32);
  EXPECT_EQ(set->channels(), 3);
  EXPECT_TRUE(set->class_names().empty());
  // The test subset has as many classes as the training subset.
  const auto test = make_records(records.options(0, Subset::kTest));
  EXPECT_EQ(test->num_classes(), 4);
  EXPECT_THAT(labels_of(*test), ElementsAre(1, 2));
  EXPECT_FALSE(test->is_augmented());
  // Single-colour images stay so: p becomes 2 (p / 255 - 1/2).
  std::vector<float> image(32 * 32 * 3);
  test->read(1, {}, image);
  EXPECT_TRUE(std::ranges::all_of(image, [&](float x) { return x == image[0]; }));
  EXPECT_NEAR(image[0], 2 * (20 / 255.0f - 0.5f), 1e-6);
}

TEST(RecordImages, LabelsTxtNamesClasses) {
  const Records records({0, 1});
  records.folder.write("labels.txt", Bytes{'0', ':', 'a', '\n', '2', ':', 'c', '\n'});
  EXPECT_THAT(make_records(records.options())->class_names(), ElementsAre("a", "", "c"));
  EXPECT_EQ(make_records(records.options())->num_classes(), 3);
  EXPECT_THAT(make_records(records.options(1))->class_names(), ElementsAre("", "a", "", "c"));
}

TEST(RecordImages, LabelsAreShifted) {
  const Records records({1, 3});
  EXPECT_THAT(labels_of(*make_records(records.options(-1))), ElementsAre(0, 2));
  EXPECT_EQ(make_records(records.options(-1))->num_classes(), 3);
  EXPECT_THAT(refusal<DataError>([&] { make_records(records.options(-2)); }),
              AllOf(HasSubstr("record 0 at byte 0"), HasSubstr("expected 2 to 3, found 1")));
}

TEST(RecordImages, ImageNetHas1001Classes) {
  const Records records({1, 1000, 17});
  const auto set = make_imagenet(records.options());
  EXPECT_EQ(set->num_classes(), 1001);
  EXPECT_THAT(labels_of(*set), ElementsAre(1, 1000, 17));
  const auto without = make_imagenet(records.options(-1));
  EXPECT_EQ(without->num_classes(), 1000);
  EXPECT_THAT(labels_of(*without), ElementsAre(0, 999, 16));
  EXPECT_THAT(refusal<InvalidArgument>([&] { make_imagenet(records.options(-2)); }),
              HasSubstr("label_offset must be from -1"));
  EXPECT_THAT(refusal<DataError>([] {
                make_imagenet(Records({1, 0}).options());
              }),
              AllOf(HasSubstr("[imagenet]"), HasSubstr("record 1"), HasSubstr("expected 1 to 1000, found 0")));
  EXPECT_THAT(refusal<DataError>([] { make_imagenet(Records({1001}).options()); }), HasSubstr("found 1001"));
}

TEST(RecordImages, FlowersHaveLabelsOfTwoKinds) {
  EXPECT_THAT(labels_of(*make_flowers(Records({1, 5}).options())), ElementsAre(1, 5));
  EXPECT_THAT(labels_of(*make_flowers(Records({0, 4}).options())), ElementsAre(1, 5));
  EXPECT_THAT(labels_of(*make_flowers(Records({0, 4}).options(-1))), ElementsAre(0, 4));
  EXPECT_EQ(make_flowers(Records({0, 4}).options())->num_classes(), 6);
  EXPECT_THAT(refusal<DataError>([] { make_flowers(Records({1, 4}).options()); }), HasSubstr("to tell which"));
  EXPECT_THAT(refusal<DataError>([] { make_flowers(Records({0, 5}).options()); }), HasSubstr("expected 0 to 4"));
}

TEST(RecordImages, AugmentationCanBeTurnedOff) {
  const Records records({0, 1});
  DatasetOptions options = records.options();
  EXPECT_TRUE(make_records(options)->is_augmented());
  options.augment = false;
  EXPECT_FALSE(make_records(options)->is_augmented());
}

TEST(RecordImages, DamagedImagesAreRefusedByPlace) {
  TemporaryFolder folder;
  ImageExample bad = png_example(1, 1);
  bad.encoded.resize(bad.encoded.size() - 20);
  write_shards(folder, Subset::kTrain, {{png_example(0, 1)}, {bad}});
  const auto set = make_dataset("records", {.data_dir = folder.path().string(), .image_size = 32});
  std::vector<float> image(32 * 32 * 3);
  set->read(0, {}, image);
  EXPECT_THAT(data_error([&] { set->read(1, {}, image); }),
              AllOf(HasSubstr("[records]"), HasSubstr("train-00001-of-00002, record 0")));
  EXPECT_THROW(set->read(2, {}, image), InvalidArgument);
}

TEST(RecordImages, OptionsAreChecked) {
  const Records records({0, 1});
  DatasetOptions options = records.options();
  options.image_size = 0;
  EXPECT_THAT(refusal<InvalidArgument>([&] { make_records(options); }), HasSubstr("image_size"));
  options = records.options();
  options.data_dir = "";
  EXPECT_THAT(refusal<InvalidArgument>([&] { make_records(options); }), HasSubstr("data_dir"));
  options = records.options();
  options.preprocessing = "padded";
  EXPECT_THAT(refusal<InvalidArgument>([&] { make_dataset("records", options); }),
              AllOf(HasSubstr("padded"), HasSubstr("alexnet, vgg, inception, standard")));
  EXPECT_THAT(refusal<InvalidArgument>([&] { make_dataset("synthetic", {.label_offset = 1}); }),
              HasSubstr("has no label_offset"));
}

}  // namespace
}  // namespace terngrad::record_images_test
