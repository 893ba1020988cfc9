// Every option of terngrad_train is either part of a run's identity, or does not change its result. An option that is
// new or changes its role needs a row here, which proves the role or names the test that does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/identity_entries.h"
#include "tests/trainers/train_runs.h"
#include "trainers/checkpoint/checkpoint.h"
#include "trainers/command_line/option_list.h"

namespace terngrad::train_identity_test {
namespace {

using testing::CommandOutcome;
using testing::identity_of;
using testing::operator+;
using testing::SmallMnist;
using testing::TemporaryDirectory;
using testing::train;

/// A change of one option.
struct Change {
  std::vector<std::string> with = {};   // other options of both runs that it needs
  std::vector<std::string> given = {};  // the changed option, in one run
  std::string why_not = {};             // if not tested here: the reason and the other test
};

const std::string kSeveral = "takes several processes: tests/mpi/train";
const std::vector<std::string> kTwo = {"--num_nodes", "2"};
const std::vector<std::string> kTernary = {"--num_nodes", "2", "--grad_bits", "1", "--clip_factor", "2.5"};
const std::vector<std::string> kRecords = {"--dataset", "records", "--data_dir", "d"};

/// @param folder  for files that options write
std::map<std::string, Change> changes(const TemporaryDirectory& folder) {
  return {
      {"async_scale", {kTwo + std::vector<std::string>{"--strategy", "async"}, {"--async_scale", "0.1"}}},
      {"augment", {{"--dataset", "cifar10", "--data_dir", "d"}, {"--augment", "off"}}},
      {"batch_size", {{}, {"--batch_size", "8"}}},
      {"benchmark_mode", {{}, {"--benchmark_mode"}}},
      {"block_size", {kTernary + std::vector<std::string>{"--scaler_scope", "block"}, {"--block_size", "64"}}},
      {"bucket_mb", {kTernary, {"--bucket_mb", "0.01"}}},
      {"check_replicas", {.why_not = kSeveral}},
      {"clip_by_global_norm", {{}, {"--clip_by_global_norm", "1"}}},
      {"clip_factor", {{"--grad_bits", "1"}, {"--clip_factor", "2"}}},
      {"clip_scope", {kTernary, {"--clip_scope", "local"}}},
      {"codec", {{}, {"--codec", "qsgd"}}},
      {"codec_for", {kTernary, {"--codec_for", "conv*=bf16"}}},
      {"codec_memory", {kTernary, {"--codec_memory", "momentum"}}},
      {"compress_from", {kTernary, {"--compress_from", "1"}}},
      {"data_dir", {.why_not = "names the data, whose fingerprint is compared"}},
      {"data_shards", {.why_not = kSeveral}},
      {"dataset", {{}, {"--dataset", "mnist", "--data_dir", "d"}}},
      {"device", {{}, {"--device", "cpu"}}},
      {"downlink_codec", {kTernary, {"--downlink_codec", "bf16"}}},
      {"dropout_keep_prob",
       {{"--dataset", "imagenet", "--data_dir", "d", "--net", "alexnet"}, {"--dropout_keep_prob", "0.8"}}},
      {"dump_gradients", {{}, {"--dump_gradients", "1"}}},
      {"dump_messages", {kTernary, {"--dump_messages", (folder / "messages").string()}}},
      {"dump_steps",
       {kTernary + std::vector<std::string>{"--dump_messages", (folder / "more").string()}, {"--dump_steps", "2"}}},
      {"ema_decay", {{}, {"--ema_decay", "0.5"}}},
      {"error_feedback", {kTernary, {"--error_feedback", "true"}}},
      {"error_feedback_decay",
       {kTernary + std::vector<std::string>{"--error_feedback", "true"}, {"--error_feedback_decay", "0.5"}}},
      {"eval_at", {{}, {"--eval_at", "1,2"}}},
      {"eval_steps", {{}, {"--eval_steps", "1"}}},
      {"exchange", {kTernary, {"--exchange", "all_gather"}}},
      {"exchange_timeout", {.why_not = kSeveral}},
      {"fine_tune", {.why_not = "is what a run begins with: train_warm_start_test.cpp"}},
      {"floating_grad_epoch", {kTernary, {"--floating_grad_epoch", "2"}}},
      {"freeze", {{}, {"--freeze", "conv1/*"}}},
      {"freeze_until", {{"--freeze", "conv1/*"}, {"--freeze_until", "1"}}},
      {"grad_bits", {{}, {"--grad_bits", "16"}}},
      {"histogram_steps", {{}, {"--histogram_steps", "1"}}},
      {"image_size", {{}, {"--image_size", "20"}}},
      {"init_from", {.why_not = "is what a run begins with: train_warm_start_test.cpp"}},
      {"initial_learning_rate", {{}, {"--initial_learning_rate", "0.02"}}},
      {"input_queue_memory_factor",
       {kRecords + std::vector<std::string>{"--shuffle", "window"}, {"--input_queue_memory_factor", "2"}}},
      {"keep_checkpoints", {{}, {"--keep_checkpoints", "1", "--save_iter", "1"}}},
      {"label_offset", {kRecords, {"--label_offset", "-1"}}},
      {"last_rank_evaluates", {.why_not = kSeveral}},
      {"learning_rate_boundaries",
       {{"--learning_rate_decay_type", "steps", "--learning_rate_boundaries", "1"},
        {"--learning_rate_boundaries", "2"}}},
      {"learning_rate_decay_factor",
       {{"--learning_rate_decay_type", "exponential"}, {"--learning_rate_decay_factor", "0.5"}}},
      {"learning_rate_decay_type", {{}, {"--learning_rate_decay_type", "fixed"}}},
      {"log_steps", {{}, {"--log_steps", "1"}}},
      {"math", {.why_not = "takes a GPU: train_on_gpu_test.cpp"}},
      {"max_staleness", {kTwo + std::vector<std::string>{"--strategy", "async"}, {"--max_staleness", "1"}}},
      {"max_steps", {{}, {"--max_steps", "4"}}},
      {"memory", {.why_not = "writes nothing: memory_report_test.cpp"}},
      {"momentum", {{}, {"--momentum", "0.5"}}},
      {"nan_to_zero", {{}, {"--nan_to_zero"}}},
      {"net", {{}, {"--net", "resnet_20"}}},
      {"num_epochs_per_decay", {{"--learning_rate_decay_type", "exponential"}, {"--num_epochs_per_decay", "1"}}},
      {"num_gpus", {.why_not = "takes a GPU: train_on_gpu_test.cpp"}},
      {"num_nodes", {{}, kTwo}},
      {"num_preprocess_threads", {{}, {"--num_preprocess_threads", "2"}}},
      {"num_readers", {kRecords + std::vector<std::string>{"--shuffle", "window"}, {"--num_readers", "2"}}},
      {"num_servers", {.why_not = kSeveral}},
      {"on_nonfinite", {{}, {"--on_nonfinite", "skip"}}},
      {"on_save_error", {{}, {"--on_save_error", "continue"}}},
      {"optimizer", {{}, {"--optimizer", "adam"}}},
      {"overlap", {kTernary, {"--overlap", "on"}}},
      {"preprocessing", {{"--dataset", "cifar10", "--data_dir", "d"}, {"--preprocessing", "padded"}}},
      {"profile", {{}, {"--profile"}}},
      {"pull", {kTwo + std::vector<std::string>{"--strategy", "ps"}, {"--pull", "parameters"}}},
      {"quantize_logits", {kTernary, {"--quantize_logits"}}},
      {"rebroadcast_epochs", {.why_not = kSeveral}},
      {"reduce", {kTwo, {"--reduce", "sum"}}},
      {"resume", {.why_not = "continues a run: train_resume_test.cpp"}},
      {"save_iter", {{}, {"--save_iter", "1"}}},
      {"scaler", {kTernary, {"--scaler", "original"}}},
      {"scaler_scope", {kTernary, {"--scaler_scope", "model"}}},
      {"scaler_sharing", {kTernary, {"--scaler_sharing", "none"}}},
      {"seed", {{}, {"--seed", "2"}}},
      {"shuffle", {kRecords, {"--shuffle", "window"}}},
      {"size_to_binarize", {kTernary, {"--size_to_binarize", "1000"}}},
      {"stop_after_secs", {{}, {"--stop_after_secs", "1000"}}},
      {"strategy", {kTwo, {"--strategy", "async"}}},
      {"telemetry_steps", {kTernary, {"--telemetry_steps", "1"}}},
      {"tensorboard", {{}, {"--tensorboard=false"}}},
      {"ternary_format", {kTernary, {"--ternary_format", "t5"}}},
      {"threads", {kTwo, {"--threads", "2"}}},
      {"threads_per_worker", {{"--threads", "2"}, {"--threads_per_worker", "1"}}},
      {"trace_steps", {{"--max_steps", "5"}, {"--trace_steps", "1"}}},
      {"train_dir", {{}, {"--train_dir", (folder / "elsewhere").string()}}},
      {"variance_update_scaler",
       {kTernary + std::vector<std::string>{"--optimizer", "zero_one_adam"}, {"--variance_update_scaler", "2"}}},
      {"weight_decay", {{}, {"--weight_decay", "0.01"}}},
      {"workers_per_group", {{"--num_nodes", "4", "--grad_bits", "1"}, {"--workers_per_group", "2"}}},
  };
}

/// Options whose row has a value with the same result as the default; other values change the result.
const std::vector<std::string> kSameBits = {"exchange", "pull"};

std::vector<OptionDescription> train_option_descriptions() {
  TrainOptions o;
  OptionSet options("test");
  declare_train_options(options, o);
  return options.descriptions();
}

/// Runs three steps. @returns name and bytes of each tensor of the last checkpoint
std::map<std::string, std::string> tensors_of_run(const SmallMnist& mnist, const std::filesystem::path& run,
                                                  const std::vector<std::string>& arguments) {
  const std::vector<std::string> all =
      mnist.options(run) +
      std::vector<std::string>{"--batch_size", "4", "--max_steps", "3", "--threads", "1", "--device", "cpu"} +
      arguments;
  const CommandOutcome outcome = train(all);
  EXPECT_EQ(outcome.exit_code, 0) << ::testing::PrintToString(all) << outcome.err;
  std::map<std::string, std::string> tensors;
  const auto named = std::ranges::find(arguments, "--train_dir");
  const std::filesystem::path directory = named == arguments.end() ? run : std::filesystem::path(*(named + 1));
  const std::optional<CheckpointFile> last = latest_checkpoint(directory);
  if (!last) return tensors;
  const Checkpoint checkpoint = load_checkpoint(last->path);
  for (const TensorRecord& tensor : checkpoint.tensors()) {
    tensors[tensor.name] = {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
  }
  return tensors;
}

TEST(TrainIdentity, HasARowForEveryOption) {
  const TemporaryDirectory folder;
  const std::map<std::string, Change> rows = changes(folder);
  std::vector<std::string> declared;
  for (const OptionDescription& option : train_option_descriptions()) declared.push_back(option.name);
  std::vector<std::string> listed;
  for (const auto& [name, change] : rows) listed.push_back(name);
  EXPECT_THAT(declared, ::testing::UnorderedElementsAreArray(listed));
}

TEST(TrainIdentity, HasEveryOptionThatDecidesBits) {
  const TemporaryDirectory folder;
  const std::map<std::string, Change> rows = changes(folder);
  for (const OptionDescription& option : train_option_descriptions()) {
    const Change& change = rows.at(option.name);
    if (option.role != OptionRole::kResult || !change.why_not.empty()) continue;
    const bool is_same = std::ranges::find(kSameBits, option.name) != kSameBits.end();
    EXPECT_EQ(recorded_identity(identity_of(change.with)) == recorded_identity(identity_of(change.with + change.given)),
              is_same)
        << option.name;
  }
}

TEST(TrainIdentity, OptionsThatAreNoPartOfItChangeNoBit) {
  const TemporaryDirectory folder;
  const std::map<std::string, Change> rows = changes(folder);
  const SmallMnist mnist;
  int run = 0;
  for (const OptionDescription& option : train_option_descriptions()) {
    const Change& change = rows.at(option.name);
    if (option.role == OptionRole::kResult || !change.why_not.empty()) continue;
    std::vector<std::string> plain = change.with;
    if (option.name == "dump_steps") plain = kTernary;  // two runs must not write the same messages
    const auto without = tensors_of_run(mnist, folder / std::to_string(run++), plain);
    EXPECT_FALSE(without.empty()) << option.name;
    EXPECT_TRUE(tensors_of_run(mnist, folder / std::to_string(run++), change.with + change.given) == without)
        << option.name;
  }
}

}  // namespace
}  // namespace terngrad::train_identity_test
