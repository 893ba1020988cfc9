#include "nets/models/alexnet.h"

#include <string>
#include <utility>
#include <vector>

#include "nets/models/dropout_head.h"
#include "nets/models/normalized_convolution.h"

namespace terngrad {
namespace {

constexpr const char* kTowers[] = {"_1", "_2"};

void add_tower_convolution(NetSpec& net, const std::string& name, int num_outputs, int kernel, int stride,
                           std::vector<std::string> inputs = {}) {
  add_normalized_convolution(
      net, name,
      {.num_outputs = num_outputs, .kernel = kernel, .stride = stride, .weights = Initializer::truncated_normal(0.01f)},
      {.decay = 0.9997f, .epsilon = 0.001f}, std::move(inputs));
}

void add_overlapping_pool(NetSpec& net, const std::string& name) {
  net.layers.push_back({name, MaxPoolSpec{.window = 3, .stride = 2, .padding = Padding::kValid}});
}

void join_towers(NetSpec& net, const std::string& name, const std::string& layer) {
  net.layers.push_back({name, ConcatenationSpec{}, {layer + kTowers[0], layer + kTowers[1]}});
}

}  // namespace

NetSpec alexnet(float keep_prob) {
  const LrnSpec lrn{.radius = 2, .k = 2, .alpha = 1e-4f, .beta = 0.75f};
  NetSpec net{"alexnet", {}, /*smallest_side=*/57};
  for (const std::string tower : kTowers) {
    add_tower_convolution(net, "conv1" + tower, 48, 11, 4, {kImageInput});
    net.layers.push_back({"lrn1" + tower, lrn});
    add_overlapping_pool(net, "pool1" + tower);
  }
  for (const std::string tower : kTowers) {
    add_tower_convolution(net, "conv2" + tower, 128, 5, 1, {"pool1" + tower});
    net.layers.push_back({"lrn2" + tower, lrn});
    add_overlapping_pool(net, "pool2" + tower);
  }
  join_towers(net, "joined2", "pool2");
  for (const std::string tower : kTowers) add_tower_convolution(net, "conv3" + tower, 192, 3, 1, {"joined2"});
  for (const std::string tower : kTowers) {
    add_tower_convolution(net, "conv4" + tower, 192, 3, 1, {"conv3" + tower + "_norm"});
  }
  for (const std::string tower : kTowers) {
    add_tower_convolution(net, "conv5" + tower, 128, 3, 1, {"conv4" + tower + "_norm"});
    add_overlapping_pool(net, "pool5" + tower);
  }
  join_towers(net, "joined5", "pool5");
  add_dropout_head(net, {.weights = Initializer::truncated_normal(0.005f), .biases = Initializer::constant(0.1f)},
                   Initializer::truncated_normal(0.01f), keep_prob);
  return net;
}

}  // namespace terngrad
