#include "trainers/run/initial_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "compress/codecs/ternary_codec.h"
#include "compress/plan/codec_registry.h"
#include "trainers/checkpoint/run_identity.h"
#include "trainers/loop/training_data.h"
#include "trainers/options/async_options.h"
#include "trainers/options/codec_choice.h"
#include "trainers/options/device_choice.h"
#include "trainers/options/memory_choice.h"
#include "trainers/options/step_list.h"
#include "trainers/options/train_options.h"
#include "trainers/run/dataset_factory.h"

namespace terngrad {
namespace {

/// The rules, with all values where one has some of its own. A codec's name alone stays as it always was.
std::string codec_rules_text(const TrainOptions& o) {
  std::vector<std::string> rules;
  for (const std::string& text : o.codec_for) {
    const CodecRule rule = parse_codec_rule(text);
    const bool is_name = parse_codec_spec(rule.codec).options.empty();
    rules.push_back(is_name ? text : rule.pattern + "=" + to_string(canonical_codec_spec(rule.codec)));
  }
  return fmt::format("{}", fmt::join(rules, ","));
}

/// The options with long names of ternary's keys, as they stand for the codec of tensors that no rule names if that is
/// ternary, however its options were given.
TrainOptions with_keys_of_spec(TrainOptions o) {
  if (o.codec_name() != "ternary") return o;
  const ChosenCodec codec = chosen_codecs(o).front();
  const TernaryOptions& made = dynamic_cast<const TernaryCodec&>(*codec.codec).options();
  o.clip_factor = made.clip_factor;
  o.block_size = made.block_elements;
  o.scaler = codec.value("scaler");
  o.scaler_sharing = codec.value("sharing");
  o.clip_scope = codec.value("clip_scope");
  o.scaler_scope = codec.value("scope");
  o.ternary_format = codec.value("format");
  return o;
}

/// The options that enter the codec plan, so that a difference has a name and not only a fingerprint.
void add_codec_options(const TrainOptions& given, CheckpointState& state) {
  const TrainOptions o = with_keys_of_spec(given);
  state.extra_metadata["codec"] = o.codec_name();
  state.extra_metadata["codec_spec"] = o.codec_name() == "fp16" ? "fp16" : to_string(chosen_codecs(o).front().spec);
  state.extra_metadata["codec_for"] = codec_rules_text(given);
  const SpecOptions keys = ternary_defaults(o);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    state.extra_metadata[kTernaryKeyOptions[i].option] = keys[i].second;
  }
  state.extra_metadata["size_to_binarize"] = std::to_string(o.size_to_binarize);
  state.extra_metadata["quantize_logits"] = o.quantize_logits ? "true" : "false";
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
  state.extra_metadata["batch_size"] = std::to_string(o.batch_size);
  state.extra_metadata["image_size"] = std::to_string(o.image_size);
  const std::string preprocessing = preprocessing_of(o.dataset, o.net, o.preprocessing);
  if (preprocessing != "auto") state.extra_metadata["preprocessing"] = preprocessing;
  if (o.shuffle == "window") {
    state.extra_metadata["shuffle"] = o.shuffle;
    state.extra_metadata["num_readers"] = std::to_string(o.num_readers);
    state.extra_metadata["input_queue_memory_factor"] = std::to_string(o.input_queue_memory_factor);
  }
  if (o.augment == "off") state.extra_metadata["augment"] = o.augment;
  if (o.label_offset != 0) state.extra_metadata["label_offset"] = std::to_string(o.label_offset);
  add_codec_options(o, state);
  state.extra_metadata["exchange_fingerprint"] = std::to_string(plan_fingerprint);
  // All exchanges but the library's own give the same bits.
  state.extra_metadata["exchange"] = o.exchange == "vendor" ? "vendor" : "any but vendor";
  state.extra_metadata["num_examples"] = std::to_string(data.num_examples);
  state.extra_metadata["data_fingerprint"] = data.fingerprint;
  // What else decides the bits of the next step. A run may be made longer, so max_steps may differ: check_max_steps.
  state.extra_metadata["max_steps"] = std::to_string(o.max_steps);
  if (devices.is_cpu_run()) {
    state.extra_metadata["threads_per_worker"] = std::to_string(threads_per_worker(o));
  } else {
    state.extra_metadata["math"] = o.math;
  }
  state.extra_metadata["initial_learning_rate"] = fmt::format("{}", o.initial_learning_rate);
  state.extra_metadata["learning_rate_decay_type"] = o.learning_rate_decay_type;
  state.extra_metadata["num_epochs_per_decay"] = fmt::format("{}", o.num_epochs_per_decay);
  state.extra_metadata["learning_rate_decay_factor"] = fmt::format("{}", o.learning_rate_decay_factor);
  // Of this schedule alone, so that other runs keep the identity that versions before gave them.
  if (o.learning_rate_decay_type == "steps") {
    state.extra_metadata["learning_rate_boundaries"] =
        fmt::format("{}", fmt::join(parse_step_list(o.learning_rate_boundaries), ","));
  }
  state.extra_metadata["momentum"] = fmt::format("{}", o.momentum);
  state.extra_metadata["weight_decay"] = fmt::format("{}", o.weight_decay);
  state.extra_metadata["clip_by_global_norm"] = fmt::format("{}", o.clip_by_global_norm);
  state.extra_metadata["nan_to_zero"] = o.nan_to_zero ? "true" : "false";
  state.extra_metadata["dropout_keep_prob"] = fmt::format("{}", o.dropout_keep_prob);
  state.extra_metadata["ema_decay"] = fmt::format("{}", o.ema_decay);
  state.extra_metadata["return_codec"] = o.downlink_codec;
  // Parameters that servers update have the same bits as the replicas' own, unless they are rounded on their way.
  state.extra_metadata["pull"] = o.pulls_parameters() && o.downlink_codec != "fp32" ? "rounded parameters" : "any";
  state.extra_metadata["reduce"] = o.reduce;
  state.extra_metadata["floating_grad_epoch"] = std::to_string(o.floating_grad_epoch);
  state.extra_metadata["codec_memory"] = memory_spec(o);
  state.extra_metadata["compress_from"] = std::to_string(o.compress_from);
  state.extra_metadata["on_nonfinite"] = o.on_nonfinite;
  state.extra_metadata["strategy"] = is_async(o) ? "async" : kSynchronousStrategies;
  if (is_async(o)) {
    state.extra_metadata["async_scale"] = fmt::format("{}", async_scale(o));
    state.extra_metadata["max_staleness"] = std::to_string(o.max_staleness);
  }
  return state;
}

}  // namespace terngrad
