#include "trainers/run/train_factory.h"
#include "trainers/options/train_options.h"
#include "trainers/run/dataset_factory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/small_training.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/checkpoint/run_identity.h"

namespace terngrad::train_factory_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

/// A run without data on one thread.
TrainOptions small_options() {
  TrainOptions o;
  o.benchmark_mode = true;
  o.image_size = 8;
  o.batch_size = 8;
  o.max_steps = 2;
  o.threads = 1;
  return o;
}

TEST(TrainSetup, IsReadyToRun) {
  TrainOptions o = small_options();
  o.num_nodes = 4;
  o.grad_bits = 1;
  const TrainSetup setup = make_train_setup(o);
  EXPECT_EQ(setup.test_set, nullptr);
  EXPECT_EQ(setup.trainer->num_local_workers(), 4);
  EXPECT_EQ(setup.trainer->net().name(), "lenet");
  EXPECT_EQ(setup.trainer->run(), 2u);
}

TEST(TrainSetup, StateSaysWhatDecidesTheBits) {
  const TrainOptions base = small_options();
  const CheckpointState state = make_train_setup(base).state;
  EXPECT_EQ(state.step, 0u);
  EXPECT_EQ(make_train_setup(base).state, state);
  const auto differs = [&](const auto& change) {
    TrainOptions changed = base;
    change(changed);
    return make_train_setup(changed).state != state;
  };
  EXPECT_TRUE(differs([](TrainOptions& o) { o.seed = 2; }));
  EXPECT_TRUE(differs([](TrainOptions& o) { o.batch_size = 16; }));
  EXPECT_TRUE(differs([](TrainOptions& o) { o.optimizer = "adam"; }));
  EXPECT_TRUE(differs([](TrainOptions& o) { o.initial_learning_rate = 0.02; }));
  EXPECT_TRUE(differs([](TrainOptions& o) { o.weight_decay = 0; }));
  EXPECT_TRUE(differs([](TrainOptions& o) { o.clip_by_global_norm = 1; }));
  EXPECT_TRUE(differs([](TrainOptions& o) { o.nan_to_zero = true; }));
  EXPECT_TRUE(differs([](TrainOptions& o) { o.ema_decay = 0.5; }));
  EXPECT_TRUE(differs([](TrainOptions& o) { o.num_nodes = 2; }));
  EXPECT_TRUE(differs([](TrainOptions& o) { o.grad_bits = 16; }));
  EXPECT_TRUE(differs([](TrainOptions& o) { o.reduce = "sum"; }));
  EXPECT_TRUE(differs([](TrainOptions& o) {
    o.num_nodes = 2;
    o.exchange = "vendor";
  }));
  EXPECT_TRUE(differs([](TrainOptions& o) { o.dropout_keep_prob = 0.25; }));
  // Where a run stops, and what it reports, decide nothing.
  TrainOptions longer = base;
  longer.max_steps = 5;
  EXPECT_NO_THROW(check_same_run(identity_of(make_train_setup(longer).state), identity_of(state), "a checkpoint"));
  EXPECT_FALSE(differs([](TrainOptions& o) { o.log_steps = 5; }));
  EXPECT_FALSE(differs([](TrainOptions& o) { o.num_preprocess_threads = 2; }));
}

TEST(TrainSetup, PartsThatRefuseAreUsageErrors) {
  TrainOptions o = small_options();
  o.dataset = "folder";
  EXPECT_THAT(message_of<UsageError>([&] { make_train_setup(o); }),
              AllOf(HasSubstr("--benchmark_mode"), HasSubstr("folder")));
  o = small_options();
  o.net = "none";
  EXPECT_THAT(message_of<UsageError>([&] { make_train_setup(o); }), HasSubstr("none"));
  o = small_options();
  o.benchmark_mode = false;
  o.dataset = "mnist";
  o.data_dir = "/nowhere";
  EXPECT_THAT(message_of<UsageError>([&] { make_train_setup(o); }), HasSubstr("--data_dir /nowhere"));
  o = small_options();
  o.learning_rate_decay_type = "exponential";
  o.num_epochs_per_decay = 1e300;
  EXPECT_THAT(message_of<UsageError>([&] { make_train_setup(o); }), HasSubstr("--num_epochs_per_decay 1e+300"));
}

TEST(CheckTestSet, ImagesAndClassesMustBeThoseOfTheTrainingSet) {
  TrainOptions o;
  o.dataset = "own";
  o.data_dir = "/data/own";
  // One row of so many pixels.
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

TEST(TrainSetup, ThreadsAreTheMachinesUnlessGiven) {
  TrainOptions o;
  EXPECT_EQ(num_threads(o), num_hardware_threads());
  o.threads = 3;
  EXPECT_EQ(num_threads(o), 3);
}

}  // namespace
}  // namespace terngrad::train_factory_test
