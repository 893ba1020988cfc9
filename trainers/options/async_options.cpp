#include "trainers/options/async_options.h"

#include <fmt/format.h>

#include "kernels/runtime/errors.h"
#include "trainers/command_line/option_set.h"
#include "trainers/options/choice_words.h"
#include "trainers/options/chosen_codecs.h"

namespace terngrad {

void apply_async_defaults(OptionSet& options, const TrainOptions& o) {
  if (is_async(o)) options.set_default("scaler_sharing", "none");
}

void check_async_options(const TrainOptions& o) {
  if (!is_async(o)) return;
  if (o.scaler_sharing != "none") {
    TERNGRAD_THROW(UsageError, "--scaler_sharing ", o.scaler_sharing,
                   ": with --strategy async gradients of workers do not come together, so scalers cannot be shared; "
                   "accepted: none");
  }
}

void apply_async_launch(TrainOptions& o) {
  if (!is_async(o) || o.num_processes == 1) return;
  o.telemetry_steps = 0;
  o.histogram_steps = 0;
}

std::string async_settings(const TrainOptions& o) {
  return fmt::format("scale={} max_staleness={} on_nonfinite={} seed={}", async_scale(o), o.max_staleness,
                     word_of(o.on_nonfinite), o.seed);
}

float async_scale(const TrainOptions& o) {
  return o.async_scale > 0 ? static_cast<float>(o.async_scale) : 1.0f / static_cast<float>(o.num_nodes);
}

}  // namespace terngrad
