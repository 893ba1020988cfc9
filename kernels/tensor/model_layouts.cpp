#include "kernels/tensor/model_layouts.h"

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// A convolution of side x side x in weights with a bias (or, with batch normalization, an offset) per output.
void add_convolution(Layout& layout, const std::string& name, std::int64_t side, std::int64_t in, std::int64_t out) {
  layout.add(name + "/weights", {side, side, in, out});
  layout.add(name + "/biases", {out});
}

void add_fully_connected(Layout& layout, const std::string& name, std::int64_t in, std::int64_t out,
                         bool is_logits = false) {
  layout.add(name + "/weights", {in, out}, is_logits);
  layout.add(name + "/biases", {out}, is_logits);
}

Layout lenet() {
  Layout layout;
  add_convolution(layout, "conv1", 5, 1, 20);
  add_convolution(layout, "conv2", 5, 20, 50);
  add_fully_connected(layout, "fc3", 2450, 500);
  add_fully_connected(layout, "logits", 500, 10, true);
  return layout;
}

Layout cifar10_alexnet() {
  Layout layout;
  add_convolution(layout, "conv1", 5, 3, 64);
  add_convolution(layout, "conv2", 5, 64, 64);
  add_fully_connected(layout, "fc3", 2304, 384);
  add_fully_connected(layout, "fc4", 384, 192);
  add_fully_connected(layout, "logits", 192, 10, true);
  return layout;
}

/// Two groups as layers of their own, as the original has them.
Layout alexnet() {
  Layout layout;
  struct Shape {
    const char* name;
    std::int64_t side, in, out;
  };
  for (const Shape& shape : {Shape{"conv1", 11, 3, 48}, Shape{"conv2", 5, 48, 128}, Shape{"conv3", 3, 256, 192},
                             Shape{"conv4", 3, 192, 192}, Shape{"conv5", 3, 192, 128}}) {
    for (const char* group : {"_1", "_2"}) {
      add_convolution(layout, std::string(shape.name) + group, shape.side, shape.in, shape.out);
    }
  }
  add_fully_connected(layout, "fc6", 9216, 4096);
  add_fully_connected(layout, "fc7", 4096, 4096);
  add_fully_connected(layout, "logits", 4096, 1001, true);
  return layout;
}

Layout vgg_a() {
  Layout layout;
  std::int64_t in = 3;
  int index = 0;
  for (const std::int64_t out : {64, 128, 256, 256, 512, 512, 512, 512}) {
    add_convolution(layout, "conv" + std::to_string(++index), 3, in, out);
    in = out;
  }
  add_fully_connected(layout, "fc6", 25088, 4096);
  add_fully_connected(layout, "fc7", 4096, 4096);
  add_fully_connected(layout, "logits", 4096, 1001, true);
  return layout;
}

}  // namespace

Layout model_layout(const std::string& name) {
  if (name == "lenet") return lenet();
  if (name == "cifar10_alexnet") return cifar10_alexnet();
  if (name == "alexnet") return alexnet();
  if (name == "vgg_a") return vgg_a();
  TERNGRAD_THROW(InvalidArgument, "[model_layout] no layout is called '", name, "'");
}

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = {"lenet", "cifar10_alexnet", "alexnet", "vgg_a"};
  return names;
}

}  // namespace terngrad
