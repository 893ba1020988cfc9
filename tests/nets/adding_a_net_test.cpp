// The code of docs/adding-a-net.md; also checks that the document shows the same code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/optimizer/optimizer.h"
#include "kernels/runtime/buffer.h"
#include "nets/net.h"
#include "tests/nets/cpu/net_comparison.h"

namespace terngrad::adding_a_net_test {
namespace {

NetSpec two_branches(float keep_prob) {
  const Initializer weights = Initializer::truncated_normal(0.1f);
  const ConvolutionSpec stem{.num_outputs = 8, .kernel = 3, .weights = weights, .biases = std::nullopt};
  const ConvolutionSpec narrow{.num_outputs = 4, .kernel = 1, .activation = Activation::kRelu, .weights = weights};
  const ConvolutionSpec wide{
      .num_outputs = 4, .kernel = 3, .activation = Activation::kRelu, .weights = weights, .groups = 2};
  return {"two_branches",
          {{"stem", stem},  // the first layer takes the image
           {"stem_norm", BatchNormSpec{.activation = Activation::kRelu}},
           {"narrow", narrow},             // a layer takes the one before it
           {"wide", wide, {"stem_norm"}},  // or those it names
           {"joined", ConcatenationSpec{}, {"narrow", "wide"}},
           {"pool", MaxPoolSpec{.window = 2, .stride = 2}},
           {"drop", DropoutSpec{.keep_prob = keep_prob}},
           {"logits", FullyConnectedSpec{.num_outputs = 0, .weights = weights}}}};
}

std::vector<double> train(Net& net, std::span<const float> images, std::span<const std::int32_t> labels, int num_steps,
                          std::span<float> logits) {
  auto parameters = zeros<float>(net.layout().flat_elements());
  auto gradient = zeros<float>(net.layout().flat_elements());
  auto state = zeros<float>(net.state_layout().flat_elements());
  net.initialize(/*seed=*/1, parameters.span());
  net.initialize_state(state.span());
  float* const gradients = gradient.data();  // of one worker
  float* const states = state.data();
  Stream stream(Device::cpu(), /*num_threads=*/1);
  std::vector<double> losses;
  for (int step = 0; step < num_steps; ++step) {
    WorkerLoss loss;
    net.compute_gradients(
        parameters.span(),
        {.images = images, .labels = labels, .step = static_cast<std::uint64_t>(step), .states = {&states, 1}},
        {&gradients, 1}, {&loss, 1});
    update_gd(parameters.span(), gradient.span(), /*learning_rate=*/0.1f, stream);
    losses.push_back(loss.entropy_loss);
  }
  net.predict(parameters.span(), state.span(), images, static_cast<int>(labels.size()), logits);
  return losses;
}

TEST(AddingANet, TheExampleLearnsItsExamples) {
  constexpr ImageShape kImage{8, 8, 1};
  constexpr int kClasses = 4;
  constexpr int kExamples = 12;
  const auto net = make_net(two_branches(/*keep_prob=*/0.9f), kImage, kClasses, {.examples_per_worker = kExamples});
  const auto images = test::random_floats(kExamples * static_cast<std::size_t>(kImage.num_elements()), 1);
  const auto labels = test::cyclic_labels(kExamples, kClasses);
  std::vector<float> logits(kExamples * kClasses);
  const std::vector<double> losses = train(*net, images, labels, 60, logits);
  EXPECT_NEAR(losses.front(), std::log(4.0), 0.5);
  EXPECT_LT(losses.back(), 0.2);
  int num_correct = 0;
  for (std::size_t n = 0; n < kExamples; ++n) {
    const auto row = std::span(logits).subspan(n * kClasses, kClasses);
    num_correct += std::ranges::max_element(row) - row.begin() == labels[n] ? 1 : 0;
  }
  EXPECT_EQ(num_correct, kExamples);
}

TEST(AddingANet, TheExampleMatchesTheReference) {
  test::expect_net_matches_reference(two_branches(/*keep_prob=*/0.9f), {6, 5, 2}, /*num_classes=*/4,
                                     /*num_examples=*/3);
}

std::string text_of(const char* path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(AddingANet, TheDocumentShowsThisCode) {
  const std::string document = text_of("docs/adding-a-net.md");
  const std::string code = text_of("tests/nets/adding_a_net_test.cpp");
  const std::string opening = "```cpp\n";
  int num_blocks = 0;
  for (std::size_t at = document.find(opening); at != std::string::npos; at = document.find(opening, at)) {
    at += opening.size();
    const std::string block = document.substr(at, document.find("```", at) - at);
    EXPECT_NE(code.find(block), std::string::npos) << block;
    ++num_blocks;
  }
  EXPECT_EQ(num_blocks, 4);
}

}  // namespace
}  // namespace terngrad::adding_a_net_test
