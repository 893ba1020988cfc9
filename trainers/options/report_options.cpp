#include "trainers/options/train_option_groups.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "trainers/command_line/option_set.h"
#include "trainers/command_line/step_list.h"
#include "trainers/loop/trace.h"
#include "trainers/options/async_options.h"
#include "trainers/options/choice_words.h"
#include "trainers/options/train_conditions.h"
#include "trainers/options/train_options.h"

namespace terngrad {
namespace {

/// Need of options that report gradients. @param is_on  returns true if the option reports gradients
OptionNeed gradients_of_this_process(const TrainOptions& o, std::function<bool()> is_on) {
  return {
      "one process, where --strategy is async: gradients of others come to the server encoded, at times of their own",
      [&o, is_on = std::move(is_on)] { return !is_on() || !is_async(o) || o.num_processes == 1; }};
}

}  // namespace

void declare_report_options(OptionSet& options, TrainOptions& o) {
  options.group("Reports");
  options.add("log_steps", &o.log_steps, "steps per line of metrics and log", at_least(1)).role(OptionRole::kReport);
  options.add_flag("profile", &o.profile, "print at the end how the time of a step is split")
      .role(OptionRole::kReport)
      .needs(steps(o))
      .needs("--device cpu: the parts of a step are not timed on GPUs, where a step is one launch",
             [&o] { return !o.profile || !o.trains || computes_on_cpu(o) || o.exchanges_on_host(); })
      .needs(gradients_of_this_process(o, [&o] { return o.profile; }));
  options
      .add("trace_steps", &o.trace_steps,
           "steps, after the first 3, of which trace.json says what each process did when (Chrome's trace format); 0: "
           "none",
           at_least(0))
      .role(OptionRole::kReport)
      .needs("--device cpu: a step on a GPU is one launch, whose parts its own tools show",
             [&o] { return !o.trains || computes_on_cpu(o) || o.exchanges_on_host(); })
      .needs(synchronous_strategy(o))
      .needs(
          "a --max_steps beyond the steps before it begins",
          [&o] { return o.max_steps > static_cast<std::int64_t>(Trace::kWarmUpSteps); },
          [&o] {
            return "it begins after " + std::to_string(Trace::kWarmUpSteps) + " steps, --max_steps is " +
                   std::to_string(o.max_steps);
          });
  options
      .add("dump_messages", &o.dump_messages,
           "new folder for every message of gradients that the processes send in the first steps, each a file; "
           "scripts/read_messages.py decodes them")
      .role(OptionRole::kReport)
      .needs(
          "exchanges that send messages", [&o] { return dump_unsupported_reason(o).empty(); },
          [&o] { return "they need " + dump_unsupported_reason(o); })
      .needs(steps(o));
  options.add("dump_steps", &o.dump_steps, "steps of --dump_messages", at_least(1))
      .role(OptionRole::kReport)
      .needs("--dump_messages with the name of a folder", [&o] { return !o.dump_messages.empty(); });
  options
      .add("dump_gradients", &o.dump_gradients,
           "steps per file of all workers' gradients, in the run directory's gradients/, for terngrad_codec; 0: none",
           at_least(0))
      .role(OptionRole::kReport)
      .needs(gradients_of_this_process(o, [&o] { return o.dump_gradients > 0; }))
      .needs(
          "at least as many --max_steps", [&o] { return o.dump_gradients <= o.max_steps; },
          [&o] { return "--max_steps is " + std::to_string(o.max_steps); });
  options
      .add("telemetry_steps", &o.telemetry_steps, "steps per record of what compression did to each tensor; 0: none",
           at_least(0))
      .role(OptionRole::kReport)
      .needs(gradients_of_this_process(o, [&o] { return o.telemetry_steps > 0; }));
  options.add_flag("tensorboard", &o.tensorboard, "write the metrics to TensorBoard event files too")
      .role(OptionRole::kReport);
  options
      .add("histogram_steps", &o.histogram_steps,
           "steps per histograms of weights, gradients and activations, in histograms.jsonl and event files; 0: none",
           at_least(0))
      .role(OptionRole::kReport)
      .needs(gradients_of_this_process(o, [&o] { return o.histogram_steps > 0; }));
  options.add("eval_steps", &o.eval_steps, "steps per evaluation on the test set; 0: at the end only", at_least(0))
      .role(OptionRole::kReport)
      .needs(data_that_is_read(o))
      .needs(own_evaluation(o));
  options
      .add("eval_at", &o.eval_at,
           "steps of further evaluations on the test set: 0,100,200,500 or FIRST:LAST:STRIDE or FIRST:LAST:*FACTOR; "
           "0: before the first step",
           step_list_from(0))
      .role(OptionRole::kReport)
      .needs(data_that_is_read(o))
      .needs(own_evaluation(o));
  options.add("save_iter", &o.save_iter, "steps per checkpoint; one is always saved at the end", at_least(1))
      .role(OptionRole::kReport)
      .original("same, default 1000; a run also ends with a checkpoint");
  options.add("keep_checkpoints", &o.keep_checkpoints, "newest checkpoints to keep; 0: all", at_least(0))
      .role(OptionRole::kReport);
  add_choice(options, "on_save_error", &o.on_save_error,
             "when a checkpoint cannot be written: stop, or continue and try again at the next")
      .role(OptionRole::kReport);
}

}  // namespace terngrad
