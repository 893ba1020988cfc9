#include "datasets/dataset.h"

#include "kernels/runtime/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace terngrad::dataset_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Dataset, NamesAreRegistered) {
  EXPECT_THAT(dataset_names(), ElementsAre("cifar10", "folder", "mnist", "npy", "synthetic"));
}

TEST(Dataset, UnknownNameIsRefusedWithTheKnownOnes) {
  try {
    make_dataset("imagenet", {});
    FAIL() << "expected InvalidArgument";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'imagenet'"), HasSubstr("cifar10, folder, mnist, npy, synthetic")));
  }
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
