#include "trainers/train_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "kernels/errors.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

/// Parses and checks a command line as terngrad_train does.
TrainOptions accept(const std::vector<std::string>& arguments) {
  TrainOptions o;
  OptionSet options("test");
  declare_train_options(options, o);
  std::vector<const char*> argv = {"terngrad_train"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  options.parse(static_cast<int>(argv.size()), argv.data());
  apply_dataset_defaults(options, o);
  check_train_options(options, o);
  return o;
}

std::string refuse(const std::vector<std::string>& arguments) {
  SCOPED_TRACE(::testing::PrintToString(arguments));
  const std::string message = message_of<UsageError>([&] { accept(arguments); });
  EXPECT_EQ(message.find('\n'), std::string::npos);
  return message;
}

TEST(TrainOptions, DefaultsTrainLenetOnTheBuiltInSet) {
  const TrainOptions o = accept({});
  EXPECT_EQ(o.dataset, "synthetic");
  EXPECT_EQ(o.net, "lenet");
  EXPECT_EQ(o.codec_name(), "fp32");
  EXPECT_EQ(o.strategy_name(), "simple");
  EXPECT_EQ(o.max_steps, 3000);
}

TEST(TrainOptions, DataSetsBringTheirDefaults) {
  const TrainOptions o = accept({"--dataset", "mnist", "--data_dir", "d"});
  EXPECT_EQ(o.max_steps, 10000);
  EXPECT_EQ(o.batch_size, 64);
  EXPECT_EQ(o.learning_rate_decay_type, "polynomial");
  EXPECT_EQ(o.weight_decay, 0.0005);
  for (const char* own : {"npy", "folder"})
    EXPECT_EQ(accept({"--dataset", own, "--data_dir", "d"}).net, "lenet") << own;
  EXPECT_EQ(accept({"--dataset", "npy", "--data_dir", "d"}).image_size, 0);  // the arrays' own
  EXPECT_EQ(accept({"--dataset", "folder", "--data_dir", "d"}).image_size, 28);
  // What the user says wins, also where it is another set's default.
  EXPECT_EQ(accept({"--dataset", "mnist", "--data_dir", "d", "--max_steps", "3000"}).max_steps, 3000);
}

TEST(TrainOptions, HelpShowsTheDefaultsOfTheDataSet) {
  TrainOptions o;
  OptionSet options("test");
  declare_train_options(options, o);
  const char* argv[] = {"terngrad_train", "--dataset=mnist"};
  options.parse(2, argv);
  apply_dataset_defaults(options, o);
  EXPECT_THAT(options.help(), HasSubstr("10000"));
  EXPECT_THAT(options.help(), HasSubstr("--dataset_name"));
}

TEST(TrainOptions, TheOriginalsNameOfTheDataSetWorks) {
  EXPECT_EQ(accept({"--dataset_name", "mnist", "--data_dir", "d"}).dataset, "mnist");
}

TEST(TrainOptions, GradBitsNamesACodec) {
  EXPECT_EQ(accept({"--grad_bits", "32"}).codec_name(), "fp32");
  EXPECT_EQ(accept({"--grad_bits", "16"}).codec_name(), "bf16");
  EXPECT_EQ(accept({"--grad_bits", "1"}).codec_name(), "ternary");
  EXPECT_EQ(accept({"--codec", "ternary"}).codec_name(), "ternary");
  // Together where they agree.
  EXPECT_EQ(accept({"--codec", "ternary", "--grad_bits", "1"}).codec_name(), "ternary");
  EXPECT_EQ(accept({"--codec", "auto", "--grad_bits", "16"}).codec_name(), "bf16");
}

TEST(TrainOptions, AutoStrategyExchangesWhereThereIsSomethingTo) {
  EXPECT_EQ(accept({}).strategy_name(), "simple");
  EXPECT_EQ(accept({"--num_nodes", "2"}).strategy_name(), "replicated");
  EXPECT_EQ(accept({"--grad_bits", "1"}).strategy_name(), "replicated");
  EXPECT_EQ(accept({"--codec_for", "conv*=ternary"}).strategy_name(), "replicated");
  EXPECT_EQ(accept({"--strategy", "replicated"}).strategy_name(), "replicated");
}

struct Refusal {
  std::vector<std::string> arguments;
  std::vector<std::string> said;  // option, value and what would be accepted
};

TEST(TrainOptions, WrongValuesAreRefused) {
  const std::vector<Refusal> refusals = {
      {{"--dataset", "imagenet"}, {"--dataset", "imagenet", "synthetic", "mnist"}},
      {{"--net", "vgg"}, {"--net", "vgg", "lenet"}},
      {{"--optimizer", "adamw"}, {"--optimizer", "adamw", "gd, momentum, adam, rmsprop"}},
      {{"--device", "tpu"}, {"--device", "tpu", "auto, cpu, cuda"}},
      {{"--grad_bits", "3"}, {"--grad_bits", "3", "32, 16, 1"}},
      {{"--codec", "qsgd"}, {"--codec", "qsgd", "auto", "fp32", "bf16", "ternary"}},
      {{"--batch_size", "0"}, {"--batch_size", "0", "from 1"}},
      // More than an int holds: it must not wrap around to a small batch.
      {{"--batch_size", "4294967360"}, {"--batch_size", "4294967360", "2147483647"}},
      {{"--batch_size", "64.5"}, {"--batch_size", "64.5"}},
      {{"--max_steps", "-1"}, {"--max_steps", "-1", "at least 1"}},
      {{"--max_steps", "1e3"}, {"--max_steps", "1e3"}},
      {{"--max_steps", "99999999999999999999"}, {"--max_steps", "99999999999999999999"}},
      {{"--num_nodes", "0"}, {"--num_nodes", "0", "at least 1"}},
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
      {{"--nan_to_zero=1"}, {"--nan_to_zero", "1", "true or false"}},
      {{"--grad_bits", "1", "--floating_grad_epoch", "-1"}, {"--floating_grad_epoch", "-1", "at least 2"}},
      {{"--grad_bits", "1", "--floating_grad_epoch", "1"}, {"--floating_grad_epoch", "1", "--grad_bits 32"}},
      {{"--grad_bits", "1", "--floating_grad_epoch", "2.5"}, {"--floating_grad_epoch", "2.5"}},
      {{"--clip_factor", "-1"}, {"--clip_factor", "-1", "at least 0"}},
      {{"--seed", "-1"}, {"--seed", "-1"}},
      {{"--learning_rate_decay_type", "cosine"}, {"--learning_rate_decay_type", "cosine", "polynomial"}},
      {{"--strategy", "sync"}, {"--strategy", "sync", "simple, replicated, ps, async"}},
      {{"--exchange", "ring"}, {"--exchange", "ring", "all_gather"}},
      {{"--return_codec", "t5"}, {"--return_codec", "t5", "bf16"}},
      {{"--on_nonfinite", "ignore"}, {"--on_nonfinite", "ignore", "stop, skip, zero"}},
      {{"--scaler", "max"}, {"--scaler", "max", "paper, original"}},
      {{"--scaler_sharing", "min"}, {"--scaler_sharing", "min", "max, mean, none"}},
      {{"--clip_scope", "global"}, {"--clip_scope", "global", "shared, local"}},
      {{"--scaler_scope", "row"}, {"--scaler_scope", "row", "layer, block, model"}},
      {{"--block_size", "100"}, {"--block_size", "100", "multiple of 64"}},
      {{"--block_size", "0"}, {"--block_size", "0", "multiple of 64"}},
      {{"--ternary_format", "t3"}, {"--ternary_format", "t3", "t2, t5, tmask"}},
      {{"--quantize_logits=yes"}, {"--quantize_logits", "yes", "true or false"}},
      {{"--log_steps", "0"}, {"--log_steps", "0", "at least 1"}},
      {{"--telemetry_steps", "-1"}, {"--telemetry_steps", "-1", "at least 0"}},
      {{"--eval_steps", "-1"}, {"--eval_steps", "-1", "at least 0"}},
      {{"--save_iter", "0"}, {"--save_iter", "0", "at least 1"}},
      {{"--keep_checkpoints", "-1"}, {"--keep_checkpoints", "-1", "at least 0"}},
      {{"--grad_bit", "1"}, {"--grad_bit", "unknown", "--grad_bits"}},
  };
  for (const Refusal& refusal : refusals) {
    const std::string message = refuse(refusal.arguments);
    for (const std::string& words : refusal.said) EXPECT_THAT(message, HasSubstr(words));
  }
}

TEST(TrainOptions, ContradictionsAreRefused) {
  const std::vector<Refusal> refusals = {
      {{"--device", "cuda"}, {"--device cuda", "accepted: auto, cpu"}},
      {{"--batch_size", "10", "--num_nodes", "4"}, {"--batch_size 10", "--num_nodes 4", "evenly"}},
      {{"--batch_size", "2", "--num_nodes", "4"}, {"--batch_size 2", "--num_nodes 4"}},
      {{"--threads", "2", "--threads_per_worker", "3"}, {"--threads_per_worker 3", "at most --threads, 2"}},
      {{"--threads_per_worker", "100000"}, {"--threads_per_worker 100000", "at most --threads", "this machine"}},
      {{"--codec", "fp32", "--grad_bits", "1"}, {"--codec fp32", "--grad_bits 1", "ternary"}},
      {{"--codec", "ternary", "--grad_bits", "32"}, {"--codec ternary", "--grad_bits 32", "fp32"}},
      {{"--dataset", "mnist"}, {"--data_dir", "--dataset mnist"}},
      {{"--resume"}, {"--resume", "--train_dir"}},
      {{"--trace_steps", "2", "--max_steps", "3"}, {"--trace_steps 2", "--max_steps is 3", "--max_steps 4 or more"}},
      {{"--strategy", "simple", "--num_nodes", "2"}, {"--strategy simple", "--num_nodes is 2", "auto, replicated, ps"}},
      {{"--strategy", "simple", "--grad_bits", "1"}, {"--strategy simple", "ternary", "auto, replicated, ps"}},
      {{"--strategy", "simple", "--codec_for", "*=bf16"}, {"--strategy simple", "auto, replicated, ps"}},
      {{"--strategy", "ps", "--num_nodes", "2", "--exchange", "all_gather"},
       {"--exchange all_gather", "--strategy ps", "accepted: auto, scatter_reduce"}},
      {{"--strategy", "ps", "--num_nodes", "2", "--exchange", "vendor"}, {"--exchange vendor", "--strategy ps"}},
      {{"--strategy", "ps", "--grad_bits", "1", "--pull", "parameters", "--return_codec", "sums"},
       {"--return_codec sums", "--pull parameters", "accepted with it: fp32, bf16"}},
      {{"--strategy", "ps", "--pull", "parameters", "--overlap", "on"}, {"--overlap on", "--pull gradient"}},
      {{"--strategy", "ps", "--pull", "parameters", "--check_replicas", "1"}, {"--check_replicas", "--pull gradient"}},
      {{"--strategy", "ps", "--pull", "parameters", "--rebroadcast_epochs", "1"},
       {"--rebroadcast_epochs", "--pull gradient"}},
      {{"--grad_bits", "1", "--scaler_sharing", "none", "--return_codec", "sums"},
       {"--return_codec sums", "--scaler_sharing none", "fp32, bf16"}},
      {{"--grad_bits", "1", "--scaler_sharing", "none", "--return_codec", "ternary"},
       {"--return_codec ternary", "--scaler_sharing none", "fp32, bf16"}},
      {{"--grad_bits", "1", "--scaler_sharing", "none", "--exchange", "integer_sum"},
       {"--exchange integer_sum", "max or mean"}},
      {{"--num_nodes", "2", "--exchange", "integer_sum"}, {"--exchange integer_sum", "ternary"}},
      {{"--num_nodes", "2", "--codec", "fp16"}, {"--codec fp16", "--exchange vendor", "fp32, bf16, ternary"}},
      {{"--num_nodes", "2", "--codec", "fp16", "--grad_bits", "16"}, {"--codec fp16", "--grad_bits 16", "bf16"}},
      {{"--num_nodes", "2", "--exchange", "vendor", "--grad_bits", "1"}, {"--exchange vendor", "fp32, bf16 or fp16"}},
      {{"--num_nodes", "2", "--exchange", "vendor", "--codec_for", "*=bf16"}, {"--exchange vendor", "--codec_for"}},
      {{"--num_nodes", "2", "--exchange", "vendor", "--on_nonfinite", "zero"},
       {"--on_nonfinite zero", "--exchange vendor", "stop, skip"}},
      {{"--codec_for", "conv*"}, {"--codec_for conv*", "PATTERN=CODEC"}},
      {{"--codec_for", "*=qsgd"}, {"--codec_for *=qsgd", "fp32, bf16, ternary"}},
      {{"--codec_for", "=fp32"}, {"--codec_for =fp32", "PATTERN=CODEC"}},
  };
  for (const Refusal& refusal : refusals) {
    const std::string message = refuse(refusal.arguments);
    for (const std::string& words : refusal.said) EXPECT_THAT(message, HasSubstr(words));
  }
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

TEST(TrainOptions, ALaunchThatTheyDoNotFitIsRefused) {
  const auto refused = [](const std::vector<std::string>& arguments, int num_processes) {
    TrainOptions o;
    OptionSet options("usage");
    declare_train_options(options, o);
    std::vector<std::string> words = {"train"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    options.parse(static_cast<int>(argv.size()), argv.data());
    return testing::message_of<UsageError>([&] { check_launch(options, o, num_processes); });
  };
  EXPECT_THAT(refused({"--num_nodes", "3"}, 4), AllOf(HasSubstr("--num_nodes 3"), HasSubstr("accepted: 4 or more")));
  EXPECT_THAT(refused({"--exchange_timeout", "4"}, 1), HasSubstr("--exchange_timeout"));
  const auto refused_servers = [&](const char* number, int num_processes) {
    return refused({"--strategy", "ps", "--num_nodes", "2", "--num_servers", number}, num_processes);
  };
  EXPECT_THAT(refused_servers("1", 1), AllOf(HasSubstr("--num_servers 1"), HasSubstr("accepted here: 0")));
  EXPECT_THAT(refused_servers("3", 3), AllOf(HasSubstr("--num_servers 3"), HasSubstr("accepted: 0 to 2")));
  EXPECT_THAT(refused_servers("1", 4), HasSubstr("each of the 3 training processes"));
}

TEST(TrainOptions, OptionsWithoutEffectAreRefused) {
  const std::vector<Refusal> refusals = {
      {{"--data_dir", "d"}, {"--data_dir", "synthetic is built in"}},
      {{"--optimizer", "gd", "--momentum", "0.5"}, {"--momentum", "--optimizer momentum or rmsprop"}},
      {{"--optimizer", "adam", "--momentum", "0.5"}, {"--momentum", "--optimizer momentum or rmsprop"}},
      {{"--num_epochs_per_decay", "2"}, {"--num_epochs_per_decay", "--learning_rate_decay_type exponential"}},
      {{"--learning_rate_decay_type", "fixed", "--learning_rate_decay_factor", "0.5"},
       {"--learning_rate_decay_factor", "--learning_rate_decay_type exponential"}},
      {{"--num_servers", "1"}, {"--num_servers", "--strategy ps"}},
      {{"--pull", "gradient", "--num_nodes", "2"}, {"--pull", "--strategy ps"}},
      {{"--exchange", "all_gather"}, {"--exchange", "--strategy replicated"}},
      {{"--return_codec", "bf16"}, {"--return_codec", "--strategy replicated"}},
      {{"--num_nodes", "2", "--return_codec", "sums"}, {"--return_codec sums", "ternary", "fp32, bf16"}},
      {{"--grad_bits", "16", "--return_codec", "ternary"}, {"--return_codec ternary", "ternary", "fp32, bf16"}},
      {{"--num_nodes", "2", "--grad_bits", "1", "--exchange", "all_gather", "--return_codec", "sums"},
       {"--return_codec sums", "--exchange all_gather", "accepted with it: fp32, bf16, ternary", "scatter_reduce"}},
      {{"--grad_bits", "1", "--exchange", "scatter_reduce"}, {"--exchange", "--num_nodes 2 or more"}},
      {{"--strategy", "replicated", "--exchange", "all_gather"}, {"--exchange", "--num_nodes 2 or more"}},
      {{"--grad_bits", "1", "--exchange", "integer_sum"}, {"--exchange", "--num_nodes 2 or more"}},
      {{"--grad_bits", "1", "--scaler_sharing", "mean"}, {"--scaler_sharing", "--num_nodes 2 or more"}},
      {{"--grad_bits", "1", "--scaler_sharing", "none"}, {"--scaler_sharing", "--num_nodes 2 or more"}},
      {{"--grad_bits", "1", "--clip_factor", "2.5", "--clip_scope", "local"},
       {"--clip_scope", "--num_nodes 2 or more"}},
      {{"--grad_bits", "1", "--return_codec", "sums"}, {"--return_codec", "--num_nodes 2 or more"}},
      {{"--num_nodes", "2", "--exchange", "vendor", "--overlap", "on"}, {"--overlap on", "other than vendor"}},
      {{"--num_nodes", "2", "--exchange", "vendor", "--bucket_mb", "1"}, {"--bucket_mb", "other than vendor"}},
      {{"--num_nodes", "2", "--exchange", "vendor", "--return_codec", "bf16"}, {"--return_codec", "other than vendor"}},
      {{"--num_nodes", "2", "--exchange", "vendor", "--grad_bits", "16", "--quantize_logits"},
       {"--quantize_logits", "other than vendor"}},
      {{"--num_nodes", "2", "--size_to_binarize", "9"}, {"--size_to_binarize", "other than fp32"}},
      {{"--num_nodes", "2", "--quantize_logits"}, {"--quantize_logits", "other than fp32"}},
      {{"--num_nodes", "2", "--floating_grad_epoch", "2"}, {"--floating_grad_epoch", "other than fp32"}},
      {{"--num_nodes", "2", "--codec_for", "*=fp32", "--floating_grad_epoch", "2"},
       {"--floating_grad_epoch", "other than fp32"}},
      {{"--grad_bits", "1", "--block_size", "64"}, {"--block_size", "--scaler_scope block"}},
      {{"--grad_bits", "1", "--clip_scope", "local"}, {"--clip_scope", "--clip_factor above 0"}},
      {{"--grad_bits", "1", "--scaler", "original"}, {"--scaler", "--clip_factor above 0"}},
      {{"--grad_bits", "1", "--clip_factor", "2.5", "--clip_scope", "local", "--scaler_sharing", "none"},
       {"--clip_scope local", "--scaler_sharing none", "accepted with it: shared"}},
      {{"--grad_bits", "1", "--exchange", "integer_sum", "--ternary_format", "t5"},
       {"--ternary_format", "other than integer_sum"}},
      {{"--bucket_mb", "1"}, {"--bucket_mb", "--strategy replicated"}},
      {{"--overlap", "on"}, {"--overlap on", "--strategy replicated", "auto, off"}},
      {{"--grad_bits", "1", "--scaler_scope", "model", "--bucket_mb", "1"}, {"--bucket_mb", "--scaler_scope"}},
      {{"--grad_bits", "1", "--scaler_scope", "model", "--overlap", "on"},
       {"--overlap on", "--scaler_scope", "auto, off"}},
      {{"--num_nodes", "2", "--clip_by_global_norm", "1", "--bucket_mb", "1"},
       {"--bucket_mb", "--clip_by_global_norm"}},
      {{"--num_nodes", "2", "--clip_by_global_norm", "1", "--overlap", "on"},
       {"--overlap on", "--clip_by_global_norm", "auto, off"}},
  };
  for (const Refusal& refusal : refusals) {
    const std::string message = refuse(refusal.arguments);
    for (const std::string& words : refusal.said) EXPECT_THAT(message, HasSubstr(words));
  }
  const std::map<std::string, std::string> of_ternary = {
      {"clip_factor", "2.5"},    {"scaler", "original"}, {"scaler_sharing", "mean"}, {"clip_scope", "local"},
      {"scaler_scope", "block"}, {"block_size", "64"},   {"ternary_format", "t5"}};
  for (const char* bits : {"16", "32"}) {
    for (const auto& [name, value] : of_ternary) {
      EXPECT_THAT(refuse({"--num_nodes", "2", "--grad_bits", bits, "--" + name, value}),
                  AllOf(HasSubstr("--" + name + ":"), HasSubstr("ternary (--grad_bits 1)")));
    }
  }
}

TEST(TrainOptions, CombinationsThatMakeSenseAreAccepted) {
  const std::vector<std::vector<std::string>> accepted = {
      {"--grad_bits", "1", "--num_nodes", "2", "--clip_factor", "2.5", "--scaler", "original", "--clip_scope", "local"},
      {"--grad_bits", "1", "--clip_factor", "2.5", "--scaler", "original"},
      // A lossy return leg is part of the result, also of one worker.
      {"--grad_bits", "1", "--return_codec", "ternary"},
      {"--grad_bits", "16", "--return_codec", "bf16"},
      {"--grad_bits", "1", "--num_nodes", "2", "--exchange", "all_gather", "--return_codec", "ternary"},
      {"--grad_bits", "1", "--num_nodes", "2", "--exchange", "scatter_reduce", "--return_codec", "sums"},
      {"--grad_bits", "1", "--num_nodes", "2", "--exchange", "integer_sum", "--return_codec", "sums"},
      {"--grad_bits", "1", "--scaler_scope", "block", "--block_size", "64"},
      {"--grad_bits", "1", "--num_nodes", "2", "--scaler_sharing", "none", "--return_codec", "bf16"},
      {"--grad_bits", "1", "--num_nodes", "2", "--scaler_sharing", "mean", "--exchange", "integer_sum",
       "--return_codec", "ternary"},
      {"--grad_bits", "1", "--size_to_binarize", "0", "--quantize_logits", "--ternary_format", "tmask"},
      {"--grad_bits", "16", "--size_to_binarize", "100"},
      // One tensor with the codec is enough for its options to have an effect.
      {"--num_nodes", "2", "--codec_for", "fc3/weights=ternary", "--clip_factor", "2.5", "--exchange", "integer_sum"},
      {"--num_nodes", "2", "--codec_for", "*=ternary", "--return_codec", "sums"},
      {"--learning_rate_decay_type", "exponential", "--num_epochs_per_decay", "2", "--learning_rate_decay_factor", "1"},
      {"--optimizer", "gd"},
      {"--optimizer", "adam", "--learning_rate_decay_type", "exponential"},
      {"--optimizer", "rmsprop", "--momentum", "0"},
      {"--on_nonfinite", "skip"},
      {"--grad_bits", "1", "--floating_grad_epoch", "2"},
      {"--grad_bits", "16", "--floating_grad_epoch", "20"},
      {"--codec_for", "*=bf16", "--floating_grad_epoch", "2"},
      // The original's scripts give it so whatever the codec.
      {"--floating_grad_epoch", "0"},
      {"--nan_to_zero", "--clip_by_global_norm", "0.5"},
      {"--nan_to_zero=false", "--clip_by_global_norm", "0"},
      {"--strategy", "simple", "--on_nonfinite", "zero"},
      {"--num_nodes", "3", "--batch_size", "9", "--threads", "2", "--threads_per_worker", "2"},
      {"--grad_bits", "1", "--overlap", "on", "--bucket_mb", "0.25"},
      {"--num_nodes", "2", "--nan_to_zero", "--overlap", "on"},
      {"--num_nodes", "2", "--clip_by_global_norm", "1", "--overlap", "off"},
      {"--resume", "--train_dir", "d"},
      {"--resume=false"},
  };
  for (const std::vector<std::string>& arguments : accepted) {
    EXPECT_NO_THROW(accept(arguments)) << ::testing::PrintToString(arguments);
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
  EXPECT_EQ(buckets({}), whole_bucket(layout));
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
                                                                "--return_codec",
                                                                "sums",
                                                                "--on_nonfinite",
                                                                "zero",
                                                                "--seed",
                                                                "9"}),
                                                        77, 3);
  const TernaryOptions& t = e.codecs.codec_options.ternary;
  EXPECT_EQ(e.codecs.codec, "ternary");
  EXPECT_EQ(t.clip_factor, 2.5);
  EXPECT_EQ(t.rule, ScalerRule::kOriginal);
  EXPECT_EQ(t.sharing, ScalerSharing::kMean);
  EXPECT_EQ(t.clip_scope, ClipScope::kLocal);
  EXPECT_EQ(t.scope, ScalerScope::kBlock);
  EXPECT_EQ(t.block_elements, 128);
  EXPECT_EQ(t.format, TernaryFormat::kTMask);
  EXPECT_EQ(e.codecs.size_to_binarize, 7);
  EXPECT_TRUE(e.codecs.quantize_logits);
  ASSERT_EQ(e.codecs.rules.size(), 2u);
  EXPECT_EQ(e.codecs.rules[0].pattern, "a*");
  EXPECT_EQ(e.codecs.rules[1].codec, "bf16");
  EXPECT_EQ(e.algorithm, ExchangeAlgorithm::kScatterReduce);
  EXPECT_EQ(e.return_codec, ReturnCodec::kSums);
  EXPECT_EQ(e.on_nonfinite, OnNonfinite::kZero);
  EXPECT_EQ(e.seed, 9u);
  EXPECT_EQ(e.run_id, 77u);
  EXPECT_EQ(e.num_threads, 3);
}

TEST(TrainOptions, CodecThatNoTensorUsesIsRefused) {
  Layout layout;
  layout.add("fc/weights", {100});
  layout.add("logits/weights", {10}, /*is_logits=*/true);
  const auto check = [&](const std::vector<std::string>& arguments) {
    const TrainOptions o = accept(arguments);
    check_codec_plan(o, CodecPlan(layout, exchange_options(o, 1, 1).codecs));
  };
  const std::vector<Refusal> refusals = {
      {{"--grad_bits", "1", "--codec_for", "*=fp32"}, {"--grad_bits 1", "ternary", "--codec_for"}},
      {{"--grad_bits", "1", "--clip_factor", "2.5", "--codec_for", "fc*=bf16"}, {"--grad_bits 1", "--quantize_logits"}},
      {{"--codec", "bf16", "--size_to_binarize", "101"}, {"--codec bf16", "--size_to_binarize"}},
  };
  for (const Refusal& refusal : refusals) {
    const std::string message = message_of<UsageError>([&] { check(refusal.arguments); });
    for (const std::string& words : refusal.said) EXPECT_THAT(message, HasSubstr(words));
  }
  EXPECT_NO_THROW(check({}));
  EXPECT_NO_THROW(check({"--grad_bits", "1"}));
  EXPECT_NO_THROW(check({"--grad_bits", "1", "--size_to_binarize", "100"}));
  EXPECT_NO_THROW(check({"--grad_bits", "1", "--quantize_logits", "--codec_for", "fc*=bf16"}));
  EXPECT_NO_THROW(check({"--codec_for", "*=ternary"}));
}

TEST(TrainOptions, FloatingExchangeIsTheSameInFp32) {
  const TrainOptions o = accept({"--num_nodes", "2", "--grad_bits", "1", "--clip_factor", "2.5", "--codec_for",
                                 "a*=bf16", "--exchange", "scatter_reduce", "--return_codec", "bf16", "--on_nonfinite",
                                 "skip", "--seed", "9", "--floating_grad_epoch", "2"});
  const CompressedAllReduceOptions e = floating_exchange_options(o, 77, 3);
  EXPECT_EQ(e.codecs.codec, "fp32");
  EXPECT_TRUE(e.codecs.rules.empty());
  EXPECT_EQ(e.algorithm, ExchangeAlgorithm::kScatterReduce);
  EXPECT_EQ(e.return_codec, ReturnCodec::kBfloat16);
  EXPECT_EQ(e.on_nonfinite, OnNonfinite::kSkip);
  EXPECT_EQ(e.seed, 9u);
  EXPECT_EQ(e.run_id, 77u);
  EXPECT_EQ(e.num_threads, 3);
  // There are no codes to add up.
  const TrainOptions sums = accept({"--num_nodes", "2", "--grad_bits", "1", "--exchange", "integer_sum"});
  EXPECT_EQ(floating_exchange_options(sums, 77, 3).algorithm, ExchangeAlgorithm::kAuto);
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
}

TEST(TrainOptions, OptionsOfTheOriginalAreRefusedWithAReason) {
  const std::vector<std::string> names = {"num_readers",
                                          "input_queue_memory_factor",
                                          "subset",
                                          "log_device_placement",
                                          "pretrained_model_checkpoint_path",
                                          "use_encoding",
                                          "save_tower",
                                          "job_name",
                                          "ps_hosts",
                                          "worker_hosts",
                                          "task_id",
                                          "num_replicas_to_aggregate",
                                          "save_interval_secs",
                                          "save_summaries_secs"};
  for (const std::string& name : names) EXPECT_THAT(refuse({"--" + name, "1"}), HasSubstr("--" + name + ": refused: "));
}

TEST(TrainOptions, DropoutNeedsANetThatHasSome) {
  for (const char* net : {"lenet", "cifar10_alexnet"}) {
    EXPECT_THAT(refuse({"--net", net, "--dropout_keep_prob", "0.8"}),
                AllOf(HasSubstr("--dropout_keep_prob"), HasSubstr(net)));
  }
  EXPECT_THAT(refuse({"--dropout_keep_prob", "0"}), HasSubstr("above 0, at most 1"));
}

TEST(TrainOptions, BenchmarkModeAndWarmStartsRefuseWhatTheyWouldIgnore) {
  EXPECT_THAT(refuse({"--benchmark_mode", "--data_dir", "d"}), HasSubstr("--data_dir"));
  EXPECT_THAT(refuse({"--benchmark_mode", "--eval_steps", "2"}), HasSubstr("--eval_steps"));
  EXPECT_THAT(refuse({"--fine_tune"}), HasSubstr("--init_from"));
  EXPECT_THAT(refuse({"--init_from", "c", "--resume", "--train_dir", "r"}), HasSubstr("--resume"));
  EXPECT_THAT(refuse({"--on_save_error", "ignore"}), AllOf(HasSubstr("stop"), HasSubstr("continue")));
  EXPECT_THAT(refuse({"--stop_after_secs", "-1"}), HasSubstr("--stop_after_secs"));
  EXPECT_TRUE(accept({"--dataset", "mnist", "--benchmark_mode"}).benchmark_mode);
}

}  // namespace
}  // namespace terngrad
