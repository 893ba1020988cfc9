#include "nets/cpu/relu.h"

namespace terngrad::cpu {

dnnl::primitive_attr relu_attributes() {
  dnnl::post_ops operations;
  operations.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
  dnnl::primitive_attr attributes = default_attributes();
  attributes.set_post_ops(operations);
  return attributes;
}

ReluGradient::ReluGradient(const DnnlContext& context, const std::string& name, const dnnl::memory::desc& desc) {
  constexpr auto kAlgorithm = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;
  const dnnl::eltwise_forward::primitive_desc forward({dnnl::prop_kind::forward_training, kAlgorithm, desc, 0.0f, 0.0f},
                                                      default_attributes(), context.engine);
  const dnnl::eltwise_backward::primitive_desc backward({kAlgorithm, desc, desc, 0.0f, 0.0f}, default_attributes(),
                                                        context.engine, forward);
  operation_ = {context,
                name + " ReLU gradient",
                dnnl::eltwise_backward(backward),
                backward.scratchpad_desc(),
                {{DNNL_ARG_DST, desc}, {DNNL_ARG_DIFF_DST, desc}, {DNNL_ARG_DIFF_SRC, desc}}};
}

void ReluGradient::run(const float* output, float* gradient) {
  operation_.bind(DNNL_ARG_DST, output);
  operation_.bind(DNNL_ARG_DIFF_DST, gradient);
  operation_.bind(DNNL_ARG_DIFF_SRC, gradient);
  operation_.run();
}

}  // namespace terngrad::cpu
