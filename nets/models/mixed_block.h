// The blocks of GoogLeNet.
#pragma once

#include <string>
#include <vector>

#include "nets/layer_spec.h"

namespace terngrad {

/// Numbers of output channels of a block's convolutions, in the order of its branches.
struct MixedBlock {
  const char* name = "";
  int branch0_1x1 = 0;
  int branch1_1x1 = 0;
  int branch1_3x3 = 0;
  int branch2_1x1 = 0;
  int branch2_wide = 0;
  int branch3_1x1 = 0;
};

/// Szegedy et al., "Going Deeper with Convolutions", CVPR 2015, table 1, with the names of TensorFlow's slim.
inline constexpr MixedBlock kMixed3[] = {{"mixed_3b", 64, 96, 128, 16, 32, 32},
                                         {"mixed_3c", 128, 128, 192, 32, 96, 64}};
inline constexpr MixedBlock kMixed4[] = {{"mixed_4b", 192, 96, 208, 16, 48, 64},
                                         {"mixed_4c", 160, 112, 224, 24, 64, 64},
                                         {"mixed_4d", 128, 128, 256, 24, 64, 64},
                                         {"mixed_4e", 112, 144, 288, 32, 64, 64},
                                         {"mixed_4f", 256, 160, 320, 32, 128, 128}};
inline constexpr MixedBlock kMixed5[] = {{"mixed_5b", 256, 160, 320, 32, 128, 128},
                                         {"mixed_5c", 384, 192, 384, 48, 128, 128}};

/// Adds a block on top of the layer `input`: `<block>_branch0_1x1`; `_branch1_1x1` and `_branch1_3x3`;
/// `_branch2_1x1` and a `_branch2_` of `wide` x `wide`; the 3x3 max pool `_branch3_pool` and `_branch3_1x1`; and
/// `<block>`, the concatenation of the branches.
/// @param add_convolution  called with name, outputs, kernel and inputs (see LayerSpec::inputs) to add a convolution,
///                         possibly of several layers; the next layer takes the last one
template <class AddConvolution>
void add_mixed_block(NetSpec& net, const MixedBlock& block, const std::string& input_name, int wide,
                     AddConvolution&& add_convolution) {
  using Names = std::vector<std::string>;
  const Names input = {input_name};
  const std::string branch = std::string(block.name) + "_branch";
  const auto last = [&] { return net.layers.back().name; };
  Names outputs;
  add_convolution(branch + "0_1x1", block.branch0_1x1, 1, input);
  outputs.push_back(last());
  add_convolution(branch + "1_1x1", block.branch1_1x1, 1, input);
  add_convolution(branch + "1_3x3", block.branch1_3x3, 3, Names{});
  outputs.push_back(last());
  add_convolution(branch + "2_1x1", block.branch2_1x1, 1, input);
  add_convolution(branch + "2_" + std::to_string(wide) + "x" + std::to_string(wide), block.branch2_wide, wide, Names{});
  outputs.push_back(last());
  net.layers.push_back({branch + "3_pool", MaxPoolSpec{.window = 3, .stride = 1}, input});
  add_convolution(branch + "3_1x1", block.branch3_1x1, 1, Names{});
  outputs.push_back(last());
  net.layers.push_back({block.name, ConcatenationSpec{}, outputs});
}

}  // namespace terngrad
