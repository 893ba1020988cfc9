#include "nets/cuda/convolution_plan.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad::cuda {
namespace {

using Extents = std::array<std::int64_t, 4>;

/// A float32 tensor with dimensions in cuDNN's order N, C, H, W (filters: outputs, inputs, rows, columns) and memory in
/// the order N, H, W, C.
GraphDescriptor tensor(ConvolutionTensor id, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w,
                       int alignment) {
  GraphDescriptor descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, static_cast<std::int64_t>(id));
  descriptor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  descriptor.set_array<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, Extents{n, c, h, w});
  descriptor.set_array<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES, Extents{h * w * c, 1, w * c, c});
  descriptor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{alignment});
  descriptor.finalize();
  return descriptor;
}

GraphDescriptor image_tensor(ConvolutionTensor id, int num_examples, const ImageShape& shape, int alignment) {
  return tensor(id, num_examples, shape.channels, shape.height, shape.width, alignment);
}

GraphDescriptor geometry(const ConvolutionShape& shape) {
  using Pair = std::array<std::int64_t, 2>;
  const ImagePadding& padding = shape.padding;
  GraphDescriptor descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  descriptor.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  descriptor.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2});
  descriptor.set_array<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Pair{padding.top, padding.left});
  descriptor.set_array<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, Pair{padding.bottom, padding.right});
  descriptor.set_array<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Pair{shape.stride, shape.stride});
  descriptor.set_array<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, Pair{1, 1});
  descriptor.finalize();
  return descriptor;
}

/// cuDNN's names of an operation and its attributes.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t geometry, images, filters, outputs, alpha, beta;
};

OperationNames names_of(ConvolutionDirection direction) {
  switch (direction) {
    case ConvolutionDirection::kForward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvolutionDirection::kInputGradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvolutionDirection::kFilterGradient:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

std::vector<cudnnBackendNumericalNote_t> notes_of(const GraphDescriptor& engine) {
  return engine.get_array<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                       CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
}

GraphDescriptor engine_of(const GraphDescriptor& config) {
  std::vector<GraphDescriptor> engines =
      config.get_descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  return std::move(engines.front());
}

EngineChoice choice_of(const GraphDescriptor& config, const GraphDescriptor& engine) {
  EngineChoice choice{.engine = engine.get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX), .knobs = {}};
  for (const GraphDescriptor& knob : config.get_descriptors(
           CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS)) {
    choice.knobs.push_back({knob.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE),
                            knob.get<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE)});
  }
  return choice;
}

/// Engine configurations of cuDNN's heuristic `mode`, best first.
std::vector<GraphDescriptor> offered_configs(const GraphDescriptor& graph, cudnnBackendHeurMode_t mode,
                                             const GraphTarget& target) {
  GraphDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (target.device != nullptr) heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.device);
  // A mode that has no suggestion for a shape fails; the other mode may have one.
  if (heuristic.try_finalize() != CUDNN_STATUS_SUCCESS) return {};
  const std::int64_t count = heuristic.num_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS);
  if (count == 0) return {};
  return heuristic.get_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, count);
}

/// Finalizes the plan of an engine. @returns nothing, with the reason, if that fails
std::optional<GraphDescriptor> make_ready(const GraphDescriptor& config, const GraphTarget& target,
                                          std::string& refusal) {
  GraphDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (target.handle != nullptr) plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
  if (target.device != nullptr) plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.device);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  const cudnnStatus_t status = plan.try_finalize();
  if (status == CUDNN_STATUS_SUCCESS) return plan;
  refusal = describe_cudnn_error(status);
  // Failures of this host or moment must not decide which engine is taken: a host that lacks NVRTC or a part of cuDNN
  // would silently compute other bits than the others. The engines chosen for the nets here are precompiled and need
  // neither.
  const bool is_of_host = status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                          status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
                          status == CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED ||
                          status == CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING ||
                          status == CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE ||
                          status == CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED;
  if (is_of_host) TERNGRAD_THROW(DeviceError, "[ConvolutionPass] an engine cannot be made ready: ", refusal);
  return std::nullopt;
}

ConvolutionPlan make_plan(EngineChoice choice, const GraphDescriptor& engine, GraphDescriptor execution_plan) {
  const auto workspace_bytes = execution_plan.get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  return {.choice = std::move(choice),
          .notes = notes_of(engine),
          .execution_plan = std::move(execution_plan),
          .workspace_bytes = workspace_bytes};
}

}  // namespace

GraphDescriptor convolution_graph(ConvolutionDirection direction, const ConvolutionShape& shape,
                                  const GraphTarget& target) {
  const OperationNames names = names_of(direction);
  GraphDescriptor operation(names.type);
  operation.set(names.geometry, geometry(shape));
  operation.set(names.images,
                image_tensor(ConvolutionTensor::kImages, shape.num_examples, shape.input, shape.alignment));
  operation.set(names.filters,
                tensor(ConvolutionTensor::kFilters, shape.output.channels, shape.input.channels / shape.groups,
                       shape.kernel.height, shape.kernel.width, shape.alignment));
  operation.set(names.outputs,
                image_tensor(ConvolutionTensor::kOutputs, shape.num_examples, shape.output, shape.alignment));
  operation.set(names.alpha, 1.0f);
  operation.set(names.beta, 0.0f);
  operation.finalize();

  GraphDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (target.handle != nullptr) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  graph.finalize();
  return graph;
}

bool is_admissible(const std::vector<cudnnBackendNumericalNote_t>& notes, MathMode math) {
  return std::none_of(notes.begin(), notes.end(), [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        // Tensor cores round float32 factors to TF32.
        return math == MathMode::kFp32;
      case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
        return false;
      default:
        // Rejected: nondeterminism; factors rounded to half precision; partial sums in less than float32; transforms
        // (FFT, Winograd), which have other errors than sums of products and spread nonfinite values over neighbours;
        // and unknown notes of later cuDNN versions.
        return true;
    }
  });
}

std::optional<ConvolutionPlan> choose_plan(const GraphDescriptor& graph, MathMode math, const GraphTarget& target,
                                           std::string& refusals) {
  int num_offered = 0;
  int num_inadmissible = 0;
  std::string last_failure;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const GraphDescriptor& config : offered_configs(graph, mode, target)) {
      ++num_offered;
      const GraphDescriptor engine = engine_of(config);
      if (!is_admissible(notes_of(engine), math)) {
        ++num_inadmissible;
        continue;
      }
      std::optional<GraphDescriptor> ready = make_ready(config, target, last_failure);
      if (ready) return make_plan(choice_of(config, engine), engine, std::move(*ready));
    }
  }
  std::ostringstream text;
  text << num_offered << " engines offered, of which " << num_inadmissible
       << " are not deterministic or less precise than asked for";
  if (!last_failure.empty()) text << "; the last of the others: " << last_failure;
  refusals += text.str();
  return std::nullopt;
}

std::optional<ConvolutionPlan> repeat_plan(const GraphDescriptor& graph, const EngineChoice& choice,
                                           const GraphTarget& target) {
  GraphDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
  engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, choice.engine);
  if (target.device != nullptr) engine.set(CUDNN_ATTR_ENGINE_DEVICEPROP, *target.device);
  if (engine.try_finalize() != CUDNN_STATUS_SUCCESS) return std::nullopt;

  std::vector<GraphDescriptor> knobs;
  for (const EngineChoice::Knob& knob : choice.knobs) {
    GraphDescriptor& descriptor = knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    descriptor.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, knob.type);
    descriptor.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, knob.value);
    descriptor.finalize();
  }
  GraphDescriptor config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  config.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  // The engine may lack this setting for this graph.
  if (!knobs.empty() && config.try_set_array(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, knobs) != CUDNN_STATUS_SUCCESS) {
    return std::nullopt;
  }
  if (config.try_finalize() != CUDNN_STATUS_SUCCESS) return std::nullopt;

  std::string refusal;
  std::optional<GraphDescriptor> ready = make_ready(config, target, refusal);
  if (!ready) return std::nullopt;
  return make_plan(choice, engine, std::move(*ready));
}

}  // namespace terngrad::cuda
