#include "nets/cuda/convolution_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"

namespace terngrad::cuda::convolution_shape_test {
namespace {

constexpr auto kForward = ConvolutionDirection::kForward;

/// 9 x 7 to 5 x 4 with stride 2 and padding 1 where needed.
ConvolutionShape possible() {
  return {.num_examples = 3,
          .input = {9, 7, 6},
          .output = {5, 4, 4},
          .padding = {1, 1, 1, 1},
          .kernel = 3,
          .stride = 2,
          .groups = 2};
}

TEST(ConvolutionShape, ImpossibleOnesAreRefusedWithAllTheirNumbers) {
  EXPECT_NO_THROW(require_shape(kForward, possible()));
  const auto expect_refused = [](auto change) {
    ConvolutionShape shape = possible();
    change(shape);
    EXPECT_THROW(require_shape(kForward, shape), InvalidArgument) << to_text(kForward, shape);
  };
  expect_refused([](ConvolutionShape& s) { s.num_examples = 0; });
  expect_refused([](ConvolutionShape& s) { s.stride = 0; });
  expect_refused([](ConvolutionShape& s) { s.groups = 4; });
  expect_refused([](ConvolutionShape& s) { s.output.height = 4; });
  expect_refused([](ConvolutionShape& s) { s.padding.left = -1; });
  expect_refused([](ConvolutionShape& s) { s.kernel = 12; });
  EXPECT_THAT(to_text(ConvolutionDirection::kFilterGradient, possible()),
              ::testing::AllOf(::testing::HasSubstr("filters"), ::testing::HasSubstr("9 x 7 x 6"),
                               ::testing::HasSubstr("stride 2")));
}

TEST(SliceAlignment, IsThatOfTheOddestSlice) {
  EXPECT_EQ(slice_alignment(784), 16);
  EXPECT_EQ(slice_alignment(126), 8);
  EXPECT_EQ(slice_alignment(147), 4);
}

}  // namespace
}  // namespace terngrad::cuda::convolution_shape_test
