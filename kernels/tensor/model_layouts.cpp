#include "kernels/tensor/model_layouts.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr std::int64_t kImageChannels = 3;
constexpr std::int64_t kImagenetClasses = 1001;

/// A layout that grows layer by layer. A convolution has `side` x `side` kernels.
class LayoutBuilder {
 public:
  Layout take() && { return std::move(layout_); }

  void add_convolution(const std::string& name, std::int64_t side, std::int64_t in, std::int64_t out) {
    layout_.add(name + "/weights", {side, side, in, out});
    layout_.add(name + "/biases", {out});
  }

  /// A convolution whose outputs are normalized: `norm` has an offset for each, and a factor where there is a gamma.
  void add_normalized(const std::string& name, const std::string& norm, std::int64_t side, std::int64_t in,
                      std::int64_t out, bool has_gamma = false) {
    layout_.add(name + "/weights", {side, side, in, out});
    layout_.add(norm + "/beta", {out});
    if (has_gamma) layout_.add(norm + "/gamma", {out});
  }

  void add_normalized(const std::string& name, std::int64_t side, std::int64_t in, std::int64_t out) {
    add_normalized(name, name + "_norm", side, in, out);
  }

  void add_fully_connected(const std::string& name, std::int64_t in, std::int64_t out, bool is_logits = false) {
    layout_.add(name + "/weights", {in, out}, is_logits);
    layout_.add(name + "/biases", {out}, is_logits);
  }

  void add_logits(std::int64_t in, std::int64_t num_classes) { add_fully_connected("logits", in, num_classes, true); }

  /// The two layers of 4096 and the logits that AlexNet and VGG end with.
  void add_large_head(std::int64_t in) {
    add_fully_connected("fc6", in, 4096);
    add_fully_connected("fc7", 4096, 4096);
    add_logits(4096, kImagenetClasses);
  }

 private:
  Layout layout_;
};

Layout lenet() {
  LayoutBuilder layout;
  layout.add_convolution("conv1", 5, 1, 20);
  layout.add_convolution("conv2", 5, 20, 50);
  layout.add_fully_connected("fc3", 2450, 500);
  layout.add_logits(500, 10);
  return std::move(layout).take();
}

/// cifar10_alexnet and cifarnet, whose last pools see images of other sizes.
Layout small_alexnet(std::int64_t pooled_side) {
  LayoutBuilder layout;
  layout.add_convolution("conv1", 5, kImageChannels, 64);
  layout.add_convolution("conv2", 5, 64, 64);
  layout.add_fully_connected("fc3", pooled_side * pooled_side * 64, 384);
  layout.add_fully_connected("fc4", 384, 192);
  layout.add_logits(192, 10);
  return std::move(layout).take();
}

/// Two towers as layers of their own, as the original has them.
Layout alexnet() {
  LayoutBuilder layout;
  struct Shape {
    const char* name;
    std::int64_t side, in, out;
  };
  for (const Shape& shape : {Shape{"conv1", 11, 3, 48}, Shape{"conv2", 5, 48, 128}, Shape{"conv3", 3, 256, 192},
                             Shape{"conv4", 3, 192, 192}, Shape{"conv5", 3, 192, 128}}) {
    for (const char* tower : {"_1", "_2"}) {
      layout.add_normalized(std::string(shape.name) + tower, shape.side, shape.in, shape.out);
    }
  }
  layout.add_large_head(9216);
  return std::move(layout).take();
}

Layout alexnet_v2() {
  LayoutBuilder layout;
  layout.add_convolution("conv1", 11, kImageChannels, 64);
  layout.add_convolution("conv2", 5, 64, 192);
  layout.add_convolution("conv3", 3, 192, 384);
  layout.add_convolution("conv4", 3, 384, 384);
  layout.add_convolution("conv5", 3, 384, 256);
  layout.add_large_head(6400);
  return std::move(layout).take();
}

Layout vgg(const std::array<int, 5>& convolutions_of_blocks) {
  constexpr std::array<std::int64_t, 5> kChannels = {64, 128, 256, 512, 512};
  LayoutBuilder layout;
  std::int64_t in = kImageChannels;
  for (std::size_t block = 0; block < kChannels.size(); ++block) {
    for (int index = 1; index <= convolutions_of_blocks[block]; ++index) {
      layout.add_normalized("conv" + std::to_string(block + 1) + "_" + std::to_string(index), 3, in, kChannels[block]);
      in = kChannels[block];
    }
  }
  layout.add_large_head(25088);
  return std::move(layout).take();
}

Layout googlenet() {
  LayoutBuilder layout;
  layout.add_normalized("conv1", 7, kImageChannels, 64);
  layout.add_normalized("conv2_1x1", 1, 64, 64);
  layout.add_normalized("conv2_3x3", 3, 64, 192);
  struct Block {
    const char* name;
    std::int64_t in, only_1x1, before_3x3, first_3x3, before_second_3x3, second_3x3, after_pool;
  };
  for (const Block& block : {Block{"mixed_3b", 192, 64, 96, 128, 16, 32, 32},
                             {"mixed_3c", 256, 128, 128, 192, 32, 96, 64},
                             {"mixed_4b", 480, 192, 96, 208, 16, 48, 64},
                             {"mixed_4c", 512, 160, 112, 224, 24, 64, 64},
                             {"mixed_4d", 512, 128, 128, 256, 24, 64, 64},
                             {"mixed_4e", 512, 112, 144, 288, 32, 64, 64},
                             {"mixed_4f", 528, 256, 160, 320, 32, 128, 128},
                             {"mixed_5b", 832, 256, 160, 320, 32, 128, 128},
                             {"mixed_5c", 832, 384, 192, 384, 48, 128, 128}}) {
    const std::string name = block.name;
    layout.add_normalized(name + "_branch0_1x1", 1, block.in, block.only_1x1);
    layout.add_normalized(name + "_branch1_1x1", 1, block.in, block.before_3x3);
    layout.add_normalized(name + "_branch1_3x3", 3, block.before_3x3, block.first_3x3);
    layout.add_normalized(name + "_branch2_1x1", 1, block.in, block.before_second_3x3);
    layout.add_normalized(name + "_branch2_3x3", 3, block.before_second_3x3, block.second_3x3);
    layout.add_normalized(name + "_branch3_1x1", 1, block.in, block.after_pool);
  }
  layout.add_logits(1024, kImagenetClasses);
  return std::move(layout).take();
}

/// What residual nets differ in. A unit has two 3x3 convolutions, a bottleneck a 1x1, a 3x3 and a 1x1.
struct ResidualModel {
  std::int64_t stem_side;
  std::int64_t stem_channels;
  std::int64_t first_width;  // of stage 1; each later stage has twice as many
  std::array<int, 4> units_of_stages;
  bool has_bottlenecks;
  bool has_projections;  // a convolution in each shortcut that changes the shape
  std::int64_t num_classes;
};

Layout residual(const ResidualModel& model) {
  LayoutBuilder layout;
  layout.add_normalized("conv1", "norm1", model.stem_side, kImageChannels, model.stem_channels, true);
  std::int64_t in = model.stem_channels;
  std::int64_t width = model.first_width;
  for (std::size_t stage = 0; stage < model.units_of_stages.size(); ++stage, width *= 2) {
    for (int unit = 1; unit <= model.units_of_stages[stage]; ++unit) {
      const std::string name = "stage" + std::to_string(stage + 1) + "_unit" + std::to_string(unit);
      const auto add = [&](const char* index, std::int64_t side, std::int64_t from, std::int64_t to) {
        layout.add_normalized(name + "_conv" + index, name + "_norm" + index, side, from, to, true);
      };
      const std::int64_t out = model.has_bottlenecks ? 4 * width : width;
      add("1", model.has_bottlenecks ? 1 : 3, in, width);
      add("2", 3, width, width);
      if (model.has_bottlenecks) add("3", 1, width, out);
      if (model.has_projections && in != out) {
        layout.add_normalized(name + "_shortcut", name + "_shortcut_norm", 1, in, out, true);
      }
      in = out;
    }
  }
  layout.add_logits(in, model.num_classes);
  return std::move(layout).take();
}

struct NamedLayout {
  const char* name;
  Layout (*layout)();
};

constexpr std::array kLayouts = {
    NamedLayout{"lenet", lenet},
    NamedLayout{"cifar10_alexnet", [] { return small_alexnet(6); }},
    NamedLayout{"alexnet", alexnet},
    NamedLayout{"vgg_a",
                [] {
                  return vgg({1, 1, 2, 2, 2});
                }},
    NamedLayout{"alexnet_v2", alexnet_v2},
    NamedLayout{"cifarnet", [] { return small_alexnet(8); }},
    NamedLayout{"googlenet", googlenet},
    NamedLayout{"resnet_18",
                [] {
                  return residual({7, 64, 64, {2, 2, 2, 2}, false, true, kImagenetClasses});
                }},
    NamedLayout{"resnet_18_cifar",
                [] {
                  return residual({3, 64, 64, {2, 2, 2, 2}, false, true, 10});
                }},
    NamedLayout{"resnet_20",
                [] {
                  return residual({3, 16, 16, {3, 3, 3, 0}, false, false, 10});
                }},
    NamedLayout{"resnet_50",
                [] {
                  return residual({7, 64, 64, {3, 4, 6, 3}, true, true, kImagenetClasses});
                }},
    NamedLayout{"resnet_56",
                [] {
                  return residual({3, 16, 16, {9, 9, 9, 0}, false, false, 10});
                }},
    NamedLayout{"vgg_16",
                [] {
                  return vgg({2, 2, 3, 3, 3});
                }},
};

}  // namespace

Layout model_layout(const std::string& name) {
  const auto* const model = std::ranges::find(kLayouts, name, &NamedLayout::name);
  if (model == kLayouts.end()) TERNGRAD_THROW(InvalidArgument, "[model_layout] no layout is called '", name, "'");
  return model->layout();
}

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    all.reserve(kLayouts.size());
    for (const NamedLayout& model : kLayouts) all.emplace_back(model.name);
    return all;
  }();
  return names;
}

}  // namespace terngrad
