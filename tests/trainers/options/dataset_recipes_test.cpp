#include "trainers/options/dataset_recipes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/trainers/checked_options.h"

namespace terngrad::dataset_recipes_test {
namespace {

using testing::accept;
using ::testing::HasSubstr;

TEST(DatasetRecipes, DataSetsBringTheirDefaults) {
  const TrainOptions o = accept({"--dataset", "mnist", "--data_dir", "d"});
  EXPECT_EQ(o.max_steps, 10000);
  EXPECT_EQ(o.batch_size, 64);
  EXPECT_EQ(o.learning_rate_decay_type, ScheduleKind::kPolynomial);
  EXPECT_EQ(o.weight_decay, 0.0005);
  for (const char* own : {"npy", "folder"})
    EXPECT_EQ(accept({"--dataset", own, "--data_dir", "d"}).net, "lenet") << own;
  EXPECT_EQ(accept({"--dataset", "npy", "--data_dir", "d"}).image_size, 0);  // size of the arrays
  EXPECT_EQ(accept({"--dataset", "folder", "--data_dir", "d"}).image_size, 28);
  // Explicit values win, even if they equal another set's default.
  EXPECT_EQ(accept({"--dataset", "mnist", "--data_dir", "d", "--max_steps", "3000"}).max_steps, 3000);
}

TEST(DatasetRecipes, NetsOfADataSetMayHaveARecipeOfTheirOwn) {
  const TrainOptions o = accept({"--dataset", "cifar10", "--data_dir", "d", "--net", "resnet_20"});
  EXPECT_EQ(o.image_size, 32);
  EXPECT_EQ(o.preprocessing, "padded");
  EXPECT_EQ(o.max_steps, 64000);
  EXPECT_EQ(o.optimizer, "momentum");
  EXPECT_EQ(o.initial_learning_rate, 0.1);
  EXPECT_EQ(o.learning_rate_decay_type, ScheduleKind::kSteps);
  EXPECT_EQ(o.learning_rate_boundaries, "32000,48000");
  EXPECT_EQ(o.weight_decay, 0.0001);
  EXPECT_EQ(o.ema_decay, 0);
  EXPECT_EQ(accept({"--dataset", "cifar10", "--data_dir", "d"}).preprocessing, "auto");
  EXPECT_EQ(accept({"--dataset", "imagenet", "--data_dir", "d"}).net, "alexnet");
  EXPECT_EQ(accept({"--dataset", "imagenet", "--data_dir", "d", "--net", "vgg_a"}).learning_rate_decay_type,
            ScheduleKind::kExponential);
  EXPECT_EQ(accept({"--dataset", "imagenet", "--data_dir", "d", "--net", "googlenet"}).weight_decay, 0.00004);
  EXPECT_EQ(accept({"--dataset", "imagenet", "--data_dir", "d", "--net", "resnet_50"}).max_steps, 450000);
  EXPECT_EQ(accept({"--dataset", "mnist", "--data_dir", "d", "--net", "resnet_20"}).image_size, 28);
  EXPECT_EQ(accept({"--dataset", "imagenet", "--data_dir", "d", "--net", "googlenet"}).dropout_keep_prob, 0.8);
  const TrainOptions inception = accept({"--dataset", "imagenet", "--data_dir", "d", "--net", "inception_v3"});
  EXPECT_EQ(inception.optimizer, "rmsprop");
  EXPECT_EQ(inception.initial_learning_rate, 0.1);
  EXPECT_EQ(inception.num_epochs_per_decay, 30);
  EXPECT_EQ(inception.learning_rate_decay_factor, 0.16);
  EXPECT_EQ(inception.image_size, 299);
  EXPECT_EQ(accept({"--dataset", "flowers", "--data_dir", "d"}).net, "inception_v3");
  // Explicit values win.
  EXPECT_EQ(
      accept({"--dataset", "cifar10", "--data_dir", "d", "--net", "resnet_20", "--learning_rate_decay_type", "fixed"})
          .learning_rate_decay_type,
      ScheduleKind::kFixed);
}

TEST(DatasetRecipes, HelpShowsTheDefaultsOfTheDataSet) {
  TrainOptions o;
  OptionSet options("test");
  declare_train_options(options, o);
  const char* argv[] = {"terngrad_train", "--dataset=mnist"};
  options.parse(2, argv);
  apply_dataset_defaults(options, o);
  EXPECT_THAT(options.help(), HasSubstr("10000"));
  EXPECT_THAT(options.help(), HasSubstr("--dataset_name"));
}

}  // namespace
}  // namespace terngrad::dataset_recipes_test
