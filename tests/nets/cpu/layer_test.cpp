#include "nets/cpu/layer.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <variant>

#include "nets/net_plan.h"

namespace terngrad::cpu::layer_test {
namespace {

TEST(Layer, EveryKindRefusesBackwardInInferenceMode) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  Scratchpad scratchpad;
  const DnnlContext context{engine, dnnl::stream(engine), &scratchpad};
  const NetSpec every_kind{
      "every_kind",
      {{"convolution", ConvolutionSpec{.num_outputs = 4, .kernel = 3, .weights = {}, .biases = {}}},
       {"max_pool", MaxPoolSpec{.window = 2, .stride = 2}},
       {"average_pool", AveragePoolSpec{.window = 2, .stride = 2}},
       {"lrn", LrnSpec{.radius = 2}},
       {"batch_norm", BatchNormSpec{}},
       {"dropout", DropoutSpec{}},
       {"concatenation", ConcatenationSpec{}},
       {"add", AddSpec{}, {"concatenation", "dropout"}},
       {"pad_channels", PadChannelsSpec{.num_outputs = 5}},
       {"fully_connected", FullyConnectedSpec{.weights = {}, .biases = {}}}}};
  static_assert(std::variant_size_v<decltype(LayerSpec::operation)> == 10, "a kind of layer is missing above");
  const NetPlan plan = plan_net(every_kind, {8, 8, 1}, 10);
  for (const LayerPlan& layer_plan : plan.layers) {
    const auto layer = make_layer(context, layer_plan, plan, {.num_examples = 1, .mode = Mode::kInference});
    EXPECT_THROW(layer->backward({}), std::logic_error) << layer_plan.name;
  }
}

}  // namespace
}  // namespace terngrad::cpu::layer_test
