#include "nets/cpu/relu.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kernels/runtime/parallel.h"

namespace terngrad::cpu::relu_test {
namespace {

TEST(ReluGradient, PassesOnWhereTheOutputIsPositive) {
  const LibraryThreads threads(1);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  Scratchpad scratchpad;
  const DnnlContext context{engine, dnnl::stream(engine), &scratchpad};
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  const std::vector<float> output = {0, 1, kTiny, 0, 3, 1e30f, 0};
  std::vector<float> gradient = {1, 2, 3, -4, -5, 6, -7};
  ReluGradient relu(context, "test", vector_desc(7));
  scratchpad.allocate();
  relu.run(output.data(), gradient.data());
  EXPECT_EQ(gradient, (std::vector<float>{0, 2, 3, 0, -5, 6, 0}));
}

}  // namespace
}  // namespace terngrad::cpu::relu_test
