#include "trainers/run/initial_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

#include "trainers/checkpoint/run_identity.h"
#include "trainers/loop/training_data.h"
#include "trainers/options/async_options.h"
#include "trainers/options/device_choice.h"
#include "trainers/options/train_options.h"
#include "trainers/run/dataset_factory.h"

namespace terngrad {
namespace {

/// The options that enter the codec plan, so that a difference has a name and not only a fingerprint.
void add_codec_options(const TrainOptions& o, CheckpointState& state) {
  state.more["codec"] = o.codec_name();
  state.more["codec_for"] = fmt::format("{}", fmt::join(o.codec_for, ","));
  state.more["clip_factor"] = fmt::format("{}", o.clip_factor);
  state.more["scaler"] = o.scaler;
  state.more["scaler_sharing"] = o.scaler_sharing;
  state.more["clip_scope"] = o.clip_scope;
  state.more["scaler_scope"] = o.scaler_scope;
  state.more["block_size"] = std::to_string(o.block_size);
  state.more["ternary_format"] = o.ternary_format;
  state.more["size_to_binarize"] = std::to_string(o.size_to_binarize);
  state.more["quantize_logits"] = o.quantize_logits ? "true" : "false";
}

}  // namespace

CheckpointState initial_state(const TrainOptions& o, const DeviceChoice& devices, const TrainingData& data,
                              std::uint64_t plan_fingerprint) {
  CheckpointState state;
  state.net = o.net;
  state.dataset = o.benchmark_mode ? o.dataset + kConstantImagesSuffix : o.dataset;
  state.optimizer = o.optimizer;
  state.num_workers = o.num_nodes;
  state.seed = o.seed;
  state.more["batch_size"] = std::to_string(o.batch_size);
  state.more["image_size"] = std::to_string(o.image_size);
  add_codec_options(o, state);
  state.more["exchange_fingerprint"] = std::to_string(plan_fingerprint);
  // All exchanges but the library's own give the same bits.
  state.more["exchange"] = o.exchange == "vendor" ? "vendor" : "any but vendor";
  state.more["num_examples"] = std::to_string(data.num_examples);
  state.more["data_fingerprint"] = data.fingerprint;
  // What else decides the bits of the next step. A run may be made longer, so max_steps may differ: check_max_steps.
  state.more["max_steps"] = std::to_string(o.max_steps);
  if (devices.is_cpu_run()) {
    state.more["threads_per_worker"] = std::to_string(threads_per_worker(o));
  } else {
    state.more["math"] = o.math;
  }
  state.more["initial_learning_rate"] = fmt::format("{}", o.initial_learning_rate);
  state.more["learning_rate_decay_type"] = o.learning_rate_decay_type;
  state.more["num_epochs_per_decay"] = fmt::format("{}", o.num_epochs_per_decay);
  state.more["learning_rate_decay_factor"] = fmt::format("{}", o.learning_rate_decay_factor);
  state.more["momentum"] = fmt::format("{}", o.momentum);
  state.more["weight_decay"] = fmt::format("{}", o.weight_decay);
  state.more["clip_by_global_norm"] = fmt::format("{}", o.clip_by_global_norm);
  state.more["nan_to_zero"] = o.nan_to_zero ? "true" : "false";
  state.more["dropout_keep_prob"] = fmt::format("{}", o.dropout_keep_prob);
  state.more["ema_decay"] = fmt::format("{}", o.ema_decay);
  state.more["return_codec"] = o.return_codec;
  // Parameters that servers update have the same bits as the replicas' own, unless they are rounded on their way.
  state.more["pull"] = o.pulls_parameters() && o.return_codec != "fp32" ? "rounded parameters" : "any";
  state.more["reduce"] = o.reduce;
  state.more["floating_grad_epoch"] = std::to_string(o.floating_grad_epoch);
  state.more["on_nonfinite"] = o.on_nonfinite;
  state.more["strategy"] = is_async(o) ? "async" : kSynchronousStrategies;
  if (is_async(o)) {
    state.more["async_scale"] = fmt::format("{}", async_scale(o));
    state.more["max_staleness"] = std::to_string(o.max_staleness);
  }
  return state;
}

}  // namespace terngrad
