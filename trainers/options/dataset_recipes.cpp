#include "trainers/options/dataset_recipes.h"

#include <map>
#include <string>
#include <utility>

#include "trainers/command_line/option_set.h"
#include "trainers/options/train_options.h"

namespace terngrad {
namespace {

/// A data set's default net and training recipe; what a row leaves out is MNIST's, which is also the starting point for
/// data of the user's own.
struct Defaults {
  const char* net = "lenet";
  const char* image_size = "28";
  const char* batch_size = "64";
  const char* max_steps = "10000";
  const char* optimizer = "momentum";
  const char* initial_learning_rate = "0.01";
  const char* learning_rate_decay_type = "polynomial";
  const char* learning_rate_boundaries = "";  // for the schedule `steps`
  const char* num_epochs_per_decay = "20";    // for the schedule `exponential`
  const char* learning_rate_decay_factor = "0.1";
  const char* weight_decay = "0.0005";
  const char* dropout_keep_prob = "0.5";
  const char* preprocessing = "auto";
  const char* ema_decay = "0.9999";
};

/// The run scripts of the TernGrad authors' program: LeNet, CIFAR-10, and AlexNet with two workers
/// (deprecated/run_multi_gpus.sh). flowers: fine-tuning of Inception v3, the README of TensorFlow's models/inception.
const std::map<std::string, Defaults>& dataset_defaults() {
  static const std::map<std::string, Defaults> table = {
      {"cifar10",
       {.net = "cifar10_alexnet",
        .image_size = "24",
        .batch_size = "128",
        .max_steps = "300000",
        .optimizer = "adam",
        .initial_learning_rate = "0.0002",
        .learning_rate_decay_type = "fixed",
        .weight_decay = "0.004"}},
      {"synthetic", {.max_steps = "3000"}},
      {"synthetic224",
       {.net = "resnet_18",
        .image_size = "224",
        .max_steps = "1000",
        .initial_learning_rate = "0.05",
        .weight_decay = "0.0001",
        .ema_decay = "0"}},
      {"mnist", {}},
      {"folder", {}},
      {"npy", {.image_size = "0"}},
      {"records", {}},
      {"flowers",
       {.net = "inception_v3",
        .image_size = "299",
        .batch_size = "32",
        .max_steps = "2000",
        .optimizer = "rmsprop",
        .initial_learning_rate = "0.001",
        .learning_rate_decay_type = "exponential",
        .num_epochs_per_decay = "30",
        .learning_rate_decay_factor = "0.16",
        .weight_decay = "0.00004",
        .dropout_keep_prob = "0.8"}},
      {"imagenet",
       {.net = "alexnet",
        .image_size = "224",
        .batch_size = "256",
        .max_steps = "370000",
        .learning_rate_decay_type = "exponential"}},
  };
  return table;
}

/// Recipes of nets that differ from that of the data set. Residual nets: on CIFAR-10 as He et al., CVPR 2016, section
/// 4.2; on ImageNet 90 epochs with batch 256, rate / 10 after 30 and 60, as torchvision. They have ema_decay 0: weights
/// averaged over 10,000 steps do not fit their batch-norm statistics, which belong to the newest weights. GoogLeNet:
/// the TernGrad authors' script (run_multi_gpus_googlenet_quick.sh). GoogLeNet of 2014: as Caffe. Inception v3: rate,
/// decay and optimizer of TensorFlow's models/inception, whose trainer the original began with, for 100 epochs of batch
/// 256 (Szegedy et al., CVPR 2016, section 8).
const std::map<std::pair<std::string, std::string>, Defaults>& net_defaults() {
  static const std::map<std::pair<std::string, std::string>, Defaults> table = [] {
    std::map<std::pair<std::string, std::string>, Defaults> rows;
    rows[{"imagenet", "googlenet"}] = {.net = "googlenet",
                                       .image_size = "224",
                                       .batch_size = "128",
                                       .max_steps = "600000",
                                       .initial_learning_rate = "0.04",
                                       .weight_decay = "0.00004",
                                       .dropout_keep_prob = "0.8"};
    rows[{"imagenet", "inception_v3"}] = {.net = "inception_v3",
                                          .image_size = "299",
                                          .batch_size = "256",
                                          .max_steps = "500000",
                                          .optimizer = "rmsprop",
                                          .initial_learning_rate = "0.1",
                                          .learning_rate_decay_type = "exponential",
                                          .num_epochs_per_decay = "30",
                                          .learning_rate_decay_factor = "0.16",
                                          .weight_decay = "0.00004",
                                          .dropout_keep_prob = "0.8"};
    rows[{"imagenet", "googlenet_2014"}] = {.net = "googlenet_2014",
                                            .image_size = "224",
                                            .batch_size = "32",
                                            .max_steps = "2400000",
                                            .weight_decay = "0.0002"};
    for (const char* net : {"resnet_18", "resnet_50"}) {
      rows[{"imagenet", net}] = {.net = net,
                                 .image_size = "224",
                                 .batch_size = "256",
                                 .max_steps = "450000",
                                 .initial_learning_rate = "0.1",
                                 .learning_rate_decay_type = "steps",
                                 .learning_rate_boundaries = "150000,300000",
                                 .weight_decay = "0.0001",
                                 .ema_decay = "0"};
    }
    for (const char* net : {"resnet_20", "resnet_56", "resnet_18_cifar"}) {
      rows[{"cifar10", net}] = {.net = net,
                                .image_size = "32",
                                .batch_size = "128",
                                .max_steps = "64000",
                                .initial_learning_rate = "0.1",
                                .learning_rate_decay_type = "steps",
                                .learning_rate_boundaries = "32000,48000",
                                .weight_decay = "0.0001",
                                .preprocessing = "padded",
                                .ema_decay = "0"};
    }
    return rows;
  }();
  return table;
}

}  // namespace

void apply_dataset_defaults(OptionSet& options, const TrainOptions& o) {
  const Defaults& of_dataset = dataset_defaults().at(o.dataset);
  options.set_default("net", of_dataset.net);
  const auto of_net = net_defaults().find({o.dataset, o.net});
  const Defaults& defaults = of_net == net_defaults().end() ? of_dataset : of_net->second;
  options.set_default("image_size", defaults.image_size);
  options.set_default("batch_size", defaults.batch_size);
  options.set_default("max_steps", defaults.max_steps);
  options.set_default("optimizer", defaults.optimizer);
  options.set_default("initial_learning_rate", defaults.initial_learning_rate);
  options.set_default("learning_rate_decay_type", defaults.learning_rate_decay_type);
  options.set_default("learning_rate_boundaries", defaults.learning_rate_boundaries);
  options.set_default("num_epochs_per_decay", defaults.num_epochs_per_decay);
  options.set_default("learning_rate_decay_factor", defaults.learning_rate_decay_factor);
  options.set_default("dropout_keep_prob", defaults.dropout_keep_prob);
  options.set_default("preprocessing", defaults.preprocessing);
  options.set_default("ema_decay", defaults.ema_decay);
  options.set_default("weight_decay", defaults.weight_decay);
}

}  // namespace terngrad
