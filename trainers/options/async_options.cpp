#include "trainers/options/async_options.h"

#include <fmt/format.h>

#include "kernels/runtime/errors.h"
#include "trainers/options/codec_choice.h"
#include "trainers/options/option_set.h"

namespace terngrad {

bool is_async(const TrainOptions& o) { return o.strategy == "async"; }

void apply_async_defaults(OptionSet& options, const TrainOptions& o) {
  if (is_async(o)) options.set_default("scaler_sharing", "none");
}

void check_async_options(const OptionSet& options, const TrainOptions& o) {
  if (!is_async(o)) {
    refuse_unused(options, {"async_scale", "max_staleness"}, "--strategy async");
    return;
  }
  if (o.scaler_sharing != "none") {
    TERNGRAD_THROW(UsageError, "--scaler_sharing ", o.scaler_sharing,
                   ": with --strategy async gradients of workers do not come together, so scalers cannot be shared; "
                   "accepted: none");
  }
  for (const ChosenCodec& codec : chosen_codecs(o)) {
    if (codec.codec->traits().votes) {
      TERNGRAD_THROW(
          UsageError, codec.given,
          ": with --strategy async gradients of workers do not come together, so there is no vote; accepted: "
          "reduce=mean");
    }
    if (!shares_scalers(*codec.codec)) continue;
    TERNGRAD_THROW(UsageError, codec.given,
                   ": with --strategy async gradients of workers do not come together, so scalers cannot be shared; "
                   "accepted: sharing=none");
  }
  if (o.exchange != "auto") {
    TERNGRAD_THROW(UsageError, "--exchange ", o.exchange,
                   ": with --strategy async workers push to a server, nothing is exchanged between them; accepted: "
                   "auto");
  }
  if (o.downlink_codec != "fp32" && o.downlink_codec != "bf16") {
    TERNGRAD_THROW(UsageError, "--downlink_codec ", o.downlink_codec,
                   ": is of gradients, --strategy async sends parameters back; accepted with it: fp32, bf16");
  }
  if (o.reduce != "average") {
    TERNGRAD_THROW(UsageError, "--reduce ", o.reduce,
                   ": with --strategy async gradients are applied one by one; for their sum give --async_scale 1");
  }
  if (o.floating_grad_epoch > 0) {
    TERNGRAD_THROW(UsageError, "--floating_grad_epoch ", o.floating_grad_epoch,
                   ": with --strategy async workers are in different epochs at a time; accepted: 0");
  }
  if (o.compress_from > 0) {
    TERNGRAD_THROW(UsageError, "--compress_from ", o.compress_from,
                   ": with --strategy async workers are at different steps at a time; accepted: 0");
  }
  refuse_unused(options, {"check_replicas", "rebroadcast_epochs", "data_shards", "trace_steps"},
                "--strategy replicated or ps");
}

void apply_async_launch(const OptionSet& options, TrainOptions& o) {
  const std::string needs =
      "a run of one process with --strategy async: gradients of other processes come to the server encoded, at times "
      "of "
      "their own";
  if (o.telemetry_steps > 0) refuse_unused(options, {"telemetry_steps"}, needs);
  if (o.histogram_steps > 0) refuse_unused(options, {"histogram_steps"}, needs);
  if (o.profile) refuse_unused(options, {"profile"}, needs);
  refuse_unused(options, {"dump_gradients"}, needs);
  if (o.num_gpus > 1) {
    TERNGRAD_THROW(UsageError, "--num_gpus ", o.num_gpus,
                   ": with --strategy async the workers of one of several processes take turns, on one GPU; "
                   "accepted: 0, 1; for more GPUs give more processes");
  }
  o.telemetry_steps = 0;
  o.histogram_steps = 0;
}

std::string async_settings(const TrainOptions& o) {
  return fmt::format("scale={} max_staleness={} on_nonfinite={} seed={}", async_scale(o), o.max_staleness,
                     o.on_nonfinite, o.seed);
}

float async_scale(const TrainOptions& o) {
  return o.async_scale > 0 ? static_cast<float>(o.async_scale) : 1.0f / static_cast<float>(o.num_nodes);
}

}  // namespace terngrad
