#include "trainers/options/train_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/bucket_plan.h"
#include "kernels/runtime/device.h"
#include "tests/trainers/checked_options.h"

namespace terngrad::train_options_test {
namespace {

using testing::accept;
using testing::expect_refused;
using ::testing::HasSubstr;
using testing::refuse;

TEST(TrainOptions, DefaultsTrainLenetOnTheBuiltInSet) {
  const TrainOptions o = accept({});
  EXPECT_EQ(o.dataset, "synthetic");
  EXPECT_EQ(o.net, "lenet");
  EXPECT_EQ(o.codec_name(), "fp32");
  EXPECT_EQ(o.chosen_strategy(), TrainStrategy::kSimple);
  EXPECT_EQ(o.max_steps, 3000);
}

TEST(TrainOptions, RecordsArePreprocessedAsTheirNetWas) {
  EXPECT_EQ(preprocessing_of("imagenet", "alexnet_v2", "auto"), "alexnet");
  EXPECT_EQ(preprocessing_of("imagenet", "googlenet_2014", "auto"), "alexnet");
  EXPECT_EQ(preprocessing_of("flowers", "vgg_16", "auto"), "vgg");
  EXPECT_EQ(preprocessing_of("records", "googlenet", "auto"), "inception");
  EXPECT_EQ(preprocessing_of("records", "resnet_50", "auto"), "inception");
  EXPECT_EQ(preprocessing_of("records", "lenet", "auto"), "standard");
  EXPECT_EQ(preprocessing_of("records", "torchvision_vgg_16", "auto"), "torchvision");
  EXPECT_EQ(preprocessing_of("records", "torchvision_inception_v3", "auto"), "standard");  // takes [-1, 1]
  EXPECT_EQ(preprocessing_of("records", "alexnet", "vgg"), "vgg");
  EXPECT_EQ(preprocessing_of("cifar10", "alexnet", "auto"), "auto");
}

TEST(TrainOptions, TheOriginalsNameOfTheDataSetWorks) {
  EXPECT_EQ(accept({"--dataset_name", "mnist", "--data_dir", "d"}).dataset, "mnist");
}

TEST(TrainOptions, GradBitsNamesACodec) {
  EXPECT_EQ(accept({"--grad_bits", "32"}).codec_name(), "fp32");
  EXPECT_EQ(accept({"--grad_bits", "16"}).codec_name(), "bf16");
  EXPECT_EQ(accept({"--grad_bits", "1"}).codec_name(), "ternary");
  EXPECT_EQ(accept({"--codec", "ternary"}).codec_name(), "ternary");
  // Both are accepted if they agree.
  EXPECT_EQ(accept({"--codec", "ternary", "--grad_bits", "1"}).codec_name(), "ternary");
  EXPECT_EQ(accept({"--codec", "auto", "--grad_bits", "16"}).codec_name(), "bf16");
}

TEST(TrainOptions, AutoStrategyExchangesWhereThereIsSomethingTo) {
  EXPECT_EQ(accept({}).chosen_strategy(), TrainStrategy::kSimple);
  EXPECT_EQ(accept({"--num_nodes", "2"}).chosen_strategy(), TrainStrategy::kReplicated);
  EXPECT_EQ(accept({"--grad_bits", "1"}).chosen_strategy(), TrainStrategy::kReplicated);
  EXPECT_EQ(accept({"--codec_for", "conv*=ternary"}).chosen_strategy(), TrainStrategy::kReplicated);
  EXPECT_EQ(accept({"--strategy", "replicated"}).chosen_strategy(), TrainStrategy::kReplicated);
}

TEST(TrainOptions, WrongValuesAreRefused) {
  expect_refused({
      {{"--dataset", "svhn"}, {"--dataset", "svhn", "synthetic", "mnist"}},
      {{"--net", "vgg"}, {"--net", "vgg", "lenet"}},
      {{"--optimizer", "adamw"}, {"--optimizer", "adamw", "gd, momentum, adam, nadam, rmsprop"}},
      {{"--device", "tpu"}, {"--device", "tpu", "auto, cpu, cuda"}},
      {{"--grad_bits", "3"}, {"--grad_bits", "3", "32, 16, 8, 4, 2, 1"}},
      {{"--codec", "sgd"}, {"--codec", "qsgd", "fp32", "bf16", "ternary"}},
      {{"--batch_size", "0"}, {"--batch_size", "0", "from 1"}},
      // Exceeds int: must not wrap around to a small batch.
      {{"--batch_size", "4294967360"}, {"--batch_size", "4294967360", "2147483647"}},
      {{"--batch_size", "64.5"}, {"--batch_size", "64.5"}},
      {{"--max_steps", "-1"}, {"--max_steps", "-1", "at least 0"}},
      {{"--max_steps", "1e3"}, {"--max_steps", "1e3"}},
      {{"--max_steps", "99999999999999999999"}, {"--max_steps", "99999999999999999999"}},
      {{"--num_nodes", "0"}, {"--num_nodes", "0", "from 1 to 16383"}},
      {{"--num_nodes", "16384"}, {"--num_nodes", "16384", "from 1 to 16383"}},
      {{"--threads", "-2"}, {"--threads", "-2", "at least 0"}},
      {{"--num_preprocess_threads", "0"}, {"--num_preprocess_threads", "0", "at least 1"}},
      {{"--image_size", "-1"}, {"--image_size", "-1", "0 to 1024"}},
      {{"--image_size", "1025"}, {"--image_size", "1025", "0 to 1024"}},
      {{"--initial_learning_rate", "0"}, {"--initial_learning_rate", "0", "greater than 0"}},
      {{"--initial_learning_rate", "nan"}, {"--initial_learning_rate", "nan"}},
      {{"--initial_learning_rate", "inf"}, {"--initial_learning_rate", "inf"}},
      {{"--momentum", "1"}, {"--momentum", "1", "from 0 up to, but not, 1"}},
      {{"--ema_decay", "1"}, {"--ema_decay", "1", "from 0 up to, but not, 1"}},
      {{"--weight_decay", "-0.1"}, {"--weight_decay", "-0.1", "at least 0"}},
      {{"--clip_by_global_norm", "-1"}, {"--clip_by_global_norm", "-1", "at least 0"}},
      {{"--clip_by_global_norm", "inf"}, {"--clip_by_global_norm", "inf"}},
      {{"--nan_to_zero=yes"}, {"--nan_to_zero", "yes", "true or false"}},
      {{"--grad_bits", "1", "--floating_grad_epoch", "-1"}, {"--floating_grad_epoch", "-1", "at least 2"}},
      {{"--grad_bits", "1", "--floating_grad_epoch", "1"}, {"--floating_grad_epoch", "1", "--grad_bits 32"}},
      {{"--grad_bits", "1", "--floating_grad_epoch", "2.5"}, {"--floating_grad_epoch", "2.5"}},
      {{"--clip_factor", "-1"}, {"--clip_factor", "-1", "at least 0"}},
      {{"--seed", "-1"}, {"--seed", "-1"}},
      {{"--learning_rate_decay_type", "cosine"}, {"--learning_rate_decay_type", "cosine", "polynomial"}},
      {{"--learning_rate_boundaries", "0,5"}, {"--learning_rate_boundaries", "0,5", "from 1 on, increasing"}},
      {{"--learning_rate_boundaries", "5,5"}, {"--learning_rate_boundaries", "5,5", "from 1 on, increasing"}},
      {{"--eval_at", "5,3"}, {"--eval_at", "5,3", "from 0 on, increasing"}},
      {{"--eval_at", "1:5"}, {"--eval_at", "1:5", "1000:5000:500"}},
      {{"--strategy", "sync"}, {"--strategy", "sync", "simple, replicated, ps, async"}},
      {{"--exchange", "ring"}, {"--exchange", "ring", "all_gather"}},
      {{"--downlink_codec", "t5"}, {"--downlink_codec", "t5", "bf16"}},
      {{"--on_nonfinite", "ignore"}, {"--on_nonfinite", "ignore", "stop, skip, zero"}},
      {{"--scaler", "max"}, {"--scaler", "max", "paper, original"}},
      {{"--scaler_sharing", "min"}, {"--scaler_sharing", "min", "max, mean, none"}},
      {{"--clip_scope", "global"}, {"--clip_scope", "global", "shared, local"}},
      {{"--scaler_scope", "row"}, {"--scaler_scope", "row", "layer, block, model"}},
      {{"--block_size", "100"}, {"--block_size", "100", "multiple of 64"}},
      {{"--block_size", "0"}, {"--block_size", "0", "multiple of 64"}},
      {{"--ternary_format", "t3"}, {"--ternary_format", "t3", "t2, t5, tmask, trans"}},
      {{"--quantize_logits=yes"}, {"--quantize_logits", "yes", "true or false"}},
      {{"--log_steps", "0"}, {"--log_steps", "0", "at least 1"}},
      {{"--telemetry_steps", "-1"}, {"--telemetry_steps", "-1", "at least 0"}},
      {{"--eval_steps", "-1"}, {"--eval_steps", "-1", "at least 0"}},
      {{"--save_iter", "0"}, {"--save_iter", "0", "at least 1"}},
      {{"--keep_checkpoints", "-1"}, {"--keep_checkpoints", "-1", "at least 0"}},
      {{"--grad_bit", "1"}, {"--grad_bit", "unknown", "--grad_bits"}},
  });
}

TEST(TrainOptions, ALaunchOfSeveralProcessesShares) {
  TrainOptions o;
  apply_launch(o, {});
  EXPECT_EQ(o.threads, 0);
  EXPECT_EQ(o.num_processes, 1);
  EXPECT_EQ(o.gpus.count, 1);
  apply_launch(o, {.rank = 3, .num_processes = 4, .num_sharing = 2});
  EXPECT_EQ(o.threads, std::max(1, num_hardware_threads() / 2));
  EXPECT_EQ(o.device, "auto");
  EXPECT_EQ(o.num_processes, 4);
  EXPECT_TRUE(o.trains);
  o.threads = 3;
  o.num_gpus = 2;
  apply_launch(o, {.num_processes = 4, .num_sharing = 1000000});
  EXPECT_EQ(o.threads, 3);
  EXPECT_EQ(o.gpus.count, 2);
  o.threads = 0;
  apply_launch(o, {.num_processes = 1000000, .num_sharing = 1000000});
  EXPECT_EQ(o.threads, 1);
}

TEST(TrainOptions, TheLastRankOfALaunchMayOnlyEvaluate) {
  for (const int rank : {1, 2}) {
    TrainOptions o;
    o.last_rank_evaluates = true;
    apply_launch(o, {.rank = rank, .num_processes = 3});
    EXPECT_EQ(o.num_processes, 2);
    EXPECT_EQ(o.trains, rank == 1);
  }
}

TEST(TrainOptions, BucketsAreOfMebibytesAndWholeWhereNothingCanBeSplit) {
  Layout layout;
  for (const char* name : {"a", "b", "c"}) layout.add(name, {1 << 17});  // half a MiB
  const std::vector<int> order = {2, 1, 0};
  const auto buckets = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--num_nodes", "2", "--grad_bits", "1"});
    return exchange_buckets(accept(arguments), layout, order);
  };
  EXPECT_EQ(buckets({"--bucket_mb", "0.5"}), (Buckets{{2}, {1}, {0}}));
  EXPECT_EQ(buckets({"--bucket_mb", "1", "--overlap", "off"}), (Buckets{{1, 2}, {0}}));
  EXPECT_EQ(buckets({"--bucket_mb", "1e300"}), whole_bucket(layout));
  EXPECT_EQ(buckets({}), (Buckets{{1, 2}, {0}}));
  EXPECT_EQ(buckets({"--bucket_mb", "0"}), (Buckets{{1, 2}, {0}}));
  EXPECT_EQ(exchange_buckets(accept({"--num_nodes", "2"}), layout, order, 1e300), whole_bucket(layout));
  EXPECT_EQ(exchange_buckets(accept({"--num_nodes", "2", "--bucket_mb", "0.5"}), layout, order, 1e300).size(), 3u);
  EXPECT_EQ(buckets({"--bucket_mb", "1e-300"}).size(), 3u);
  EXPECT_EQ(buckets({"--scaler_scope", "model"}), whole_bucket(layout));
  EXPECT_EQ(buckets({"--clip_by_global_norm", "1"}), whole_bucket(layout));
}

TEST(TrainOptions, OverlapIsForSeveralProcessesUnlessAskedFor) {
  const std::vector<std::string> ternary = {"--grad_bits", "1", "--num_nodes", "2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), ternary.begin(), ternary.end());
    return accept(more);
  };
  EXPECT_FALSE(overlaps(with({}), 1));
  EXPECT_TRUE(overlaps(with({}), 2));
  EXPECT_TRUE(overlaps(with({"--overlap", "on"}), 1));
  EXPECT_FALSE(overlaps(with({"--overlap", "off"}), 2));
  EXPECT_FALSE(overlaps(with({"--scaler_scope", "model"}), 2));
  EXPECT_FALSE(overlaps(with({"--clip_by_global_norm", "1"}), 2));
  EXPECT_FALSE(overlaps(accept({}), 1));
}

TEST(TrainOptions, ExchangeOptionsCarryEveryChoice) {
  const CompressedAllReduceOptions e = exchange_options(accept({"--num_nodes",
                                                                "2",
                                                                "--grad_bits",
                                                                "1",
                                                                "--clip_factor",
                                                                "2.5",
                                                                "--scaler",
                                                                "original",
                                                                "--scaler_sharing",
                                                                "mean",
                                                                "--clip_scope",
                                                                "local",
                                                                "--scaler_scope",
                                                                "block",
                                                                "--block_size",
                                                                "128",
                                                                "--ternary_format",
                                                                "tmask",
                                                                "--size_to_binarize",
                                                                "7",
                                                                "--quantize_logits",
                                                                "--codec_for",
                                                                "a*=fp32",
                                                                "--codec_for",
                                                                "*=bf16",
                                                                "--exchange",
                                                                "scatter_reduce",
                                                                "--downlink_codec",
                                                                "sums",
                                                                "--on_nonfinite",
                                                                "zero",
                                                                "--seed",
                                                                "9"}),
                                                        77, 3);
  EXPECT_EQ(e.codecs.codec,
            "ternary:clip_factor=2.5,scaler=original,sharing=mean,clip_scope=local,scope=block,block=128,format=tmask,"
            "rounding=stochastic,levels=symmetric");
  EXPECT_EQ(e.codecs.size_to_binarize, 7);
  EXPECT_TRUE(e.codecs.quantize_logits);
  ASSERT_EQ(e.codecs.rules.size(), 2u);
  EXPECT_EQ(e.codecs.rules[0].pattern, "a*");
  EXPECT_EQ(e.codecs.rules[1].codec, "bf16");
  EXPECT_EQ(e.algorithm, ExchangeAlgorithm::kScatterReduce);
  EXPECT_EQ(e.downlink_codec, DownlinkCodec::kSums);
  EXPECT_EQ(e.on_nonfinite, OnNonfinite::kZero);
  EXPECT_EQ(e.seed, 9u);
  EXPECT_EQ(e.run_id, 77u);
  EXPECT_EQ(e.num_threads, 3);
}

TEST(TrainOptions, FloatingExchangeIsTheSameInFp32) {
  const TrainOptions o = accept({"--num_nodes", "2", "--grad_bits", "1", "--clip_factor", "2.5", "--codec_for",
                                 "a*=bf16", "--exchange", "scatter_reduce", "--downlink_codec", "bf16",
                                 "--on_nonfinite", "skip", "--seed", "9", "--floating_grad_epoch", "2"});
  const CompressedAllReduceOptions e = floating_exchange_options(o, 77, 3);
  EXPECT_EQ(e.codecs.codec, "fp32");
  EXPECT_TRUE(e.codecs.rules.empty());
  EXPECT_EQ(e.algorithm, ExchangeAlgorithm::kScatterReduce);
  EXPECT_EQ(e.downlink_codec, DownlinkCodec::kBfloat16);
  EXPECT_EQ(e.on_nonfinite, OnNonfinite::kSkip);
  EXPECT_EQ(e.seed, 9u);
  EXPECT_EQ(e.run_id, 77u);
  EXPECT_EQ(e.num_threads, 3);
  // fp32 has no codes to sum.
  const TrainOptions sums =
      accept({"--num_nodes", "2", "--grad_bits", "1", "--exchange", "integer_sum", "--downlink_codec", "sums"});
  EXPECT_EQ(floating_exchange_options(sums, 77, 3).algorithm, ExchangeAlgorithm::kAuto);
  EXPECT_EQ(floating_exchange_options(sums, 77, 3).downlink_codec, DownlinkCodec::kFloat32);
  // The mean of fp32 is not sparse.
  TrainOptions sparse;
  sparse.codec = "topk";
  sparse.downlink_codec = DownlinkCodec::kSparse;
  EXPECT_EQ(exchange_options(sparse, 77, 3).downlink_codec, DownlinkCodec::kSparse);
  EXPECT_EQ(floating_exchange_options(sparse, 77, 3).downlink_codec, DownlinkCodec::kFloat32);
}

TEST(TrainOptions, ScheduleCarriesItsOptions) {
  const Schedule polynomial = make_schedule(accept({"--max_steps", "50", "--initial_learning_rate", "0.5"}), 6000);
  EXPECT_EQ(polynomial.kind, ScheduleKind::kPolynomial);
  EXPECT_EQ(polynomial.total_steps, 50);
  EXPECT_EQ(polynomial.initial_rate, 0.5);
  const Schedule exponential =
      make_schedule(accept({"--learning_rate_decay_type", "exponential", "--num_epochs_per_decay", "1.5",
                            "--learning_rate_decay_factor", "0.25", "--batch_size", "60"}),
                    6000);
  EXPECT_EQ(exponential.kind, ScheduleKind::kExponential);
  EXPECT_EQ(exponential.steps_per_decay, 150);
  EXPECT_EQ(exponential.decay_factor, 0.25);
  EXPECT_EQ(make_schedule(accept({"--learning_rate_decay_type", "fixed"}), 60).kind, ScheduleKind::kFixed);
  const Schedule steps = make_schedule(accept({"--learning_rate_decay_type", "steps", "--learning_rate_boundaries",
                                               "10,20:40:10", "--learning_rate_decay_factor", "0.5"}),
                                       60);
  EXPECT_EQ(steps.kind, ScheduleKind::kSteps);
  EXPECT_THAT(steps.boundaries, ::testing::ElementsAre(10, 20, 30, 40));
  EXPECT_EQ(steps.decay_factor, 0.5);
}

TEST(TrainOptions, ThreadsAreTheMachinesUnlessGiven) {
  TrainOptions o;
  EXPECT_EQ(num_threads(o), num_hardware_threads());
  o.threads = 3;
  EXPECT_EQ(num_threads(o), 3);
  EXPECT_EQ(threads_per_worker(o), 3);
  o.num_nodes = 2;
  EXPECT_EQ(threads_per_worker(o), 1);
}

}  // namespace
}  // namespace terngrad::train_options_test
