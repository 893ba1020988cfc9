#include "trainers/run/train_factory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/loop/trainer.h"
#include "trainers/options/train_options.h"

namespace terngrad::train_factory_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

/// Options of a single-threaded run without data.
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
  o.learning_rate_decay_type = ScheduleKind::kExponential;
  o.num_epochs_per_decay = 1e300;
  EXPECT_THAT(message_of<UsageError>([&] { make_train_setup(o); }), HasSubstr("--num_epochs_per_decay 1e+300"));
}

}  // namespace
}  // namespace terngrad::train_factory_test
