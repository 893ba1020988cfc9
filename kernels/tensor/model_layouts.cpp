#include "kernels/tensor/model_layouts.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

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

/// Channels into a block of GoogLeNet, and out of its convolutions.
struct MixedBlock {
  const char* name;
  std::int64_t in, only_1x1, before_3x3, first_3x3, before_wide, wide, after_pool;
};

constexpr std::array kMixedBlocks = {
    MixedBlock{"mixed_3b", 192, 64, 96, 128, 16, 32, 32},     MixedBlock{"mixed_3c", 256, 128, 128, 192, 32, 96, 64},
    MixedBlock{"mixed_4b", 480, 192, 96, 208, 16, 48, 64},    MixedBlock{"mixed_4c", 512, 160, 112, 224, 24, 64, 64},
    MixedBlock{"mixed_4d", 512, 128, 128, 256, 24, 64, 64},   MixedBlock{"mixed_4e", 512, 112, 144, 288, 32, 64, 64},
    MixedBlock{"mixed_4f", 528, 256, 160, 320, 32, 128, 128}, MixedBlock{"mixed_5b", 832, 256, 160, 320, 32, 128, 128},
    MixedBlock{"mixed_5c", 832, 384, 192, 384, 48, 128, 128}};

/// add(name, side, in, out) adds one of its convolutions.
template <class Add>
void add_mixed_block(const MixedBlock& block, std::int64_t wide_side, Add&& add) {
  const std::string branch = std::string(block.name) + "_branch";
  add(branch + "0_1x1", 1, block.in, block.only_1x1);
  add(branch + "1_1x1", 1, block.in, block.before_3x3);
  add(branch + "1_3x3", 3, block.before_3x3, block.first_3x3);
  add(branch + "2_1x1", 1, block.in, block.before_wide);
  const std::string side = std::to_string(wide_side);
  add(branch + "2_" + side + "x" + side, wide_side, block.before_wide, block.wide);
  add(branch + "3_1x1", 1, block.in, block.after_pool);
}

Layout googlenet() {
  LayoutBuilder layout;
  const auto add = [&](const std::string& name, std::int64_t side, std::int64_t in, std::int64_t out) {
    layout.add_normalized(name, side, in, out);
  };
  add("conv1", 7, kImageChannels, 64);
  add("conv2_1x1", 1, 64, 64);
  add("conv2_3x3", 3, 64, 192);
  for (const MixedBlock& block : kMixedBlocks) add_mixed_block(block, 3, add);
  layout.add_logits(1024, kImagenetClasses);
  return std::move(layout).take();
}

/// With its two auxiliary classifiers.
Layout googlenet_2014() {
  LayoutBuilder layout;
  const auto add = [&](const std::string& name, std::int64_t side, std::int64_t in, std::int64_t out) {
    layout.add_convolution(name, side, in, out);
  };
  const auto add_classifier = [&](const std::string& name, std::int64_t in) {
    add(name + "_1x1", 1, in, 128);
    layout.add_fully_connected(name + "_fc", 2048, 1024);
    layout.add_fully_connected(name + "_logits", 1024, kImagenetClasses);
  };
  add("conv1", 7, kImageChannels, 64);
  add("conv2_1x1", 1, 64, 64);
  add("conv2_3x3", 3, 64, 192);
  for (const MixedBlock& block : kMixedBlocks) {
    add_mixed_block(block, 5, add);
    if (block.name == std::string("mixed_4b")) add_classifier("auxiliary1", 512);
    if (block.name == std::string("mixed_4e")) add_classifier("auxiliary2", 528);
  }
  layout.add_logits(1024, kImagenetClasses);
  return std::move(layout).take();
}

/// With its auxiliary classifier, for images of 299 x 299.
class InceptionV3Layout {
 public:
  Layout build() && {
    add("conv0", 3, 3, kImageChannels, 32);
    add("conv1", 3, 3, 32, 32);
    add("conv2", 3, 3, 32, 64);
    add("conv3", 1, 1, 64, 80);
    add("conv4", 3, 3, 80, 192);
    for (const auto& [name, in, pooled] :
         {Block{"mixed_35a", 192, 32}, {"mixed_35b", 256, 64}, {"mixed_35c", 288, 64}}) {
      branch(name, 0, in, {{64, 1, 1}});
      branch(name, 1, in, {{48, 1, 1}, {64, 5, 5}});
      branch(name, 2, in, {{64, 1, 1}, {96, 3, 3}, {96, 3, 3}});
      branch(name, 3, in, {{pooled, 1, 1}});
    }
    branch("mixed_17a", 0, 288, {{384, 3, 3}});
    branch("mixed_17a", 1, 288, {{64, 1, 1}, {96, 3, 3}, {96, 3, 3}});
    for (const auto& [name, in, narrow] :
         {Block{"mixed_17b", 768, 128}, {"mixed_17c", 768, 160}, {"mixed_17d", 768, 160}, {"mixed_17e", 768, 192}}) {
      branch(name, 0, in, {{192, 1, 1}});
      branch(name, 1, in, {{narrow, 1, 1}, {narrow, 1, 7}, {192, 7, 1}});
      branch(name, 2, in, {{narrow, 1, 1}, {narrow, 7, 1}, {narrow, 1, 7}, {narrow, 7, 1}, {192, 1, 7}});
      branch(name, 3, in, {{192, 1, 1}});
    }
    add("auxiliary_1x1", 1, 1, 768, 128);
    add("auxiliary_whole", 5, 5, 128, 768);
    layout_.add("auxiliary_logits/weights", {768, kImagenetClasses});
    layout_.add("auxiliary_logits/biases", {kImagenetClasses});
    branch("mixed_8a", 0, 768, {{192, 1, 1}, {320, 3, 3}});
    branch("mixed_8a", 1, 768, {{192, 1, 1}, {192, 1, 7}, {192, 7, 1}, {192, 3, 3}});
    for (const auto& [name, in, split] : {Block{"mixed_8b", 1280, 384}, {"mixed_8c", 2048, 384}}) {
      branch(name, 0, in, {{320, 1, 1}});
      branch(name, 1, in, {{split, 1, 1}});
      add_split(std::string(name) + "_branch1_", split);
      branch(name, 2, in, {{448, 1, 1}, {split, 3, 3}});
      add_split(std::string(name) + "_branch2_", split);
      branch(name, 3, in, {{192, 1, 1}});
    }
    layout_.add("logits/weights", {2048, kImagenetClasses}, true);
    layout_.add("logits/biases", {kImagenetClasses}, true);
    return std::move(layout_);
  }

 private:
  struct Block {
    const char* name;
    std::int64_t in;
    std::int64_t own;  // the number of channels in which blocks of a size differ
  };
  struct Step {
    std::int64_t out, rows, columns;
  };

  void add(const std::string& name, std::int64_t rows, std::int64_t columns, std::int64_t in, std::int64_t out) {
    layout_.add(name + "/weights", {rows, columns, in, out});
    layout_.add(name + "_norm/beta", {out});
  }

  void branch(const std::string& block, int index, std::int64_t in, const std::vector<Step>& steps) {
    const std::string name = block + "_branch" + std::to_string(index) + "_";
    for (std::size_t i = 0; i < steps.size(); ++i) {
      add(name + std::to_string(i), steps[i].rows, steps[i].columns, in, steps[i].out);
      in = steps[i].out;
    }
  }

  /// A row and a column side by side.
  void add_split(const std::string& branch, std::int64_t channels) {
    add(branch + "row", 1, 3, channels, channels);
    add(branch + "column", 3, 1, channels, channels);
  }

  Layout layout_;
};

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
    NamedLayout{"googlenet_2014", googlenet_2014},
    NamedLayout{"inception_v3", [] { return InceptionV3Layout().build(); }},
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
