#include "trainers/run/initial_state.h"

#include <gtest/gtest.h>

#include "trainers/checkpoint/run_identity.h"
#include "trainers/options/train_options.h"
#include "trainers/run/train_factory.h"

namespace terngrad::initial_state_test {
namespace {

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

TEST(InitialState, SaysWhatDecidesTheBits) {
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
  EXPECT_TRUE(differs([](TrainOptions& o) { o.reduce = Reduce::kSum; }));
  EXPECT_TRUE(differs([](TrainOptions& o) {
    o.num_nodes = 2;
    o.exchange = TrainExchange::kVendor;
  }));
  EXPECT_TRUE(differs([](TrainOptions& o) { o.dropout_keep_prob = 0.25; }));
  // The number of steps, and reports, do not change the result.
  TrainOptions longer = base;
  longer.max_steps = 5;
  EXPECT_NO_THROW(check_same_run(make_train_setup(longer).identity, recorded_identity(state), "a checkpoint"));
  EXPECT_FALSE(differs([](TrainOptions& o) { o.log_steps = 5; }));
  EXPECT_FALSE(differs([](TrainOptions& o) { o.num_preprocess_threads = 2; }));
}

TEST(InitialState, NamesTheChoices) {
  TrainOptions o = small_options();
  o.downlink_codec = DownlinkCodec::kBfloat16;
  const CheckpointState state = make_train_setup(o).state;
  EXPECT_EQ(state.extra_metadata.at("downlink_codec"), "bf16");
  EXPECT_EQ(state.dataset, "synthetic (constant images)");
}

}  // namespace
}  // namespace terngrad::initial_state_test
