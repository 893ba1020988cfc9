// Convolutions compared with double-precision loops, on a GPU and with the emulation's stand-in for cuDNN.
#include "nets/cuda/convolution_pass.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "kernels/runtime/errors.h"
#include "nets/cuda/library_runs.h"
#include "support/gradients.h"

namespace terngrad::cuda::convolution_pass_test {
namespace {

using testing::Floats;
using testing::ReferenceSums;
using enum ConvolutionDirection;

class CudaConvolutionPass : public testing::CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    stream_ = std::make_unique<Stream>(Device::cuda());
    libraries_ = std::make_unique<Libraries>(*stream_);
  }
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Libraries> libraries_;
};

constexpr std::array kDirections = {kForward, kInputGradient, kFilterGradient};
constexpr std::array kMathModes = {MathMode::kFp32, MathMode::kTf32};

struct Geometry {
  WindowSize kernel;
  int stride = 1;
  ImagePadding padding = {};
  int groups = 1;
};

ConvolutionShape convolution(int num_examples, ImageShape input, int num_outputs, const Geometry& window) {
  const ImagePadding& padding = window.padding;
  const ImageShape output{(input.height + padding.top + padding.bottom - window.kernel.height) / window.stride + 1,
                          (input.width + padding.left + padding.right - window.kernel.width) / window.stride + 1,
                          num_outputs};
  return {num_examples, input, output, padding, window.kernel, window.stride, window.groups};
}

std::vector<ConvolutionShape> shapes() {
  return {
      convolution(2, {7, 5, 3}, 5, {.kernel = 3, .padding = {1, 1, 1, 1}}),
      convolution(3, {6, 9, 1}, 4, {.kernel = 5, .padding = {2, 2, 2, 2}}),  // padding larger than most of the image
      convolution(1, {8, 8, 4}, 8, {.kernel = 3, .stride = 2, .padding = {0, 1, 0, 1}}),  // TensorFlow's SAME
      convolution(5, {7, 6, 3}, 2, {.kernel = 3, .stride = 2, .padding = {1, 0, 0, 2}}),
      convolution(2, {6, 6, 2}, 3, {.kernel = 2, .stride = 4}),  // rows and columns outside of all windows
      convolution(4, {3, 4, 8}, 12, {.kernel = 1}),
      convolution(2, {3, 3, 4}, 6, {.kernel = 3}),  // one output position
      convolution(2, {6, 5, 6}, 4, {.kernel = 3, .padding = {1, 1, 1, 1}, .groups = 2}),
      convolution(3, {5, 5, 4}, 4, {.kernel = 3, .padding = {1, 1, 1, 1}, .groups = 4}),
      convolution(2, {12, 12, 16}, 16, {.kernel = 5, .padding = {2, 2, 2, 2}}),
      convolution(2, {5, 8, 6}, 4, {.kernel = {1, 7}, .padding = {0, 0, 3, 3}}),
      convolution(3, {8, 4, 4}, 5, {.kernel = {3, 1}, .stride = 2, .padding = {1, 0, 0, 0}}),
  };
}

std::string to_text(const ConvolutionShape& shape, ConvolutionDirection direction, MathMode math) {
  constexpr std::array<const char*, 3> kNames = {"forward", "input gradient", "filter gradient"};
  return std::to_string(shape.num_examples) + " of " + std::to_string(shape.input.height) + " x " +
         std::to_string(shape.input.width) + " x " + std::to_string(shape.input.channels) + " to " +
         std::to_string(shape.output.channels) + ", kernel " + std::to_string(shape.kernel.height) + " x " +
         std::to_string(shape.kernel.width) + ", stride " + std::to_string(shape.stride) + ", groups " +
         std::to_string(shape.groups) + ", " + kNames[static_cast<std::size_t>(direction)] +
         (math == MathMode::kTf32 ? ", tf32" : ", fp32");
}

struct Sizes {
  std::size_t images;
  std::size_t filters;
  std::size_t outputs;
};

Sizes sizes_of(const ConvolutionShape& shape) {
  const auto elements = [&](const ImageShape& image) {
    return static_cast<std::size_t>(shape.num_examples * image.height * image.width * image.channels);
  };
  return {.images = elements(shape.input),
          .filters = static_cast<std::size_t>(shape.output.channels * shape.kernel.num_elements() *
                                              shape.input.channels / shape.groups),
          .outputs = elements(shape.output)};
}

/// Calls visit(image element, filter element, output element) for each product of the convolution.
template <class Visit>
void for_each_product(const ConvolutionShape& shape, const Visit& visit) {
  const ImageShape& in = shape.input;
  const ImageShape& out = shape.output;
  const int group_inputs = in.channels / shape.groups;
  const int group_outputs = out.channels / shape.groups;
  for (int n = 0; n < shape.num_examples; ++n)
    for (int oy = 0; oy < out.height; ++oy)
      for (int ox = 0; ox < out.width; ++ox)
        for (int k = 0; k < out.channels; ++k)
          for (int r = 0; r < shape.kernel.height; ++r)
            for (int s = 0; s < shape.kernel.width; ++s) {
              const int y = oy * shape.stride + r - shape.padding.top;
              const int x = ox * shape.stride + s - shape.padding.left;
              if (y < 0 || y >= in.height || x < 0 || x >= in.width) continue;
              for (int c = 0; c < group_inputs; ++c) {
                const int channel = k / group_outputs * group_inputs + c;
                visit(static_cast<std::size_t>(((n * in.height + y) * in.width + x) * in.channels + channel),
                      static_cast<std::size_t>(((k * shape.kernel.height + r) * shape.kernel.width + s) * group_inputs +
                                               c),
                      static_cast<std::size_t>(((n * out.height + oy) * out.width + ox) * out.channels + k));
              }
            }
}

/// Operands and the expected result of a pass.
struct Expectation {
  Floats first;
  Floats second;
  ReferenceSums sums;
  std::int64_t num_terms;  // terms of the longest sum
};

template <class MakeValues>
Expectation expectation(const ConvolutionShape& shape, ConvolutionDirection direction, const MakeValues& make_values) {
  const auto [images, filters, outputs] = sizes_of(shape);
  const std::int64_t window = shape.kernel.num_elements();
  switch (direction) {
    case kForward: {
      Expectation e{make_values(images, 1), make_values(filters, 2), ReferenceSums(outputs),
                    window * shape.input.channels / shape.groups};
      for_each_product(shape, [&](auto i, auto f, auto o) { e.sums.add(o, e.first[i], e.second[f]); });
      return e;
    }
    case kInputGradient: {
      Expectation e{make_values(outputs, 3), make_values(filters, 2), ReferenceSums(images),
                    window * shape.output.channels / shape.groups};
      for_each_product(shape, [&](auto i, auto f, auto o) { e.sums.add(i, e.first[o], e.second[f]); });
      return e;
    }
    case kFilterGradient:
      break;
  }
  Expectation e{make_values(images, 1), make_values(outputs, 3), ReferenceSums(filters),
                std::int64_t{shape.num_examples} * shape.output.height * shape.output.width};
  for_each_product(shape, [&](auto i, auto f, auto o) { e.sums.add(f, e.first[i], e.second[o]); });
  return e;
}

template <class Check>
void for_each_pass(const std::vector<ConvolutionShape>& of, const Check& check) {
  for (const ConvolutionShape& shape : of) {
    for (const ConvolutionDirection direction : kDirections) {
      for (const MathMode math : kMathModes) {
        SCOPED_TRACE(to_text(shape, direction, math));
        check(shape, direction, math);
      }
    }
  }
}

TEST_F(CudaConvolutionPass, IsExactWhereEveryOrderIs) {
  for_each_pass(shapes(), [&](const ConvolutionShape& shape, ConvolutionDirection direction, MathMode math) {
    const Expectation expected = expectation(shape, direction, testing::small_integers);
    const ConvolutionPass pass(*libraries_, direction, shape, math);
    EXPECT_EQ(pass.shape().num_examples, shape.num_examples);
    const Floats result = testing::run_once(pass, expected.first, expected.second, expected.sums.sums.size(), *stream_);
    EXPECT_EQ(result, expected.sums.rounded());
  });
}

TEST_F(CudaConvolutionPass, IsNearTheSumOfProducts) {
  const auto values = [](std::size_t count, std::uint64_t seed) { return testing::gaussian(count, seed); };
  for_each_pass(shapes(), [&](const ConvolutionShape& shape, ConvolutionDirection direction, MathMode math) {
    const Expectation expected = expectation(shape, direction, values);
    const ConvolutionPass pass(*libraries_, direction, shape, math);
    testing::expect_near_sums(
        testing::run_once(pass, expected.first, expected.second, expected.sums.sums.size(), *stream_), expected.sums,
        expected.num_terms, math);
  });
}

// 1 + 2^-12 rounds to 1 in TF32; sums of a few hundred of it are exact in float32.
TEST_F(CudaConvolutionPass, Fp32DoesNotRoundFactors) {
  const auto values = [](std::size_t count, std::uint64_t seed) {
    return Floats(count, seed == 1 ? 1 + 0x1p-12f : 1.0f);
  };
  for (const ConvolutionShape& shape : shapes()) {
    for (const ConvolutionDirection direction : {kForward, kFilterGradient}) {
      SCOPED_TRACE(to_text(shape, direction, MathMode::kFp32));
      const Expectation expected = expectation(shape, direction, values);
      const ConvolutionPass pass(*libraries_, direction, shape, MathMode::kFp32);
      EXPECT_EQ(testing::run_once(pass, expected.first, expected.second, expected.sums.sums.size(), *stream_),
                expected.sums.rounded());
    }
  }
}

TEST_F(CudaConvolutionPass, RepeatsItsBitsAndCanBeCaptured) {
  const auto values = [](std::size_t count, std::uint64_t seed) { return testing::gaussian(count, seed); };
  const std::vector<ConvolutionShape> of = {
      convolution(3, {9, 9, 3}, 8, {.kernel = 5, .padding = {2, 2, 2, 2}}),
      convolution(4, {8, 8, 16}, 16, {.kernel = 3, .stride = 2, .padding = {0, 1, 0, 1}}),
      convolution(2, {6, 5, 6}, 4, {.kernel = 3, .padding = {1, 1, 1, 1}, .groups = 2})};
  for_each_pass(of, [&](const ConvolutionShape& shape, ConvolutionDirection direction, MathMode math) {
    const Expectation e = expectation(shape, direction, values);
    const ConvolutionPass pass(*libraries_, direction, shape, math);
    testing::expect_repeatable(pass, e.first, e.second, e.sums.sums.size(), *stream_);
  });
}

TEST_F(CudaConvolutionPass, OfMoreExamplesIsRightWhereItCanBeDone) {
  for_each_pass(shapes(), [&](const ConvolutionShape& shape, ConvolutionDirection direction, MathMode math) {
    std::unique_ptr<ConvolutionPass> joined;
    {
      const ConvolutionPass pass(*libraries_, direction, shape, math);
      joined = pass.with_examples(4 * shape.num_examples);
    }
    if (joined == nullptr) return;
    ConvolutionShape larger = shape;
    larger.num_examples *= 4;
    EXPECT_EQ(joined->shape().num_examples, larger.num_examples);
    const Expectation expected = expectation(larger, direction, testing::small_integers);
    EXPECT_EQ(testing::run_once(*joined, expected.first, expected.second, expected.sums.sums.size(), *stream_),
              expected.sums.rounded());
  });
}

TEST_F(CudaConvolutionPass, RefusesShapesThatAreNone) {
  const ConvolutionShape right = convolution(2, {6, 5, 6}, 4, {.kernel = 3, .padding = {1, 1, 1, 1}, .groups = 2});
  std::vector<ConvolutionShape> wrong(8, right);
  wrong[0].num_examples = 0;
  wrong[1].input.height = 0;
  wrong[2].output.width += 1;
  wrong[3].groups = 4;
  wrong[4].kernel = 9;
  wrong[5].stride = 0;
  wrong[6].padding.left = -1;
  wrong[7].output.channels = 0;
  for (const ConvolutionShape& shape : wrong) {
    EXPECT_THROW(ConvolutionPass(*libraries_, kForward, shape, MathMode::kFp32), InvalidArgument);
  }
  EXPECT_THROW(ConvolutionPass(*libraries_, kForward, right, MathMode::kFp32).with_examples(0), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda::convolution_pass_test
