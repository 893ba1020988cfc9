#include "trainers/options/train_options.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/bucket_plan.h"
#include "compress/exchange/vendor_codecs.h"
#include "compress/plan/codec_presets.h"
#include "datasets/dataset.h"
#include "kernels/codes/code_sum.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/errors.h"
#include "nets/net.h"
#include "trainers/command_line/step_list.h"
#include "trainers/loop/floating_epochs.h"
#include "trainers/optim/onebit_adam.h"
#include "trainers/options/async_options.h"
#include "trainers/options/chosen_codecs.h"
#include "trainers/options/codec_list.h"
#include "trainers/options/train_devices.h"
#include "trainers/options/train_option_groups.h"

namespace terngrad {
std::optional<ExchangeAlgorithm> algorithm_of(const TrainOptions& o) {
  return find_choice<ExchangeAlgorithm>(word_of(o.exchange));
}

std::string TrainOptions::codec_name() const {
  if (codec == "fp16") return codec;
  return expand_preset(parse_codec_spec(codec_spec()), codec_presets()).spec.name;
}

std::string TrainOptions::codec_spec() const {
  if (codec != "auto") return codec;
  switch (grad_bits) {
    case 32:
      return "fp32";
    case 16:
      return "bf16";
    case 1:
      return "ternary";
    default:
      return "qsgd:bits=" + std::to_string(grad_bits);
  }
}

TrainStrategy TrainOptions::chosen_strategy() const {
  if (strategy != TrainStrategy::kAuto) return strategy;
  const bool exchanges_nothing = num_nodes == 1 && codec_name() == "fp32" && codec_for.empty();
  return exchanges_nothing ? TrainStrategy::kSimple : TrainStrategy::kReplicated;
}

bool TrainOptions::exchanges_on_host() const {
  const bool servers_do_more =
      strategy == TrainStrategy::kParameterServers && (num_servers > 0 || pull == Pull::kParameters);
  return is_async(*this) || servers_do_more;
}

bool TrainOptions::encodes_gradients() const {
  return chosen_strategy() != TrainStrategy::kSimple && exchange != TrainExchange::kVendor;
}

bool uses_ternary(const TrainOptions& o) { return std::ranges::any_of(chosen_codecs(o), &ChosenCodec::is_ternary); }

bool host_waits_for_sizes(const TrainOptions& o) {
  return std::ranges::any_of(chosen_codecs(o), [](const ChosenCodec& c) {
    return !c.codec->traits().fixed_size && !c.codec->traits().self_delimiting;
  });
}

bool is_per_tensor(const TrainOptions& o) {
  return std::ranges::all_of(chosen_codecs(o), [](const ChosenCodec& c) { return c.codec->traits().per_tensor; });
}

std::string buckets_unsupported_reason(const TrainOptions& o) {
  if (o.chosen_strategy() == TrainStrategy::kSimple) return "--strategy replicated: simple exchanges nothing";
  if (is_async(o)) return "--strategy replicated or ps: async pushes whole gradients";
  if (!is_per_tensor(o)) {
    return "another --scaler_scope than model, whose scaler takes all tensors";
  }
  if (o.clip_by_global_norm > 0) return "a run without --clip_by_global_norm, which takes the norm of all tensors";
  if (o.pulls_parameters()) return "--pull gradient: an update cannot be taken back if a later tensor is not finite";
  return "";
}

std::string overlap_unsupported_reason(const TrainOptions& o) {
  std::string buckets = buckets_unsupported_reason(o);
  if (!buckets.empty() || devices_of(o).is_cpu_run()) return buckets;
  if (o.exchanges_on_host()) {
    return "--num_servers 0 on GPUs, which then exchange gradients themselves: those that the CPU exchanges come to "
           "it when all are computed";
  }
  if (host_waits_for_sizes(o)) {
    return "on a GPU another --ternary_format than tmask: the host waits for sizes that depend on the data, and "
           "submits nothing meanwhile";
  }
  return "";
}

bool TrainOptions::splits_gradients() const { return buckets_unsupported_reason(*this).empty(); }

void declare_train_options(OptionSet& options, TrainOptions& o) {
  declare_run_options(options, o);
  declare_model_options(options, o);
  declare_worker_options(options, o);
  declare_compression_options(options, o);
  declare_report_options(options, o);
  refuse_options_of_the_original(options);
}

ShuffleOptions shuffle_of(const TrainOptions& o) {
  return {.kind = o.shuffle == Shuffle::kWindow ? ShuffleOptions::Kind::kWindow : ShuffleOptions::Kind::kExact,
          .num_readers = o.num_readers,
          .window = std::int64_t{1024} * o.input_queue_memory_factor};
}

std::string preprocessing_of(const std::string& dataset, const std::string& net, const std::string& preprocessing) {
  if (preprocessing != "auto" || !is_of_records(dataset)) return preprocessing;
  if (net.starts_with("alexnet") || net == "googlenet_2014") return "alexnet";
  if (net.starts_with("vgg")) return "vgg";
  if (net == "torchvision_alexnet" || net == "torchvision_vgg_16") return "torchvision";
  return net.starts_with("googlenet") || net.starts_with("inception") || net.starts_with("resnet") ? "inception"
                                                                                                   : "standard";
}

void apply_launch(TrainOptions& o, const LaunchPlace& place) {
  o.gpus.count = std::max(1, o.num_gpus);
  o.num_launched = place.num_processes;
  if (place.num_processes == 1) return;
  if (o.threads == 0) o.threads = std::max(1, num_hardware_threads() / place.num_sharing);
  o.num_processes = place.num_processes - (o.last_rank_evaluates ? 1 : 0);
  o.trains = place.rank < o.num_processes;
}

int num_threads(const TrainOptions& o) { return o.threads == 0 ? num_hardware_threads() : o.threads; }

int threads_per_worker(const TrainOptions& o) {
  if (o.threads_per_worker != 0) return o.threads_per_worker;
  return o.num_nodes == 1 ? num_threads(o) : 1;
}

TrainDevices devices_of(const TrainOptions& o) { return choose_devices(o.device, o.gpus, o.math); }

CompressedAllReduceOptions exchange_options(const TrainOptions& o, std::uint64_t run_id, int num_threads) {
  CompressedAllReduceOptions result;
  result.codecs.codec = "fp32";
  if (o.encodes_gradients()) {
    result.codecs = codec_plan_options(o);
    result.algorithm = algorithm_of(o).value();
  }
  if (o.exchange == TrainExchange::kVendor) result.vendor_type = vendor_element_type(o.codec_name());
  result.downlink_codec = o.downlink_codec;
  result.on_nonfinite = o.on_nonfinite;
  result.mean_factor = o.mean_factor();
  if (o.chosen_strategy() == TrainStrategy::kParameterServers) result.owners = ShardOwners::kServers;
  result.seed = o.seed;
  result.run_id = run_id;
  result.num_threads = num_threads;
  return result;
}

std::function<std::size_t(std::uint64_t step)> exchange_of_steps(const TrainOptions& o, std::int64_t num_examples) {
  const auto from = static_cast<std::uint64_t>(o.compress_from);
  const auto scaler = static_cast<std::uint64_t>(o.optimizer == "zero_one_adam" ? o.variance_update_scaler : 0);
  return [=, batch_size = o.batch_size, period = o.floating_grad_epoch](std::uint64_t step) {
    const bool is_floating = step < from || (scaler > 0 && is_variance_step(step - from, scaler)) ||
                             (period > 0 && is_floating_step(step, batch_size, num_examples, period));
    return is_floating ? std::size_t{1} : std::size_t{0};
  };
}

CompressedAllReduceOptions floating_exchange_options(const TrainOptions& o, std::uint64_t run_id, int num_threads) {
  CompressedAllReduceOptions result = exchange_options(o, run_id, num_threads);
  result.codecs = {};
  result.codecs.codec = "fp32";
  // fp32 elements do not add up as codes, so integer_sum is not possible.
  if (result.algorithm == ExchangeAlgorithm::kIntegerSum) result.algorithm = ExchangeAlgorithm::kAuto;
  // Nor does their mean return as codes or as few elements; only bfloat16 changes it.
  if (result.downlink_codec != DownlinkCodec::kBfloat16) result.downlink_codec = DownlinkCodec::kFloat32;
  return result;
}

Buckets exchange_buckets(const TrainOptions& o, const Layout& layout, std::span<const int> order, double default_mb) {
  if (!o.splits_gradients()) return whole_bucket(layout);
  // Clamped for the conversion; the upper limit exceeds any layout.
  const double bytes = std::clamp((o.bucket_mb == 0 ? default_mb : o.bucket_mb) * 0x1p20, 1.0, 0x1p60);
  return plan_buckets(layout, order, static_cast<std::int64_t>(bytes));
}

bool overlaps(const TrainOptions& o, int num_ranks) {
  if (o.overlap == Overlap::kOff || !overlap_unsupported_reason(o).empty()) return false;
  return o.overlap == Overlap::kOn || num_ranks > 1;
}

Schedule make_schedule(const TrainOptions& o, std::int64_t num_examples) {
  Schedule schedule;
  schedule.kind = o.learning_rate_decay_type;
  schedule.initial_rate = o.initial_learning_rate;
  schedule.total_steps = o.max_steps;
  schedule.decay_factor = o.learning_rate_decay_factor;
  schedule.boundaries = parse_step_list(o.learning_rate_boundaries);
  schedule.steps_per_decay = steps_per_decay(num_examples, o.batch_size, o.num_epochs_per_decay);
  return schedule;
}

}  // namespace terngrad
