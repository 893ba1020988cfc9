#include "trainers/options/train_option_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/checked_options.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::train_option_checks_test {
namespace {

using testing::accept;
using ::testing::AllOf;
using testing::expect_accepted;
using testing::expect_refused;
using ::testing::HasSubstr;
using testing::message_of;
using testing::parse;
using testing::refuse;
using testing::TemporaryDirectory;

TEST(TrainOptionChecks, ContradictionsAreRefused) {
  expect_refused({
      {{"--device", "cuda"}, {"--device cuda", "accepted: auto, cpu"}},
      {{"--batch_size", "10", "--num_nodes", "4"}, {"--batch_size 10", "--num_nodes 4", "evenly"}},
      {{"--batch_size", "2", "--num_nodes", "4"}, {"--batch_size 2", "--num_nodes 4"}},
      {{"--threads", "2", "--threads_per_worker", "3"}, {"--threads_per_worker 3", "at most --threads, 2"}},
      {{"--threads_per_worker", "100000"}, {"--threads_per_worker 100000", "at most --threads", "this machine"}},
      {{"--dataset", "mnist"}, {"--data_dir", "--dataset mnist"}},
      {{"--resume"}, {"--resume", "--train_dir"}},
      {{"--learning_rate_decay_type", "steps"}, {"--learning_rate_boundaries", "--learning_rate_decay_type steps"}},
      {{"--max_steps", "10", "--eval_at", "5,11"}, {"--eval_at 5,11", "step 11", "--max_steps is 10"}},
      {{"--max_steps", "0", "--eval_at", "1"}, {"--eval_at 1", "--max_steps is 0"}},
      {{"--max_steps", "0", "--profile"}, {"--profile", "--max_steps is 0"}},
      {{"--max_steps", "0", "--num_nodes", "2", "--dump_messages", "d"}, {"--dump_messages d", "--max_steps is 0"}},
      {{"--max_steps", "0", "--trace_steps", "1"}, {"--trace_steps 1", "--max_steps is 0"}},
      {{"--max_steps", "9", "--dump_gradients", "10"}, {"--dump_gradients 10", "--max_steps is 9", "accepted here: 0"}},
      {{"--memory", "--last_rank_evaluates"}, {"--memory", "--last_rank_evaluates"}},
      {{"--trace_steps", "2", "--max_steps", "3"}, {"--trace_steps 2", "begins after 3 steps", "--max_steps is 3"}},
      {{"--strategy", "simple", "--num_nodes", "2"}, {"--strategy simple", "--num_nodes is 2", "auto, replicated, ps"}},
      {{"--strategy", "simple", "--grad_bits", "1"}, {"--strategy simple", "ternary", "auto, replicated, ps"}},
      {{"--strategy", "simple", "--codec_for", "*=bf16"}, {"--strategy simple", "auto, replicated, ps"}},
      {{"--strategy", "ps", "--num_nodes", "2", "--exchange", "all_gather"},
       {"--exchange all_gather", "servers", "accepted with them: auto, scatter_reduce"}},
      {{"--strategy", "ps", "--num_nodes", "2", "--exchange", "vendor"}, {"--exchange vendor", "no servers"}},
      {{"--strategy", "ps", "--grad_bits", "1", "--pull", "parameters", "--downlink_codec", "sums"},
       {"--downlink_codec sums", "send parameters back", "accepted with them: fp32, bf16"}},
      {{"--strategy", "ps", "--pull", "parameters", "--overlap", "on"}, {"--overlap on", "--pull gradient"}},
      {{"--strategy", "ps", "--pull", "parameters", "--check_replicas", "1"}, {"--check_replicas", "--pull gradient"}},
      {{"--strategy", "ps", "--pull", "parameters", "--rebroadcast_epochs", "1"},
       {"--rebroadcast_epochs", "--pull gradient"}},
  });
}

TEST(TrainOptionChecks, OptionsWithoutEffectMayHaveTheirDefault) {
  expect_accepted({
      {"--optimizer", "gd", "--momentum", "0.9", "--num_epochs_per_decay", "20"},
      {"--num_gpus", "0", "--math", "tf32", "--device", "cpu"},
      {"--num_servers", "0", "--pull", "gradient", "--max_staleness", "-1", "--async_scale", "0"},
      {"--grad_bits", "32", "--clip_factor", "0", "--scaler", "paper", "--block_size", "32768", "--ternary_format",
       "t2"},
      {"--exchange", "auto", "--downlink_codec", "fp32", "--scaler_sharing", "max", "--bucket_mb", "0"},
      {"--benchmark_mode", "--eval_steps", "0", "--histogram_steps", "1000"},
      {"--dropout_keep_prob", "0.5", "--fine_tune=false"},
  });
  // Only the default is accepted.
  EXPECT_THAT(refuse({"--grad_bits", "32", "--clip_factor", "2.5"}),
              AllOf(HasSubstr("--clip_factor 2.5:"), HasSubstr("accepted here: 0, its default")));
}

TEST(TrainOptionChecks, CombinationsThatMakeSenseAreAccepted) {
  expect_accepted({
      {"--learning_rate_decay_type", "exponential", "--num_epochs_per_decay", "2", "--learning_rate_decay_factor", "1"},
      {"--learning_rate_decay_type", "steps", "--learning_rate_boundaries", "5,10", "--max_steps", "4"},
      {"--max_steps", "0", "--eval_at", "0"},
      {"--max_steps", "10", "--eval_at", "0,10", "--eval_steps", "5"},
      {"--memory"},
      {"--optimizer", "gd"},
      {"--optimizer", "adam", "--learning_rate_decay_type", "exponential"},
      {"--optimizer", "rmsprop", "--momentum", "0"},
      {"--on_nonfinite", "skip"},
      {"--nan_to_zero", "--clip_by_global_norm", "0.5"},
      {"--nan_to_zero=false", "--clip_by_global_norm", "0"},
      {"--strategy", "simple", "--on_nonfinite", "zero"},
      {"--num_nodes", "3", "--batch_size", "9", "--threads", "2", "--threads_per_worker", "2"},
      {"--grad_bits", "1", "--overlap", "on", "--bucket_mb", "0.25"},
      {"--num_nodes", "2", "--nan_to_zero", "--overlap", "on"},
      {"--tensorboard=false", "--histogram_steps", "10"},
      {"--num_nodes", "2", "--clip_by_global_norm", "1", "--overlap", "off"},
      {"--resume", "--train_dir", "d"},
      {"--resume=false"},
  });
}

TEST(TrainOptionChecks, ALaunchThatTheyDoNotFitIsRefused) {
  const auto refused = [](const std::vector<std::string>& arguments, int num_processes) {
    TrainOptions o;
    OptionSet options("test");
    parse(options, o, arguments);
    apply_launch(o, {.rank = 0, .num_processes = num_processes, .num_sharing = 1});
    return message_of<UsageError>([&] { check_train_options(options, o); });
  };
  EXPECT_THAT(refused({"--num_nodes", "3"}, 4), AllOf(HasSubstr("--num_nodes 3"), HasSubstr("accepted: 4 or more")));
  EXPECT_THAT(refused({"--exchange_timeout", "4"}, 1), HasSubstr("--exchange_timeout"));
  expect_accepted(
      {{"--exchange_timeout", "600", "--check_replicas", "0", "--num_servers", "0", "--data_shards=false"}});
  EXPECT_THAT(refused({"--num_nodes", "2", "--last_rank_evaluates", "--eval_at", "5"}, 3),
              AllOf(HasSubstr("--eval_at 5"), HasSubstr("--last_rank_evaluates")));
  const auto refused_servers = [&](const char* number, int num_processes) {
    return refused({"--strategy", "ps", "--num_nodes", "2", "--num_servers", number}, num_processes);
  };
  EXPECT_THAT(refused_servers("1", 1), AllOf(HasSubstr("--num_servers 1"), HasSubstr("accepted here: 0")));
  EXPECT_THAT(refused_servers("3", 3), AllOf(HasSubstr("--num_servers 3"), HasSubstr("accepted: 0 to 2")));
  EXPECT_THAT(refused_servers("1", 4), HasSubstr("each of the 3 training processes"));
}

}  // namespace
}  // namespace terngrad::train_option_checks_test
