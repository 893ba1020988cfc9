// Replaces nets/cuda/convolution_pass.cpp in the emulation: plain loops.
#include "nets/cuda/convolution_pass.h"

#include <algorithm>

#include "kernels/runtime/errors.h"
#include "tests/simt/nets/stand_in.h"

namespace terngrad::cuda {
using terngrad::testing::JointCalls;

struct ConvolutionPass::Plan {
  MathMode math;
  bool adds_backwards;
};

namespace {

/// Calls visit(input index, filter index, output index) for each product of the convolution.
template <class Visit>
void for_each_product(const ConvolutionShape& s, bool backwards, const Visit& visit) {
  const int group_inputs = s.input.channels / s.groups;
  const int group_outputs = s.output.channels / s.groups;
  for (int n = 0; n < s.num_examples; ++n) {
    for (int y = 0; y < s.output.height; ++y) {
      for (int x = 0; x < s.output.width; ++x) {
        for (int tap = 0; tap < s.kernel.num_elements(); ++tap) {
          const int t = backwards ? static_cast<int>(s.kernel.num_elements()) - 1 - tap : tap;
          const int in_y = y * s.stride + t / s.kernel.width - s.padding.top;
          const int in_x = x * s.stride + t % s.kernel.width - s.padding.left;
          if (in_y < 0 || in_y >= s.input.height || in_x < 0 || in_x >= s.input.width) continue;
          for (int o = 0; o < s.output.channels; ++o) {
            const std::int64_t out =
                ((std::int64_t{n} * s.output.height + y) * s.output.width + x) * s.output.channels + o;
            const int first = o / group_outputs * group_inputs;
            for (int c = 0; c < group_inputs; ++c) {
              visit(((std::int64_t{n} * s.input.height + in_y) * s.input.width + in_x) * s.input.channels + first + c,
                    (o * s.kernel.num_elements() + t) * group_inputs + c, out);
            }
          }
        }
      }
    }
  }
}

}  // namespace

ConvolutionPass::ConvolutionPass(const Libraries& libraries, ConvolutionDirection direction,
                                 const ConvolutionShape& shape, MathMode math)
    : ConvolutionPass(libraries, direction, shape, std::make_shared<const Plan>(Plan{math, false})) {}
ConvolutionPass::ConvolutionPass(const Libraries& libraries, ConvolutionDirection direction,
                                 const ConvolutionShape& shape, std::shared_ptr<const Plan> plan)
    : libraries_(libraries), direction_(direction), shape_(shape), plan_(std::move(plan)) {
  require_shape(direction, shape);
}

std::unique_ptr<ConvolutionPass> ConvolutionPass::with_examples(int num_examples) const {
  if (testing::joint_calls == JointCalls::kRefused) return nullptr;
  ConvolutionShape shape = shape_;
  shape.num_examples = num_examples;
  const Plan plan{plan_->math, testing::joint_calls == JointCalls::kOtherBits};
  return std::unique_ptr<ConvolutionPass>(
      new ConvolutionPass(libraries_, direction_, shape, std::make_shared<const Plan>(plan)));
}

std::int64_t ConvolutionPass::workspace_bytes() const { return 64; }

void ConvolutionPass::run(const float* first, const float* second, float* result, void* workspace,
                          const Stream& stream) const {
  testing::submit(stream, [=, s = shape_, direction = direction_, plan = *plan_] {
    *static_cast<char*>(workspace) = 1;  // checks that the workspace exists
    const std::int64_t filters = s.output.channels * s.kernel.num_elements() * (s.input.channels / s.groups);
    const std::int64_t results = direction == ConvolutionDirection::kForward ? s.num_examples * s.output.num_elements()
                                 : direction == ConvolutionDirection::kInputGradient
                                     ? s.num_examples * s.input.num_elements()
                                     : filters;
    std::fill_n(result, results, 0.0f);
    for_each_product(s, plan.adds_backwards, [&](std::int64_t in, std::int64_t filter, std::int64_t out) {
      const auto times = [&](float a, float b) {
        return testing::factor(a, plan.math) * testing::factor(b, plan.math);
      };
      if (direction == ConvolutionDirection::kForward) result[out] += times(first[in], second[filter]);
      if (direction == ConvolutionDirection::kInputGradient) result[in] += times(first[out], second[filter]);
      if (direction == ConvolutionDirection::kFilterGradient) result[filter] += times(first[in], second[out]);
    });
  });
}

}  // namespace terngrad::cuda
