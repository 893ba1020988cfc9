#include "datasets/sets/first_examples.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "datasets/sets/grey_images.h"
#include "kernels/runtime/errors.h"
#include "tests/datasets/stored_images.h"

namespace terngrad::first_examples_test {
namespace {

/// Images of 1 x 2 pixels: example i has pixels i and 0.
std::unique_ptr<Dataset> small_set(int count) {
  GreyPixels grey;
  grey.height = 1;
  grey.width = 2;
  for (int i = 0; i < count; ++i) {
    grey.pixels.push_back(static_cast<std::uint8_t>(i));
    grey.pixels.push_back(0);
    grey.labels.push_back(static_cast<std::uint8_t>(i % 3));
  }
  return std::make_unique<GreyImages>("small", std::move(grey), 3, 0);
}

TEST(FirstExamples, AreTheSameExamples) {
  const auto whole = small_set(9);
  const auto first = first_examples(small_set(9), 5);
  EXPECT_EQ(first->num_examples(), 5);
  EXPECT_EQ(first->name(), "small");
  EXPECT_EQ(first->height(), whole->height());
  EXPECT_EQ(first->width(), whole->width());
  EXPECT_EQ(first->channels(), whole->channels());
  EXPECT_EQ(first->num_classes(), 3);
  std::vector<float> expected(static_cast<std::size_t>(whole->image_elements()));
  std::vector<float> found(expected.size());
  for (std::int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(first->label(i), whole->label(i));
    whole->read(i, {}, expected);
    first->read(i, {}, found);
    EXPECT_EQ(found, expected);
  }
}

TEST(FirstExamples, OfferWhatTheWholeSetOffers) {
  EXPECT_FALSE(first_examples(small_set(9), 5)->is_augmented());
  EXPECT_FALSE(first_examples(small_set(9), 5)->crop_source().has_value());
  const auto stored = first_examples(std::make_unique<testing::StoredImages>(9, 4, 3, true), 5);
  EXPECT_TRUE(stored->is_augmented());
  ASSERT_TRUE(stored->crop_source().has_value());
  EXPECT_EQ(stored->crop_source()->source_size, 4);
}

TEST(FirstExamples, AllOfThemIsAccepted) { EXPECT_EQ(first_examples(small_set(4), 4)->num_examples(), 4); }

TEST(FirstExamples, NoneOrMoreThanThereAreIsRefused) {
  for (const std::int64_t count : {-1, 0, 5}) EXPECT_THROW(first_examples(small_set(4), count), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::first_examples_test
