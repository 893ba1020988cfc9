#include "nets/visit_outputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/nets/auxiliary_net.h"
#include "tests/nets/branched_net.h"
#include "tests/nets/reference_net.h"

namespace terngrad::cpu_visit_outputs_test {
namespace {

constexpr ImageShape kImage{9, 8, 4};
constexpr int kClasses = 5;
constexpr int kExamples = 3;

struct Evaluated {
  std::unique_ptr<Net> net;
  std::vector<float> parameters;
  std::vector<float> state;
  std::vector<float> images = test::random_floats(static_cast<std::size_t>(kExamples * kImage.num_elements()), 5);
  std::vector<std::string> layers;
  std::map<std::string, std::vector<float>> outputs;

  explicit Evaluated(const NetSpec& spec) : net(make_net(spec, kImage, kClasses, {})) {
    parameters.resize(static_cast<std::size_t>(net->layout().flat_elements()));
    state.resize(static_cast<std::size_t>(net->state_layout().flat_elements()));
    net->initialize(1, parameters);
    net->initialize_state(state);
  }
  void visit() {
    net->visit_outputs(parameters, state, images, kExamples, [&](const std::string& layer, auto output) {
      layers.push_back(layer);
      outputs[layer].assign(output.begin(), output.end());
    });
  }
};

TEST(VisitOutputs, EndWithTheLogitsOfPredict) {
  Evaluated evaluated(test::branched_net(0.6f));
  evaluated.visit();
  std::vector<float> logits(kExamples * kClasses);
  evaluated.net->predict(evaluated.parameters, evaluated.state, evaluated.images, kExamples, logits);
  const std::vector<float>& last = evaluated.outputs[evaluated.layers.back()];
  ASSERT_EQ(last.size(), logits.size());
  // Sums over slices of another size may differ in their order.
  for (std::size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(last[i], logits[i], 1e-6) << i;
}

TEST(VisitOutputs, AreThoseOfTheLayersOfInference) {
  const NetSpec spec = test::net_of_three_losses(0.6f);
  Evaluated evaluated(spec);
  evaluated.visit();
  EXPECT_EQ(evaluated.layers, (std::vector<std::string>{"stem", "pool", "middle", "top", "logits"}));
  const std::vector<float>& stem = evaluated.outputs["stem"];
  EXPECT_EQ(stem.size(), static_cast<std::size_t>(kExamples * 9 * 8 * 4));
  EXPECT_GE(std::ranges::min(stem), 0);
  EXPECT_GT(std::ranges::count(stem, 0.0f), 0);
  // A max pool of 2 x 2 windows of the first image's first channel.
  float largest = 0;
  for (const std::size_t pixel : {0u, 1u, 8u, 9u}) largest = std::max(largest, stem[4 * pixel]);
  EXPECT_EQ(evaluated.outputs["pool"][0], largest);
}

TEST(VisitOutputs, RefuseSpansOfOtherSizes) {
  Evaluated evaluated(test::branched_net(1));
  evaluated.images.pop_back();
  EXPECT_THROW(evaluated.visit(), InvalidArgument);
  EXPECT_THROW(evaluated.net->visit_outputs(evaluated.parameters, evaluated.state, {}, 0, {}), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cpu_visit_outputs_test
