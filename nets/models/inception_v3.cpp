#include "nets/models/inception_v3.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nets/models/normalized_convolution.h"

namespace terngrad {
namespace {

/// A convolution of a branch.
struct BranchStep {
  int num_outputs = 0;
  WindowSize kernel = {};
  int stride = 1;
  Padding padding = Padding::kSame;
};

constexpr BranchStep halving(int num_outputs) { return {num_outputs, 3, 2, Padding::kValid}; }

class InceptionBuilder {
 public:
  InceptionBuilder(const char* name, const std::optional<Initializer>& gamma, bool counts_padding)
      : gamma_(gamma),
        counts_padding_(counts_padding),
        net_{name, {}, /*smallest_side=*/107, {}, /*label_smoothing=*/0.1f} {}

  NetSpec build(float keep_prob) && {
    add_stem();
    add_blocks_35();
    add_blocks_17();
    add_auxiliary_classifier();
    add_blocks_8();
    net_.layers.push_back({"average", AveragePoolSpec{}, {trunk_}});
    net_.layers.push_back({"dropout", DropoutSpec{.keep_prob = keep_prob}});
    net_.layers.push_back({"logits", FullyConnectedSpec{.weights = Initializer::truncated_normal(0.01f)}});
    return std::move(net_);
  }

 private:
  void add_stem() {
    add_convolution("conv0", halving(32), {kImageInput});
    add_convolution("conv1", {32, 3, 1, Padding::kValid});
    add_convolution("conv2", {64, 3});
    add_pool("pool1");
    add_convolution("conv3", {80, 1});
    add_convolution("conv4", {192, 3, 1, Padding::kValid});
    add_pool("pool2");
  }

  void add_blocks_35() {
    const std::pair<const char*, int> blocks[] = {{"mixed_35a", 32}, {"mixed_35b", 64}, {"mixed_35c", 64}};
    for (const auto& [name, pooled] : blocks) {
      begin_block(name);
      add_branch({{64, 1}});
      add_branch({{48, 1}, {64, 5}});
      add_branch({{64, 1}, {96, 3}, {96, 3}});
      add_average_branch(pooled);
      join();
    }
  }

  void add_blocks_17() {
    begin_block("mixed_17a");
    add_branch({halving(384)});
    add_branch({{64, 1}, {96, 3}, halving(96)});
    add_max_branch();
    join();
    const std::pair<const char*, int> blocks[] = {
        {"mixed_17b", 128}, {"mixed_17c", 160}, {"mixed_17d", 160}, {"mixed_17e", 192}};
    const WindowSize row(1, 7);
    const WindowSize column(7, 1);
    for (const auto& [name, narrow] : blocks) {
      begin_block(name);
      add_branch({{192, 1}});
      add_branch({{narrow, 1}, {narrow, row}, {192, column}});
      add_branch({{narrow, 1}, {narrow, column}, {narrow, row}, {narrow, column}, {192, row}});
      add_average_branch(192);
      join();
    }
  }

  void add_blocks_8() {
    begin_block("mixed_8a");
    add_branch({{192, 1}, halving(320)});
    add_branch({{192, 1}, {192, {1, 7}}, {192, {7, 1}}, halving(192)});
    add_max_branch();
    join();
    for (const char* name : {"mixed_8b", "mixed_8c"}) {
      begin_block(name);
      add_branch({{320, 1}});
      add_split_branch({{384, 1}});
      add_split_branch({{448, 1}, {384, 3}});
      add_average_branch(192);
      join();
    }
  }

  /// Its 5x5 average pool with stride 3 maps 17 x 17 to 5 x 5.
  void add_auxiliary_classifier() {
    net_.layers.push_back(
        {"auxiliary_average", AveragePoolSpec{.window = 5, .stride = 3, .padding = Padding::kValid}, {trunk_}});
    add_convolution("auxiliary_1x1", {128, 1});
    const WindowSize whole;  // 0 x 0: as large as the input
    add_convolution("auxiliary_whole", {768, whole}, {}, 0.01f);
    net_.layers.push_back({"auxiliary_logits", FullyConnectedSpec{.weights = Initializer::truncated_normal(0.001f)}});
    net_.auxiliary_losses.push_back({.layer = "auxiliary_logits", .weight = 0.4f});
  }

  void add_convolution(const std::string& name, const BranchStep& step, std::vector<std::string> inputs = {},
                       float stddev = 0.1f) {
    add_normalized_convolution(net_, name,
                               {.num_outputs = step.num_outputs,
                                .kernel = step.kernel,
                                .stride = step.stride,
                                .padding = step.padding,
                                .weights = Initializer::truncated_normal(stddev)},
                               {.decay = 0.9997f, .epsilon = 0.001f, .gamma = gamma_}, std::move(inputs));
  }

  void add_pool(const std::string& name, std::vector<std::string> inputs = {}) {
    net_.layers.push_back({name, MaxPoolSpec{.window = 3, .stride = 2, .padding = Padding::kValid}, std::move(inputs)});
    trunk_ = name;
  }

  void begin_block(const char* name) {
    block_ = name;
    outputs_.clear();
  }

  std::string next_branch() const { return block_ + "_branch" + std::to_string(outputs_.size()) + "_"; }

  /// Adds convolutions one on top of the other, the first on the layer `input`.
  void add_chain(const std::string& branch, const std::vector<BranchStep>& steps, const std::string& input) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      add_convolution(branch + std::to_string(i), steps[i], i == 0 ? std::vector{input} : std::vector<std::string>{});
    }
  }

  void add_branch(const std::vector<BranchStep>& steps) {
    add_chain(next_branch(), steps, trunk_);
    outputs_.push_back(net_.layers.back().name);
  }

  /// A branch that ends in a 1x3 and a 3x1 convolution side by side.
  void add_split_branch(const std::vector<BranchStep>& steps) {
    const std::string branch = next_branch();
    add_chain(branch, steps, trunk_);
    const std::string split = net_.layers.back().name;
    add_convolution(branch + "row", {384, {1, 3}}, {split});
    const std::string row = net_.layers.back().name;
    add_convolution(branch + "column", {384, {3, 1}}, {split});
    net_.layers.push_back({branch + "joined", ConcatenationSpec{}, {row, net_.layers.back().name}});
    outputs_.push_back(branch + "joined");
  }

  void add_average_branch(int num_outputs) {
    const std::string branch = next_branch();
    net_.layers.push_back(
        {branch + "average", AveragePoolSpec{.window = 3, .stride = 1, .counts_padding = counts_padding_}, {trunk_}});
    add_chain(branch, {{num_outputs, 1}}, branch + "average");
    outputs_.push_back(net_.layers.back().name);
  }

  void add_max_branch() {
    const std::string branch = next_branch();
    const std::string trunk = trunk_;
    add_pool(branch + "pool", {trunk});
    outputs_.push_back(branch + "pool");
  }

  void join() {
    net_.layers.push_back({block_, ConcatenationSpec{}, outputs_});
    trunk_ = block_;
  }

  std::optional<Initializer> gamma_;  // of batch norms
  bool counts_padding_;               // of average pools
  NetSpec net_;
  std::string trunk_;                 // input of the next block: the last pool or block
  std::string block_;                 // the current block
  std::vector<std::string> outputs_;  // outputs of its branches
};

}  // namespace

NetSpec inception_v3(float keep_prob) { return InceptionBuilder("inception_v3", std::nullopt, false).build(keep_prob); }

NetSpec torchvision_inception_v3(float keep_prob) {
  return InceptionBuilder("torchvision_inception_v3", Initializer::constant(1), true).build(keep_prob);
}

}  // namespace terngrad
