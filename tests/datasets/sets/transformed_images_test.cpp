#include "datasets/sets/transformed_images.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/datasets/stored_images.h"

namespace terngrad::transformed_images_test {
namespace {

void add_epoch(std::int64_t index, const ExampleVisit& visit, std::span<float> image) {
  image[0] += static_cast<float>(visit.epoch) + 10 * static_cast<float>(index);
}

TEST(TransformedImages, ChangeWhatTheSetReads) {
  const auto plain = std::make_shared<testing::StoredImages>(9, 4, 3, true);
  const auto changed = transformed_images(plain, add_epoch, true);
  std::vector<float> expected(static_cast<std::size_t>(plain->image_elements()));
  std::vector<float> found(expected.size());
  const ExampleVisit visit{.seed = 1, .epoch = 3};
  plain->read(2, visit, expected);
  expected[0] += 23;
  changed->read(2, visit, found);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(changed->label(2), plain->label(2));
  EXPECT_EQ(changed->num_examples(), 9);
  // A GPU would crop the stored images and leave the transform out.
  EXPECT_TRUE(plain->crop_source().has_value());
  EXPECT_FALSE(changed->crop_source().has_value());
}

TEST(TransformedImages, AreAugmentedIfTheSetOrTheTransformIs) {
  for (const bool set : {false, true}) {
    const auto plain = std::make_shared<testing::StoredImages>(9, 4, 3, set);
    EXPECT_EQ(transformed_images(plain, add_epoch, false)->is_augmented(), set);
    EXPECT_TRUE(transformed_images(plain, add_epoch, true)->is_augmented());
  }
  EXPECT_THROW(transformed_images(std::make_shared<testing::StoredImages>(9, 4, 3, true), {}, true), InvalidArgument);
  EXPECT_THROW(transformed_images(nullptr, add_epoch, true), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::transformed_images_test
