// Engines that convolutions get on described GPUs; needs the cuDNN library but no GPU.
#include "nets/cuda/convolution_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <variant>

#include "nets/models/cifar10_alexnet.h"
#include "nets/models/lenet.h"

namespace terngrad::cuda::convolution_plan_test {
namespace {

/// Properties of a GPU, in the format in which cuDNN serializes them.
struct GpuModel {
  const char* name;
  int compute_capability;  // times 100
  int multiprocessors;
  int shared_memory;  // maximum per block, beyond the default 48 KiB
};
constexpr GpuModel kA100{"NVIDIA A100-SXM4-80GB", 800, 108, 166912};
constexpr GpuModel kH200{"NVIDIA H200", 900, 132, 232448};

GraphDescriptor described(const GpuModel& gpu) {
  const std::string json =
      R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"warpSize":32,)"
      R"("maxSharedMemoryPerBlock":49152,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
      R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
      R"("supportCoopLaunch":1,"totalGlobalMem":80000000000,"smClockRateKHz":1410000,"memClockRateKHz":1593000,)"
      R"("l2CacheSize":41943040,"cudaDeviceId":0,"driverVer":13000,"deviceName":")" +
      std::string(gpu.name) + R"(","deviceVer":)" + std::to_string(gpu.compute_capability) +
      R"(,"multiProcessorCount":)" + std::to_string(gpu.multiprocessors) + R"(,"maxSharedMemoryPerBlockOptin":)" +
      std::to_string(gpu.shared_memory) + "}";
  GraphDescriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set_array<char>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, json);
  device.finalize();
  return device;
}

void add_convolutions(const NetPlan& plan, int num_examples, std::vector<ConvolutionShape>& shapes) {
  for (const LayerPlan& layer : plan.layers) {
    const auto* spec = std::get_if<ConvolutionSpec>(&layer.operation);
    if (spec == nullptr) continue;
    shapes.push_back(
        {num_examples, layer.input, layer.output, layer.padding, spec->kernel, spec->stride, spec->groups});
  }
}

/// Convolutions of the project's nets at the batch sizes of the paper's runs, and difficult other ones.
std::vector<ConvolutionShape> convolutions() {
  std::vector<ConvolutionShape> shapes;
  for (const int num_examples : {16, 128}) {
    add_convolutions(plan_net(cifar10_alexnet(), {24, 24, 3}, 10), num_examples, shapes);
    add_convolutions(plan_net(lenet(), {28, 28, 1}, 10), num_examples, shapes);
  }
  const std::vector<ConvolutionShape> others = {
      {32, {224, 224, 3}, {56, 56, 64}, {3, 4, 3, 4}, 11, 4, 1},  // AlexNet's first, SAME padding
      {32, {27, 27, 96}, {27, 27, 256}, {2, 2, 2, 2}, 5, 1, 2},   // AlexNet's second, in two groups
      {8, {32, 32, 16}, {16, 16, 32}, {0, 1, 0, 1}, 3, 2, 1},     // padded on two sides
      {3, {9, 7, 6}, {9, 7, 9}, {1, 1, 1, 1}, 3, 1, 3},           // groups of two channels
      {8, {16, 16, 32}, {16, 16, 32}, {1, 1, 1, 1}, 3, 1, 32},    // depthwise
      {8, {16, 16, 32}, {8, 8, 48}, {}, 1, 2, 1},                 // windows skip pixels
      {1, {7, 5, 3}, {3, 3, 5}, {1, 0, 0, 2}, 3, 2, 1},           // odd sizes and asymmetric padding
  };
  shapes.insert(shapes.end(), others.begin(), others.end());
  return shapes;
}

/// Calls check(graph, direction, shape, math, target) for each pass.
template <class Check>
void for_each_pass(const Check& check) {
  for (const GpuModel& gpu : {kA100, kH200}) {
    const GraphDescriptor device = described(gpu);
    const GraphTarget target{.device = &device};
    for (const ConvolutionShape& shape : convolutions()) {
      for (const auto direction : {ConvolutionDirection::kForward, ConvolutionDirection::kInputGradient,
                                   ConvolutionDirection::kFilterGradient}) {
        const GraphDescriptor graph = convolution_graph(direction, shape, target);
        for (const MathMode math : {MathMode::kFp32, MathMode::kTf32}) {
          SCOPED_TRACE(std::string(gpu.name) + ": " + std::to_string(shape.num_examples) + " of " +
                       std::to_string(shape.input.height) + " x " + std::to_string(shape.input.width) + " x " +
                       std::to_string(shape.input.channels) + ", direction " +
                       std::to_string(static_cast<int>(direction)) + ", math " +
                       std::to_string(static_cast<int>(math)));
          check(graph, direction, shape, math, target);
        }
      }
    }
  }
}

TEST(ConvolutionPlanTest, EveryConvolutionHasADeterministicEngine) {
  for_each_pass([](const GraphDescriptor& graph, ConvolutionDirection, const ConvolutionShape&, MathMode math,
                   const GraphTarget& target) {
    std::string refusals;
    const std::optional<ConvolutionPlan> plan = choose_plan(graph, math, target, refusals);
    ASSERT_TRUE(plan) << refusals;
    EXPECT_TRUE(is_admissible(plan->notes, math));
    EXPECT_TRUE(std::none_of(plan->notes.begin(), plan->notes.end(),
                             [](auto note) { return note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC; }));
    EXPECT_GE(plan->workspace_bytes, 0);
    EXPECT_EQ(choose_plan(graph, math, target, refusals)->choice, plan->choice);
  });
}

TEST(ConvolutionPlanTest, AChoiceCanBeRepeated) {
  for_each_pass([](const GraphDescriptor& graph, ConvolutionDirection direction, const ConvolutionShape& shape,
                   MathMode math, const GraphTarget& target) {
    std::string refusals;
    const std::optional<ConvolutionPlan> plan = choose_plan(graph, math, target, refusals);
    ASSERT_TRUE(plan) << refusals;
    const std::optional<ConvolutionPlan> again = repeat_plan(graph, plan->choice, target);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->choice, plan->choice);
    EXPECT_EQ(again->notes, plan->notes);
    EXPECT_EQ(again->workspace_bytes, plan->workspace_bytes);

    ConvolutionShape larger = shape;
    larger.num_examples *= 4;
    const std::optional<ConvolutionPlan> joined =
        repeat_plan(convolution_graph(direction, larger, target), plan->choice, target);
    if (!joined) return;
    EXPECT_EQ(joined->choice, plan->choice);
    EXPECT_EQ(joined->notes, plan->notes);
  });
}

TEST(ConvolutionPlanTest, AnEngineThatIsNoneIsNotRepeated) {
  const GraphDescriptor device = described(kH200);
  const GraphTarget target{.device = &device};
  const GraphDescriptor graph = convolution_graph(ConvolutionDirection::kForward, convolutions().front(), target);
  EXPECT_FALSE(repeat_plan(graph, {.engine = 1000000, .knobs = {}}, target));
  std::string refusals;
  const EngineChoice choice = choose_plan(graph, MathMode::kTf32, target, refusals)->choice;
  ASSERT_FALSE(choice.knobs.empty());
  EngineChoice out_of_range = choice;
  out_of_range.knobs.front().value = 1000000;
  EXPECT_FALSE(repeat_plan(graph, out_of_range, target));
  EngineChoice set_twice = choice;
  set_twice.knobs.push_back(choice.knobs.front());
  EXPECT_FALSE(repeat_plan(graph, set_twice, target));
}

TEST(ConvolutionPlanTest, TensorCoresAreForTf32Only) {
  const GraphDescriptor device = described(kH200);
  const GraphTarget target{.device = &device};
  const ConvolutionShape shape{128, {12, 12, 64}, {12, 12, 64}, {2, 2, 2, 2}, 5, 1, 1};
  const auto has_tensor_cores = [&](MathMode math) {
    std::string refusals;
    const GraphDescriptor graph = convolution_graph(ConvolutionDirection::kForward, shape, target);
    const std::vector<cudnnBackendNumericalNote_t> notes = choose_plan(graph, math, target, refusals)->notes;
    return std::find(notes.begin(), notes.end(), CUDNN_NUMERICAL_NOTE_TENSOR_CORE) != notes.end();
  };
  EXPECT_TRUE(has_tensor_cores(MathMode::kTf32));
  EXPECT_FALSE(has_tensor_cores(MathMode::kFp32));
}

TEST(ConvolutionPlanTest, NotesDecideWhatIsAdmissible) {
  for (const MathMode math : {MathMode::kFp32, MathMode::kTf32}) {
    EXPECT_TRUE(is_admissible({}, math));
    EXPECT_TRUE(is_admissible({CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}, math));
    EXPECT_EQ(is_admissible({CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, math), math == MathMode::kTf32);
    for (const auto note :
         {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
          CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_WINOGRAD,
          CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
          CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13, CUDNN_NUMERICAL_NOTE_TYPE_COUNT}) {
      EXPECT_FALSE(is_admissible({CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP, note}, math)) << note;
    }
  }
}

}  // namespace
}  // namespace terngrad::cuda::convolution_plan_test
