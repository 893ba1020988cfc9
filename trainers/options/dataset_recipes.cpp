#include "trainers/options/dataset_recipes.h"

#include <map>
#include <string>
#include <utility>

#include "trainers/command_line/option_set.h"
#include "trainers/options/train_options.h"

namespace terngrad {
namespace {

/// A data set's default net and training recipe (reference: the run scripts of the TernGrad authors' program).
struct Defaults {
  const char* net;
  const char* image_size;
  const char* batch_size;
  const char* max_steps;
  const char* optimizer;
  const char* initial_learning_rate;
  const char* learning_rate_decay_type;
  const char* weight_decay;
  const char* learning_rate_boundaries = "";  // for the schedule `steps`
  const char* preprocessing = "auto";
  const char* ema_decay = "0.9999";
};

const std::map<std::string, Defaults>& dataset_defaults() {
  static const std::map<std::string, Defaults> table = {
      {"cifar10", {"cifar10_alexnet", "24", "128", "300000", "adam", "0.0002", "fixed", "0.004"}},
      {"synthetic", {"lenet", "28", "64", "3000", "momentum", "0.01", "polynomial", "0.0005"}},
      {"synthetic224", {"resnet_18", "224", "64", "1000", "momentum", "0.05", "polynomial", "0.0001", "", "auto", "0"}},
      {"mnist", {"lenet", "28", "64", "10000", "momentum", "0.01", "polynomial", "0.0005"}},
      // The user's own data: these values are only a starting point.
      {"folder", {"lenet", "28", "64", "10000", "momentum", "0.01", "polynomial", "0.0005"}},
      {"npy", {"lenet", "0", "64", "10000", "momentum", "0.01", "polynomial", "0.0005"}},
      {"records", {"lenet", "28", "64", "10000", "momentum", "0.01", "polynomial", "0.0005"}},
      {"flowers", {"lenet", "28", "64", "10000", "momentum", "0.01", "polynomial", "0.0005"}},
      {"imagenet", {"alexnet", "224", "256", "370000", "momentum", "0.01", "exponential", "0.0005"}},
  };
  return table;
}

/// Recipes of nets that differ from that of the data set. Residual nets: on CIFAR-10 as He et al., CVPR 2016, section
/// 4.2; on ImageNet 90 epochs with batch 256, rate / 10 after 30 and 60, as torchvision. GoogLeNet: the TernGrad
/// authors' script, also for Inception v3, which has no script. GoogLeNet of 2014: as Caffe. Residual nets have
/// ema_decay 0: weights averaged over 10,000 steps do not fit their batch-norm statistics, which belong to the newest
/// weights.
const std::map<std::pair<std::string, std::string>, Defaults>& net_defaults() {
  static const std::map<std::pair<std::string, std::string>, Defaults> table = [] {
    std::map<std::pair<std::string, std::string>, Defaults> rows;
    rows[{"imagenet", "googlenet"}] = {"googlenet", "224",  "128",        "600000",
                                       "momentum",  "0.04", "polynomial", "0.00004"};
    rows[{"imagenet", "inception_v3"}] = {"inception_v3", "299",  "128",        "600000",
                                          "momentum",     "0.04", "polynomial", "0.00004"};
    rows[{"imagenet", "googlenet_2014"}] = {"googlenet_2014", "224",  "32",         "2400000",
                                            "momentum",       "0.01", "polynomial", "0.0002"};
    for (const char* net : {"resnet_18", "resnet_50"}) {
      rows[{"imagenet", net}] = {net,     "224",    "256",           "450000", "momentum", "0.1",
                                 "steps", "0.0001", "150000,300000", "auto",   "0"};
    }
    for (const char* net : {"resnet_20", "resnet_56", "resnet_18_cifar"}) {
      rows[{"cifar10", net}] = {net,     "32",     "128",         "64000",  "momentum", "0.1",
                                "steps", "0.0001", "32000,48000", "padded", "0"};
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
  options.set_default("preprocessing", defaults.preprocessing);
  options.set_default("ema_decay", defaults.ema_decay);
  options.set_default("weight_decay", defaults.weight_decay);
}

}  // namespace terngrad
