#include "trainers/run/initial_state.h"

#include <gtest/gtest.h>

#include "trainers/checkpoint/run_identity.h"
#include "trainers/options/train_options.h"
#include "trainers/run/train_factory.h"

namespace terngrad::initial_state_test {
namespace {

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

TEST(InitialState, HasTheNamesThatCheckpointsAlwaysHad) {
  TrainOptions o = small_options();
  o.downlink_codec = "bf16";
  const CheckpointState state = make_train_setup(o).state;
  EXPECT_EQ(state.extra_metadata.at("return_codec"), "bf16");
  EXPECT_EQ(state.dataset, "synthetic (constant images)");
}

TEST(InitialState, NamesTheOptionsOfTernaryHoweverTheyWereGiven) {
  TrainOptions options = small_options();
  options.codec = "ternary";
  options.clip_factor = 250000;
  options.scaler_scope = "block";
  options.block_size = 128;
  options.ternary_format = "t5";
  TrainOptions spec = small_options();
  spec.codec =
      "ternary:clip_factor=2.5e5,scope=block,block=128,format=t5,"
      "rounding=stochastic";
  const CheckpointState state = make_train_setup(options).state;
  EXPECT_EQ(make_train_setup(spec).state, state);
  // As runs before there were specs have them.
  const RunIdentity before = {{"codec", "ternary"},         {"codec_for", ""},         {"clip_factor", "250000"},
                              {"scaler", "paper"},          {"scaler_sharing", "max"}, {"clip_scope", "shared"},
                              {"scaler_scope", "block"},    {"block_size", "128"},     {"ternary_format", "t5"},
                              {"quantize_logits", "false"}, {"size_to_binarize", "1"}};
  for (const auto& [key, value] : before) EXPECT_EQ(state.extra_metadata.at(key), value) << key;
  EXPECT_EQ(state.extra_metadata.at("codec_spec"),
            "ternary:clip_factor=250000,scaler=paper,sharing=max,clip_scope=shared,scope=block,block=128,format=t5,"
            "rounding=stochastic,levels=symmetric");
}

TEST(InitialState, NamesRulesAsGivenUnlessTheyHaveOptions) {
  TrainOptions o = small_options();
  o.grad_bits = 1;
  o.codec_for = {"fc*=fp32", "*=ternary"};
  const CheckpointState state = make_train_setup(o).state;
  EXPECT_EQ(state.extra_metadata.at("codec_for"), "fc*=fp32,*=ternary");
  o.codec_for = {"fc*=ternary:clip_factor=2.50", "*=ternary"};
  const CheckpointState other = make_train_setup(o).state;
  EXPECT_EQ(other.extra_metadata.at("codec_for"),
            "fc*=ternary:clip_factor=2.5,scaler=paper,sharing=max,clip_scope=shared,scope=layer,format=t2,"
            "rounding=stochastic,levels=symmetric,*=ternary");
  o.codec_for = {"fc*=ternary:format=t2,clip_factor=2.5", "*=ternary"};
  EXPECT_EQ(make_train_setup(o).state, other);
}

TEST(InitialState, HasTheBoundariesOfTheScheduleThatHasSome) {
  TrainOptions o = small_options();
  EXPECT_FALSE(make_train_setup(o).state.extra_metadata.contains("learning_rate_boundaries"));
  o.learning_rate_decay_type = "steps";
  o.learning_rate_boundaries = "10:30:10";
  const CheckpointState range = make_train_setup(o).state;
  EXPECT_EQ(range.extra_metadata.at("learning_rate_boundaries"), "10,20,30");
  // However they are written.
  o.learning_rate_boundaries = "10,20,30";
  EXPECT_EQ(make_train_setup(o).state, range);
  o.learning_rate_boundaries = "10,20";
  EXPECT_NE(make_train_setup(o).state, range);
}

}  // namespace
}  // namespace terngrad::initial_state_test
