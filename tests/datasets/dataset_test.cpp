#include "datasets/dataset.h"

#include "datasets/sets/constant_images.h"
#include "datasets/sets/first_examples.h"
#include "kernels/runtime/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace terngrad::dataset_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Dataset, NamesAreRegistered) {
  EXPECT_THAT(dataset_names(), ElementsAre("cifar10", "flowers", "folder", "imagenet", "mnist", "npy", "records",
                                           "synthetic", "synthetic224"));
}

TEST(Dataset, UnknownNameIsRefusedWithTheKnownOnes) {
  try {
    make_dataset("svhn", {});
    FAIL() << "expected InvalidArgument";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'svhn'"), HasSubstr("cifar10, flowers, folder, imagenet, mnist, npy")));
  }
}

TEST(Dataset, PreprocessingThatASetDoesNotKnowIsRefused) {
  EXPECT_THAT(preprocessing_names(),
              ElementsAre("auto", "padded", "alexnet", "vgg", "inception", "standard", "torchvision"));
  try {
    make_dataset("synthetic", {.preprocessing = "padded"});
    FAIL() << "expected InvalidArgument";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("synthetic has no preprocessing 'padded', expected one of: auto"));
  }
}

TEST(Dataset, WhatIsNeverAugmentedSaysSo) {
  EXPECT_TRUE(can_augment("cifar10"));
  EXPECT_TRUE(can_augment("imagenet"));
  EXPECT_FALSE(can_augment("mnist"));
  EXPECT_THROW(make_dataset("synthetic", {.augment = false}), InvalidArgument);
}

TEST(Dataset, NamesOpenTheirSets) {
  const auto set = make_dataset("synthetic", {.subset = Subset::kTest, .image_size = 32, .num_threads = 1});
  EXPECT_EQ(set->name(), "synthetic");
  EXPECT_EQ(set->num_examples(), 10'000);
  EXPECT_EQ(set->height(), 32);
  EXPECT_EQ(set->width(), 32);
  EXPECT_EQ(set->image_elements(), 32 * 32);
  EXPECT_THROW(make_dataset("mnist", {.data_dir = "/no such folder"}), DataError);
}

}  // namespace
}  // namespace terngrad::dataset_test
