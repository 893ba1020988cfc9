#include "trainers/run/async_factory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "tests/support/thread_mailbox.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/checkpoint/run_identity.h"
#include "trainers/loop/trainer.h"
#include "trainers/options/train_options.h"
#include "trainers/run/train_factory.h"

namespace terngrad::async_factory_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

TrainOptions small_options() {
  TrainOptions o;
  o.strategy = TrainStrategy::kAsync;
  o.scaler_sharing = "none";
  o.grad_bits = 1;
  o.num_nodes = 4;
  o.benchmark_mode = true;
  o.image_size = 8;
  o.batch_size = 8;
  o.max_steps = 3;
  o.threads = 1;
  o.device = "cpu";
  return o;
}

TEST(AsyncSetup, AloneAllWorkersAreHere) {
  const TrainSetup setup = make_train_setup(small_options());
  ASSERT_NE(setup.trainer, nullptr);
  EXPECT_EQ(setup.run_workers, nullptr);
  EXPECT_EQ(setup.trainer->run(), 3u);
  EXPECT_THAT(setup.conclusion(), AllOf(HasSubstr("staleness of all pushes"), HasSubstr("12 pushes")));
}

TEST(AsyncSetup, OverRanksTheFirstServes) {
  const auto office = std::make_shared<testing::PostOffice>(3);
  for (int rank = 0; rank < 3; ++rank) {
    RunContext place;
    place.mailbox = std::make_shared<testing::ThreadMailbox>(office, rank);
    const TrainSetup setup = make_train_setup(small_options(), place);
    EXPECT_EQ(setup.trainer != nullptr, rank == 0);
    EXPECT_EQ(setup.run_workers != nullptr, rank != 0);
    EXPECT_EQ(setup.conclusion != nullptr, rank == 0);
    // All ranks have the same identity.
    EXPECT_EQ(setup.state, make_train_setup(small_options()).state);
  }
}

TEST(AsyncSetup, ItsOptionsDecideTheBits) {
  const CheckpointState state = make_train_setup(small_options()).state;
  const auto differs = [&](const auto& change) {
    TrainOptions changed = small_options();
    change(changed);
    return make_train_setup(changed).state != state;
  };
  EXPECT_TRUE(differs([](TrainOptions& o) { o.async_scale = 0.5; }));
  EXPECT_TRUE(differs([](TrainOptions& o) { o.max_staleness = 3; }));
  EXPECT_TRUE(differs([](TrainOptions& o) { o.strategy = TrainStrategy::kReplicated; }));
  EXPECT_FALSE(differs([](TrainOptions& o) { o.async_scale = 0.25; }));  // the default
}

TEST(AsyncSetup, IsAnotherRunThanASynchronousOne) {
  TrainOptions o = small_options();
  const RunIdentity async = make_train_setup(o).identity;
  o.strategy = TrainStrategy::kReplicated;
  const RunIdentity replicated = make_train_setup(o).identity;
  for (const auto& [ours, theirs] : {std::pair{async, replicated}, {replicated, async}}) {
    EXPECT_THAT(message_of<UsageError>([&] { check_same_run(ours, recorded_identity(theirs), "there"); }),
                AllOf(HasSubstr("--strategy"), HasSubstr("'async'"), HasSubstr("'simple, replicated or ps'")));
  }
}

TEST(AsyncSetup, SharedScalersAreRefused) {
  TrainOptions o = small_options();
  o.scaler_sharing = "max";
  EXPECT_THAT(message_of<UsageError>([&] { make_train_setup(o); }), HasSubstr("sharing=none"));
}

}  // namespace
}  // namespace terngrad::async_factory_test
