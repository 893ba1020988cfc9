#include "trainers/options/train_option_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string>

#include "datasets/dataset.h"
#include "nets/net.h"
#include "trainers/checkpoint/run_identity.h"
#include "trainers/command_line/option_set.h"
#include "trainers/command_line/step_list.h"
#include "trainers/optim/optimizer.h"
#include "trainers/options/choice_words.h"
#include "trainers/options/train_conditions.h"
#include "trainers/options/train_options.h"

namespace terngrad {
namespace {

bool has_boundaries(const TrainOptions& o) { return o.learning_rate_decay_type == ScheduleKind::kSteps; }

}  // namespace

void declare_model_options(OptionSet& options, TrainOptions& o) {
  options.group("Model and optimization (defaults are the data set's, or of it and the net)");
  options.add("net", &o.net, "network", one_of(net_names()))
      .original("same: the nets of [training.md](training.md#nets)");
  options
      .add("image_size", &o.image_size, "height and width of the net's input; 0: the data set's own", in_range(0, 1024))
      .original("same; 0: the data set's own (`folder` has none)");
  options
      .add("preprocessing", &o.preprocessing,
           "how images become the net's input: auto is the data set's own, padded (of cifar10) crops at random of the "
           "image with a border of 4, flips, and subtracts mean and divides by deviation of the set; the others are of "
           "records, and auto there is the one that goes with --net",
           one_of(preprocessing_names()))
      .identity({.value = [&o] { return preprocessing_of(o.dataset, o.net, o.preprocessing); }})
      .needs(data_that_is_read(o));
  add_choice(options, "augment", &o.augment,
             "whether training images are cropped, flipped and distorted at random; off: read as those for testing")
      .needs(
          "a --dataset that is read and augmented",
          [&o] { return o.augment != Augment::kOff || (!o.benchmark_mode && can_augment(o.dataset)); },
          [&o] { return o.dataset + (o.benchmark_mode ? " is not read" : " is never augmented"); });
  options
      .add("label_offset", &o.label_offset,
           "added to the labels of records: -1 trains ImageNet with 1000 classes instead of the original's 1001",
           in_range(-1048575, 1048575))
      .needs("--dataset imagenet, flowers or records", [&o] { return reads_records(o); });
  options.add("batch_size", &o.batch_size, "examples per step of all workers together", in_range(1, 2147483647))
      .original("same: examples per step of all workers together; must divide by `num_nodes`");
  options.add("max_steps", &o.max_steps, "steps to train; 0: evaluate and save the start", at_least(0))
      .identity({.is_same = [](const std::string&, const std::string&) { return true; }})
      .original("same; 0 evaluates and saves the start");
  options
      .add("optimizer", &o.optimizer,
           "update rule; adam follows --learning_rate_decay_type like the others (the original's adam is always "
           "fixed); onebit_adam and zero_one_adam send Adam's directions in steps that compress",
           one_of(optimizer_names()))
      .original(
          "same: `momentum`, `adam`, `gd`, `rmsprop` with the original's constants, and `nadam`; and `onebit_adam`, "
          "`zero_one_adam` ([codecs](codecs.md#adam-compressed-directions)). Adam's bias correction is right; the "
          "original's advances once for each worker in a step");
  options
      .add("initial_learning_rate", &o.initial_learning_rate, "learning rate of the first step",
           also_as_fp32(greater_than(0)))
      .original("same");
  options
      .add("variance_update_scaler", &o.variance_update_scaler,
           "zero_one_adam updates its variance in steps that exchange fp32, the first at --compress_from; the interval "
           "between them doubles after every this many updates",
           at_least(1))
      .needs("--optimizer zero_one_adam", [&o] { return o.optimizer == "zero_one_adam"; });
  options.add("momentum", &o.momentum, "of the optimizers momentum and rmsprop", also_as_fp32(from_up_to(0, 1)))
      .needs("--optimizer momentum or rmsprop", [&o] { return o.optimizer == "momentum" || o.optimizer == "rmsprop"; })
      .original("same");
  add_choice(options, "learning_rate_decay_type", &o.learning_rate_decay_type, "schedule")
      .original(
          "same: `fixed`, `exponential` (a staircase), `polynomial` (power 0.5); and `steps`, below. Adam follows it "
          "like the others; the original's adam is always fixed");
  options
      .add("num_epochs_per_decay", &o.num_epochs_per_decay, "epochs per stair of the exponential schedule",
           greater_than(0))
      .needs("--learning_rate_decay_type exponential",
             [&o] { return o.learning_rate_decay_type == ScheduleKind::kExponential; })
      .original("same");
  options
      .add("learning_rate_decay_factor", &o.learning_rate_decay_factor,
           "factor per stair of the schedules exponential and steps", greater_than(0))
      .needs("--learning_rate_decay_type exponential or steps",
             [&o] { return o.learning_rate_decay_type == ScheduleKind::kExponential || has_boundaries(o); })
      .original("same");
  options
      .add("learning_rate_boundaries", &o.learning_rate_boundaries,
           "steps from which on the schedule `steps` has its next stair, as PyTorch's milestones: 100,200,500 or "
           "FIRST:LAST:STRIDE",
           step_list_from(1))
      .identity({.value =
                     [&o] {
                       return has_boundaries(o)
                                  ? std::optional(
                                        fmt::format("{}", fmt::join(parse_step_list(o.learning_rate_boundaries), ",")))
                                  : std::nullopt;
                     }})
      .needs("--learning_rate_decay_type steps", [&o] { return has_boundaries(o); });
  options
      .add("weight_decay", &o.weight_decay, "factor of the L2 penalty, inside the gradient before compression",
           also_as_fp32(at_least(0)))
      .original("same: inside the gradient, before compression");
  options.add("clip_by_global_norm", &o.clip_by_global_norm,
              "scale each worker's gradient, weight decay included, down to this norm; 0: no such clipping",
              also_as_fp32(at_least(0)));
  options.add_flag(
      "nan_to_zero", &o.nan_to_zero,
      "NaN and infinite elements of a worker's gradient become 0 before anything else; metrics count them");
  options.add("ema_decay", &o.ema_decay, "decay of the moving average of the weights, which evaluation uses",
              also_as_fp32(from_up_to(0, 1)));
  options
      .add("dropout_keep_prob", &o.dropout_keep_prob, "fraction that dropout keeps, in nets that have dropout",
           also_as_fp32(number_where("above 0, at most 1", [](double p) { return p > 0 && p <= 1; })))
      .needs(
          "a --net with dropout", [&o] { return has_dropout(net_spec(o.net)); }, [&o] { return o.net + " has none"; })
      .original("same; refused for a net without dropout");
  options
      .add("freeze", &o.freeze,
           "PATTERN of the names of tensors (* and ?) that keep their values: their gradients are not exchanged; "
           "repeatable")
      .identity({.value = [&o] { return std::optional(fmt::format("{}", fmt::join(o.freeze, ","))); },
                 .is_same = [](const std::string& ours,
                               const std::string& recorded) { return ours.empty() && recorded == kNotRecorded; }})
      .needs(
          "--strategy replicated, or ps with --pull gradient: of async and --pull parameters servers update all "
          "tensors",
          [&o] { return !is_async(o) && !o.pulls_parameters(); })
      .needs("another --scaler_scope than model, whose scaler takes all tensors", [&o] { return is_per_tensor(o); });
  options
      .add("freeze_until", &o.freeze_until, "0-based step from which on frozen tensors are trained; 0: none is",
           at_least(0))
      .identity({.is_same = [](const std::string& ours,
                               const std::string& recorded) { return ours == "0" && recorded == kNotRecorded; }})
      .needs("--freeze", [&o] { return !o.freeze.empty(); });
}

}  // namespace terngrad
