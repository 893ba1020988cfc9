#include "datasets/sets/constant_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad::constant_images_test {
namespace {

TEST(ConstantImages, HasTheShapeOfTheSetItStandsFor) {
  const auto cifar = make_constant_images("cifar10", 24, 1);
  EXPECT_EQ(cifar->height(), 24);
  EXPECT_EQ(cifar->width(), 24);
  EXPECT_EQ(cifar->channels(), 3);
  EXPECT_EQ(cifar->num_classes(), 10);
  EXPECT_EQ(cifar->num_examples(), 50000);
  EXPECT_EQ(make_constant_images("cifar10", 0, 1)->height(), 24);  // the size of the real set
  const auto mnist = make_constant_images("mnist", 0, 1);
  EXPECT_EQ(mnist->height(), 28);
  EXPECT_EQ(mnist->channels(), 1);
  EXPECT_EQ(mnist->num_examples(), 60000);
}

TEST(ConstantImages, NamesTheSetsThatItStandsFor) {
  EXPECT_THAT(constant_image_sets(), ::testing::IsSupersetOf({"cifar10", "imagenet", "mnist", "synthetic224"}));
  for (const std::string& name : constant_image_sets()) EXPECT_GT(make_constant_images(name, 0, 1)->num_examples(), 0);
  EXPECT_THROW(make_constant_images("folder", 0, 1), InvalidArgument);
}

TEST(ConstantImages, EveryPixelIsOneHalf) {
  const auto images = make_constant_images("mnist", 5, 1);
  std::vector<float> image(25, -1.0f);
  images->read(59999, {}, image);
  EXPECT_THAT(image, ::testing::Each(0.5f));
  EXPECT_FALSE(images->is_augmented());
}

TEST(ConstantImages, LabelsAreUniformBelowTheLastClass) {
  const auto images = make_constant_images("synthetic", 0, 3);
  std::array<int, 10> counts{};
  for (std::int64_t i = 0; i < images->num_examples(); ++i) ++counts.at(static_cast<std::size_t>(images->label(i)));
  EXPECT_EQ(counts[9], 0);
  // 60,000 draws over 9 classes: 6667 each, standard deviation 77; beyond six of them with probability below 1e-8.
  for (int c = 0; c < 9; ++c) EXPECT_NEAR(counts.at(static_cast<std::size_t>(c)), 6667, 462) << c;
}

TEST(ConstantImages, LabelsDependOnTheSeedAlone) {
  const auto first = make_constant_images("mnist", 0, 1);
  const auto again = make_constant_images("mnist", 8, 1);
  const auto other = make_constant_images("mnist", 0, 2);
  int num_different = 0;
  for (std::int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(first->label(i), again->label(i));
    num_different += first->label(i) != other->label(i) ? 1 : 0;
  }
  EXPECT_GT(num_different, 50);
}

TEST(ConstantImages, OneClassHasLabelZero) {
  const ConstantImages images("one", {1, 1, 1, 1, 10}, 1);
  EXPECT_EQ(images.label(9), 0);
}

TEST(ConstantImages, BadArgumentsAreRefused) {
  EXPECT_THROW(make_constant_images("none", 0, 1), InvalidArgument);
  EXPECT_THROW(make_constant_images("mnist", -1, 1), InvalidArgument);
  EXPECT_THROW(ConstantImages("x", {1, 1, 1, 0, 1}, 1), InvalidArgument);
  const auto images = make_constant_images("mnist", 2, 1);
  std::vector<float> image(4);
  EXPECT_THROW(images->label(60000), InvalidArgument);
  EXPECT_THROW(images->read(-1, {}, image), InvalidArgument);
  image.pop_back();
  EXPECT_THROW(images->read(0, {}, image), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::constant_images_test
