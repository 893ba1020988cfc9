#include "nets/cpu/layer.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "nets/lenet.h"

namespace terngrad::cpu {
namespace {

TEST(Layer, EveryKindRefusesBackwardInInferenceMode) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  Scratchpad scratchpad;
  const DnnlContext context{engine, dnnl::stream(engine), &scratchpad};
  const NetPlan plan = plan_net(lenet(), {8, 8, 1}, 10);
  for (const LayerPlan& layer_plan : plan.layers) {
    const auto layer = make_layer(context, layer_plan, plan.layout, {.num_examples = 1, .mode = Mode::kInference});
    EXPECT_THROW(layer->backward({}), std::logic_error) << layer_plan.name;
  }
}

}  // namespace
}  // namespace terngrad::cpu
