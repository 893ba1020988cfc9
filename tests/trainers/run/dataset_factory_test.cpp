#include "trainers/run/dataset_factory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/small_training.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/options/train_options.h"

namespace terngrad::dataset_factory_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

TEST(OpenDataset, OfBenchmarkModeIsConstantAndOtherwiseTheFiles) {
  TrainOptions o;
  o.benchmark_mode = true;
  o.image_size = 8;
  const auto constant = open_dataset(o, Subset::kTrain);
  EXPECT_EQ(constant->height(), 8);
  o.benchmark_mode = false;
  EXPECT_GT(open_dataset(o, Subset::kTrain)->num_examples(), open_dataset(o, Subset::kTest)->num_examples());
  o.dataset = "mnist";
  o.data_dir = "/nowhere";
  EXPECT_EQ(message_of<UsageError>([&] { open_dataset(o, Subset::kTrain); }),
            "--data_dir /nowhere: there is no such folder");
}

TEST(DataName, SaysTheFolderIfThereIsOne) {
  TrainOptions o;
  o.dataset = "own";
  EXPECT_EQ(data_name(o), "own");
  o.data_dir = "/data/own";
  EXPECT_EQ(data_name(o), "own in '/data/own'");
}

TEST(CheckTestSet, ImagesAndClassesMustBeThoseOfTheTrainingSet) {
  TrainOptions o;
  o.dataset = "own";
  o.data_dir = "/data/own";
  // Images of one row with `width` pixels.
  const auto set = [](std::size_t width, int num_classes, std::size_t num_examples = 1) {
    return testing::RowDataset(std::vector(num_examples, std::vector<float>(width)),
                               std::vector<std::int32_t>(num_examples), num_classes);
  };
  EXPECT_NO_THROW(check_test_set(o, set(6, 3), set(6, 3)));
  EXPECT_NO_THROW(check_test_set(o, set(6, 3, 50), set(6, 3, 2)));
  EXPECT_EQ(message_of<DataError>([&] { check_test_set(o, set(6, 3), set(8, 3)); }),
            "data set own in '/data/own': the training set has images of 1x6x1 in 3 classes, the test set images of "
            "1x8x1 in 3 classes; both must have the same");
  EXPECT_THAT(message_of<DataError>([&] { check_test_set(o, set(6, 3), set(6, 4)); }),
              AllOf(HasSubstr("1x6x1 in 3 classes"), HasSubstr("1x6x1 in 4 classes")));
  o.data_dir = "";
  EXPECT_THAT(message_of<DataError>([&] { check_test_set(o, set(6, 3), set(6, 2)); }),
              ::testing::StartsWith("data set own: the training set"));
}

}  // namespace
}  // namespace terngrad::dataset_factory_test
