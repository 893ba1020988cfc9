#include "nets/cuda/layer.h"

#include <variant>

namespace terngrad::cuda {
namespace {

struct LayerFactory {
  const LayerContext& context;
  const LayerPlan& plan;
  const NetPlan& net;
  const LayerOptions& options;

  std::unique_ptr<Layer> operator()(const ConvolutionSpec&) const {
    return make_convolution(context, plan, net.layout, options);
  }
  std::unique_ptr<Layer> operator()(const FullyConnectedSpec&) const {
    return make_fully_connected(context, plan, net.layout, options);
  }
  std::unique_ptr<Layer> operator()(const MaxPoolSpec&) const { return make_max_pool(context, plan, options); }
  std::unique_ptr<Layer> operator()(const AveragePoolSpec&) const { return make_average_pool(context, plan, options); }
  std::unique_ptr<Layer> operator()(const LrnSpec&) const { return make_lrn(context, plan, options); }
  std::unique_ptr<Layer> operator()(const ConcatenationSpec&) const {
    return make_concatenation(context, plan, options);
  }
  std::unique_ptr<Layer> operator()(const AddSpec&) const { return make_add(context, plan, options); }
  std::unique_ptr<Layer> operator()(const PadChannelsSpec&) const { return make_pad_channels(context, plan, options); }
  std::unique_ptr<Layer> operator()(const DropoutSpec&) const { return make_dropout(context, plan, options); }
  std::unique_ptr<Layer> operator()(const BatchNormSpec&) const { return make_batch_norm(context, plan, net, options); }
};

}  // namespace

std::unique_ptr<Layer> make_layer(const LayerContext& context, const LayerPlan& plan, const NetPlan& net,
                                  const LayerOptions& options) {
  return std::visit(LayerFactory{context, plan, net, options}, plan.operation);
}

}  // namespace terngrad::cuda
