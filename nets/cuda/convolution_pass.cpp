#include "nets/cuda/convolution_pass.h"

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "kernels/runtime/device_guard.h"
#include "kernels/runtime/errors.h"
#include "nets/cuda/convolution_plan.h"
#include "nets/cuda/library_handles.h"

namespace terngrad::cuda {
namespace {

using Tensors = std::array<ConvolutionTensor, 3>;

/// The tensors that run()'s operands and result are.
Tensors tensors_of(ConvolutionDirection direction) {
  switch (direction) {
    case ConvolutionDirection::kForward:
      return {ConvolutionTensor::kImages, ConvolutionTensor::kFilters, ConvolutionTensor::kOutputs};
    case ConvolutionDirection::kInputGradient:
      return {ConvolutionTensor::kOutputs, ConvolutionTensor::kFilters, ConvolutionTensor::kImages};
    case ConvolutionDirection::kFilterGradient:
      break;
  }
  return {ConvolutionTensor::kImages, ConvolutionTensor::kOutputs, ConvolutionTensor::kFilters};
}

}  // namespace

struct ConvolutionPass::Plan {
  ConvolutionPlan convolution;
};

ConvolutionPass::ConvolutionPass(const Libraries& libraries, ConvolutionDirection direction,
                                 const ConvolutionShape& shape, MathMode math)
    : libraries_(libraries), direction_(direction), shape_(shape) {
  require_shape(direction, shape);
  const DeviceGuard guard(libraries.stream().device());
  const GraphTarget target{.handle = libraries.handles().cudnn};
  std::string refusals;
  std::optional<ConvolutionPlan> plan =
      choose_plan(convolution_graph(direction, shape, target), math, target, refusals);
  if (!plan) {
    TERNGRAD_THROW(NotSupported, "[ConvolutionPass] cuDNN ", cudnnGetVersion(), " has no deterministic engine in ",
                   math == MathMode::kTf32 ? "TF32" : "float32", " for the ", to_text(direction, shape), ": ",
                   refusals);
  }
  plan_ = std::make_shared<const Plan>(Plan{std::move(*plan)});
}

ConvolutionPass::ConvolutionPass(const Libraries& libraries, ConvolutionDirection direction,
                                 const ConvolutionShape& shape, std::shared_ptr<const Plan> plan)
    : libraries_(libraries), direction_(direction), shape_(shape), plan_(std::move(plan)) {}

std::unique_ptr<ConvolutionPass> ConvolutionPass::with_examples(int num_examples) const {
  ConvolutionShape shape = shape_;
  shape.num_examples = num_examples;
  require_shape(direction_, shape);
  const DeviceGuard guard(libraries_.stream().device());
  const GraphTarget target{.handle = libraries_.handles().cudnn};
  std::optional<ConvolutionPlan> plan =
      repeat_plan(convolution_graph(direction_, shape, target), plan_->convolution.choice, target);
  if (!plan) return nullptr;
  return std::unique_ptr<ConvolutionPass>(
      new ConvolutionPass(libraries_, direction_, shape, std::make_shared<const Plan>(Plan{std::move(*plan)})));
}

std::int64_t ConvolutionPass::workspace_bytes() const { return plan_->convolution.workspace_bytes; }

void ConvolutionPass::run(const float* first, const float* second, float* result, void* workspace,
                          const Stream& stream) const {
  const DeviceGuard guard(libraries_.stream().device());
  std::array<std::int64_t, 3> ids{};
  const Tensors tensors = tensors_of(direction_);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(tensors[i]);
  // cuDNN's interface takes no pointers to const; operands are only read.
  const std::array<void*, 3> pointers = {const_cast<float*>(first), const_cast<float*>(second), result};

  // Created for each run, which takes the host 0.3 us.
  GraphDescriptor arguments(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  arguments.set_array<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  arguments.set_array<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers);
  arguments.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  arguments.finalize();
  const cudnnHandle_t handle = libraries_.handles().cudnn;
  cudnnStatus_t status = cudnnSetStream(handle, native_stream(stream));
  if (status == CUDNN_STATUS_SUCCESS) {
    status = cudnnBackendExecute(handle, plan_->convolution.execution_plan.native(), arguments.native());
  }
  if (status != CUDNN_STATUS_SUCCESS) {
    TERNGRAD_THROW(DeviceError, "[ConvolutionPass] the ", to_text(direction_, shape_),
                   " failed: ", describe_cudnn_error(status));
  }
}

}  // namespace terngrad::cuda
