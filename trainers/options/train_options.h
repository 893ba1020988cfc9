// TrainOptions: the options of terngrad_train.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "trainers/options/gpu_range.h"
#include "trainers/options/train_choices.h"

namespace terngrad {

class Layout;
struct ShuffleOptions;

class OptionSet;
struct CompressedAllReduceOptions;
struct TrainDevices;

/// Values of all options; the initial ones are the defaults for the data set `synthetic`. Options of the TernGrad
/// authors' program keep their names.
struct TrainOptions {
  // Run
  std::string dataset = "synthetic";
  std::string data_dir;
  bool data_shards = false;
  std::string train_dir;
  bool resume = false;
  std::string init_from;
  bool fine_tune = false;
  bool benchmark_mode = false;
  bool memory = false;
  double stop_after_secs = 0;
  std::uint64_t seed = 1;
  std::string device = "auto";
  int num_gpus = 0;  // 0: one, or an equal part for each of several processes
  std::string math = "tf32";
  int threads = 0;             // 0: all of the machine
  int threads_per_worker = 0;  // 0: all for one worker, else 1
  int num_preprocess_threads = 1;
  Shuffle shuffle = Shuffle::kExact;
  int num_readers = 4;
  int input_queue_memory_factor = 16;
  // Model and optimization
  std::string net = "lenet";
  int image_size = 28;
  std::string preprocessing = "auto";
  Augment augment = Augment::kOn;
  int label_offset = 0;
  std::int64_t batch_size = 64;
  std::int64_t max_steps = 3000;
  std::string optimizer = "momentum";
  double initial_learning_rate = 0.01;
  double momentum = 0.9;
  ScheduleKind learning_rate_decay_type = ScheduleKind::kPolynomial;
  double num_epochs_per_decay = 20;
  double learning_rate_decay_factor = 0.1;
  std::string learning_rate_boundaries;  // a list for parse_step_list
  double weight_decay = 0.0005;
  double clip_by_global_norm = 0;
  bool nan_to_zero = false;
  double ema_decay = 0.9999;
  double dropout_keep_prob = 0.5;
  std::vector<std::string> freeze;
  std::int64_t freeze_until = 0;
  // Workers and exchange
  int num_nodes = 1;
  TrainStrategy strategy = TrainStrategy::kAuto;
  int num_servers = 0;
  Pull pull = Pull::kGradient;
  double async_scale = 0;           // 0: 1 / num_nodes
  std::int64_t max_staleness = -1;  // -1: no limit
  TrainExchange exchange = TrainExchange::kAuto;
  int workers_per_group = 1;
  DownlinkCodec downlink_codec = DownlinkCodec::kFloat32;
  Reduce reduce = Reduce::kAverage;
  OnNonfinite on_nonfinite = OnNonfinite::kStop;
  Overlap overlap = Overlap::kAuto;
  double bucket_mb = 0;  // 0: kDefaultBucketMb, or one bucket for a single GPU
  double exchange_timeout = 600;
  bool last_rank_evaluates = false;
  std::int64_t check_replicas = 0;
  std::int64_t rebroadcast_epochs = 0;
  // Compression
  int grad_bits = 32;
  std::string codec = "auto";  // a spec, "auto" or "fp16"
  std::vector<std::string> codec_for;
  double clip_factor = 0;
  std::string scaler = "paper";
  std::string scaler_sharing = "max";
  std::string clip_scope = "shared";
  std::string scaler_scope = "layer";
  std::int64_t block_size = 32768;
  std::string ternary_format = "t2";
  std::int64_t size_to_binarize = 1;
  bool quantize_logits = false;
  std::int64_t floating_grad_epoch = 0;
  std::int64_t compress_from = 0;
  std::int64_t variance_update_scaler = 16;
  std::string codec_memory = "auto";                    // a spec for parse_memory, or auto
  ErrorFeedback error_feedback = ErrorFeedback::kAuto;  // auto, true or false
  double error_feedback_decay = 1;
  // Reports
  std::int64_t log_steps = 100;
  bool profile = false;
  std::int64_t trace_steps = 0;
  std::string dump_messages;
  std::int64_t dump_steps = 1;
  std::int64_t dump_gradients = 0;  // steps; 0: never
  std::int64_t telemetry_steps = 500;
  bool tensorboard = true;
  std::int64_t histogram_steps = 1000;
  std::int64_t eval_steps = 0;
  std::string eval_at;  // a list for parse_step_list
  std::int64_t save_iter = 1000;
  int keep_checkpoints = 5;
  OnSaveError on_save_error = OnSaveError::kStop;

  // Set by apply_launch
  int num_launched = 1;   // processes that train or evaluate
  int num_processes = 1;  // processes that train
  bool trains = true;     // true if this process trains, else it evaluates
  GpuRange gpus;          // GPUs of this process

  /// Name of the codec of --codec or --grad_bits, without options: "fp32", "bf16", "ternary".
  std::string codec_name() const;
  /// Its spec: --codec, or the spec that --grad_bits stands for.
  std::string codec_spec() const;
  /// The strategy that `auto` stands for.
  TrainStrategy chosen_strategy() const;
  /// Factor of the mean gradient, from --reduce.
  float mean_factor() const { return reduce == Reduce::kSum ? static_cast<float>(num_nodes) : 1.0f; }
  /// True if servers update the parameters and send these instead of the mean gradient.
  bool pulls_parameters() const { return strategy == TrainStrategy::kParameterServers && pull == Pull::kParameters; }
  /// True if gradients are encoded, exchanged and applied in host memory even if GPUs compute them: with asynchronous
  /// servers, and with servers that update parameters or are separate processes.
  bool exchanges_on_host() const;
  /// False if gradients are applied as they are, by one worker or as the sum that the communication library makes.
  bool encodes_gradients() const;
  /// True if workers send Adam's directions in steps that compress (trainers/optim/onebit_adam.h).
  bool sends_directions() const { return optimizer == "onebit_adam" || optimizer == "zero_one_adam"; }
  /// True if all tensors are sent as fp32 in some steps: floating epochs, steps before --compress_from, and the
  /// variance steps of zero_one_adam.
  bool has_floating_steps() const {
    return floating_grad_epoch > 0 || compress_from > 0 || optimizer == "zero_one_adam";
  }
  /// True if gradients are exchanged in buckets of tensors; false if something needs all tensors at once.
  bool splits_gradients() const;
};

/// Suffix of the data set's name in the identity of runs in benchmark mode.
inline constexpr const char* kConstantImagesSuffix = " (constant images)";

/// The algorithm of --exchange; none for vendor.
std::optional<ExchangeAlgorithm> algorithm_of(const TrainOptions& o);
/// True for --strategy async.
inline bool is_async(const TrainOptions& o) { return o.strategy == TrainStrategy::kAsync; }
/// True if any tensor may be sent as ternary codes.
bool uses_ternary(const TrainOptions& o);
/// True if on GPUs the host waits in every step for payload sizes: for codecs whose payloads have a data-dependent size
/// and are not self-delimiting.
bool host_waits_for_sizes(const TrainOptions& o);

/// True if every tensor is encoded without the others.
bool is_per_tensor(const TrainOptions& o);

/// The unmet need for an exchange in buckets of tensors; empty if splits_gradients.
std::string buckets_unsupported_reason(const TrainOptions& o);
/// The unmet need for an exchange concurrent with the backward pass; empty if it is possible.
std::string overlap_unsupported_reason(const TrainOptions& o);

/// Declares every option over `o`.
void declare_train_options(OptionSet& options, TrainOptions& o);

/// The place of a process in a launch.
struct LaunchPlace {
  int rank = 0;
  int num_processes = 1;
  int num_sharing = 1;  // processes on the same processors, itself included
};

/// Adapts the options to a launch: --threads 0 becomes this process's part of the processors.
void apply_launch(TrainOptions& o, const LaunchPlace& place);

/// Threads of the process; all of the machine for --threads 0.
int num_threads(const TrainOptions& o);
/// Threads of one worker's net: --threads_per_worker, or all threads of the process for a single worker, else 1.
int threads_per_worker(const TrainOptions& o);

/// The devices of this process from --device, --num_gpus and --math. @throws UsageError as choose_devices
TrainDevices devices_of(const TrainOptions& o);

/// Options of the exchange. @param run_id  id of the run, equal on all ranks
CompressedAllReduceOptions exchange_options(const TrainOptions& o, std::uint64_t run_id, int num_threads);

/// The same for floating steps (TrainOptions::has_floating_steps): all tensors are sent as fp32, other options are
/// equal where fp32 allows it.
CompressedAllReduceOptions floating_exchange_options(const TrainOptions& o, std::uint64_t run_id, int num_threads);

/// Default bucket size in MiB: large enough to hide most of an exchange, small enough for a short last bucket, which
/// cannot be hidden (README of bench/results).
inline constexpr double kDefaultBucketMb = 1;

/// Index of a step's exchange: 1 for floating steps, else 0. @param num_examples  examples per epoch
std::function<std::size_t(std::uint64_t step)> exchange_of_steps(const TrainOptions& o, std::int64_t num_examples);

/// The Buckets (bucket_plan.h) that the options select, the same with or without overlap.
/// @param order       Net::gradient_order
/// @param default_mb  bucket size in MiB for --bucket_mb 0
std::vector<std::vector<int>> exchange_buckets(const TrainOptions& o, const Layout& layout, std::span<const int> order,
                                               double default_mb = kDefaultBucketMb);

/// True if gradients are exchanged while others are computed. @param num_ranks  processes, or GPUs of all processes
bool overlaps(const TrainOptions& o, int num_ranks);

/// The learning-rate schedule. @param num_examples  examples per epoch
Schedule make_schedule(const TrainOptions& o, std::int64_t num_examples);

/// The order of an epoch's examples.
ShuffleOptions shuffle_of(const TrainOptions& o);

/// Name of the preprocessing of `dataset` for `net`: --preprocessing. For data sets of records, `auto` is the net's
/// preprocessing in the TernGrad authors' program: alexnet, vgg, inception (also for residual nets) or standard.
std::string preprocessing_of(const std::string& dataset, const std::string& net, const std::string& preprocessing);

}  // namespace terngrad
