// ConvolutionPlan: a convolution as an operation graph of cuDNN, and the engine chosen to run it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nets/cuda/convolution_pass.h"
#include "nets/cuda/cudnn_graph.h"

namespace terngrad::cuda {

/// Tensor ids in a plan.
enum class ConvolutionTensor : std::int64_t { kImages = 1, kFilters = 2, kOutputs = 3 };

/// The GPU that engines are chosen for: that of a handle, or without a GPU one described by a descriptor of type
/// CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR (cuDNN 9.8), whose plans can be created but not run.
struct GraphTarget {
  cudnnHandle_t handle = nullptr;
  const GraphDescriptor* device = nullptr;
};

/// An engine and its settings, as numbers that are valid for all graphs of one operation.
struct EngineChoice {
  struct Knob {
    cudnnBackendKnobType_t type;
    std::int64_t value;
    friend bool operator==(const Knob&, const Knob&) = default;
  };
  std::int64_t engine = 0;
  std::vector<Knob> knobs;
  friend bool operator==(const EngineChoice&, const EngineChoice&) = default;
};

/// A finalized plan with the engine that runs it.
struct ConvolutionPlan {
  EngineChoice choice;
  std::vector<cudnnBackendNumericalNote_t> notes;
  GraphDescriptor execution_plan;
  std::int64_t workspace_bytes = 0;
};

/// Graph of one operation, with the operands and result of ConvolutionPass.
GraphDescriptor convolution_graph(ConvolutionDirection direction, const ConvolutionShape& shape,
                                  const GraphTarget& target);

/// True if an engine with these numerical notes may be used.
bool is_admissible(const std::vector<cudnnBackendNumericalNote_t>& notes, MathMode math);

/// The first admissible engine, in the order of cuDNN's heuristic and then of its fallbacks, that can be finalized.
/// @param refusals  appended to: reasons why earlier engines failed, for an error message
std::optional<ConvolutionPlan> choose_plan(const GraphDescriptor& graph, MathMode math, const GraphTarget& target,
                                           std::string& refusals);

/// A plan with the engine chosen for another graph of the same operation; none if the engine cannot do it.
std::optional<ConvolutionPlan> repeat_plan(const GraphDescriptor& graph, const EngineChoice& choice,
                                           const GraphTarget& target);

}  // namespace terngrad::cuda
