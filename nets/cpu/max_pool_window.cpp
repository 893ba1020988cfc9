#include "nets/cpu/max_pool_window.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nets/cpu/max_pool_window.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "nets/cpu/for_each_vector-inl.h"

#include <algorithm>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The part of one output's window inside the image: `rows` x `columns` pixels from element `first` of the image.
struct Patch {
  std::size_t first;
  std::size_t rows;
  std::size_t columns;
};

/// Calls body(patch, first element of the output) for every output, in row-major order.
template <class Body>
HWY_INLINE void ForEachPatch(const MaxPoolWindow& w, const Body& body) {
  std::size_t output = 0;
  for (int y = 0; y < w.output.height; ++y) {
    const int top = y * w.stride - w.padding.top;
    const int row = std::max(top, 0);
    const int rows = std::min(top + w.window, w.input.height) - row;
    for (int x = 0; x < w.output.width; ++x) {
      const int left = x * w.stride - w.padding.left;
      const int column = std::max(left, 0);
      const int columns = std::min(left + w.window, w.input.width) - column;
      const std::size_t pixel =
          static_cast<std::size_t>(row) * static_cast<std::size_t>(w.input.width) + static_cast<std::size_t>(column);
      body(Patch{pixel * static_cast<std::size_t>(w.input.channels), static_cast<std::size_t>(rows),
                 static_cast<std::size_t>(columns)},
           output);
      output += static_cast<std::size_t>(w.output.channels);
    }
  }
}

void MaxPoolForward(const MaxPoolWindow& w, const float* HWY_RESTRICT input, float* HWY_RESTRICT output) {
  const auto channels = static_cast<std::size_t>(w.input.channels);
  const std::size_t row_stride = channels * static_cast<std::size_t>(w.input.width);
  ForEachPatch(w, [&](const Patch& patch, std::size_t target) HWY_ATTR {
    ForEachVector(channels, [&](auto d, std::size_t c) HWY_ATTR {
      const float* HWY_RESTRICT row = input + patch.first + c;
      auto max = hn::LoadU(d, row);
      for (std::size_t i = 0; i < patch.rows; ++i, row += row_stride) {
        for (std::size_t j = 0; j < patch.columns; ++j) {
          max = hn::Max(max, hn::LoadU(d, row + j * channels));
        }
      }
      hn::StoreU(max, d, output + target + c);
    });
  });
}

/// @tparam kOverlap  windows may overlap or leave gaps: gradients are added to zeros
template <bool kOverlap>
HWY_INLINE void BackwardPatches(const MaxPoolWindow& w, const float* HWY_RESTRICT input,
                                const float* HWY_RESTRICT output, const float* HWY_RESTRICT output_gradient,
                                float* HWY_RESTRICT input_gradient) {
  const auto channels = static_cast<std::size_t>(w.input.channels);
  const std::size_t row_stride = channels * static_cast<std::size_t>(w.input.width);
  const bool has_relu = w.relu_gradient == MaxPoolWindow::ReluGradient::kAtOutput;
  ForEachPatch(w, [&](const Patch& patch, std::size_t source) HWY_ATTR {
    ForEachVector(channels, [&](auto d, std::size_t c) HWY_ATTR {
      const auto max = hn::LoadU(d, output + source + c);
      auto left = hn::LoadU(d, output_gradient + source + c);  // gradient not yet assigned to an element
      if (has_relu) left = hn::IfThenElseZero(hn::Gt(max, hn::Zero(d)), left);
      std::size_t row = patch.first + c;
      for (std::size_t i = 0; i < patch.rows; ++i, row += row_stride) {
        for (std::size_t j = 0; j < patch.columns; ++j) {
          const std::size_t at = row + j * channels;
          const auto wins = hn::Eq(hn::LoadU(d, input + at), max);
          const auto share = hn::IfThenElseZero(wins, left);
          left = hn::IfThenZeroElse(wins, left);
          if constexpr (kOverlap) {
            hn::StoreU(hn::Add(hn::LoadU(d, input_gradient + at), share), d, input_gradient + at);
          } else {
            hn::StoreU(share, d, input_gradient + at);
          }
        }
      }
    });
  });
}

void MaxPoolBackward(const MaxPoolWindow& w, const float* HWY_RESTRICT input, const float* HWY_RESTRICT output,
                     const float* HWY_RESTRICT output_gradient, float* HWY_RESTRICT input_gradient) {
  const bool tiles = w.window == w.stride && w.output.height * w.stride >= w.input.height &&
                     w.output.width * w.stride >= w.input.width;
  if (tiles) {
    BackwardPatches<false>(w, input, output, output_gradient, input_gradient);
    return;
  }
  std::fill_n(input_gradient, w.input.num_elements(), 0.0f);
  BackwardPatches<true>(w, input, output, output_gradient, input_gradient);
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {

HWY_EXPORT(MaxPoolForward);
HWY_EXPORT(MaxPoolBackward);

void max_pool_forward(const MaxPoolWindow& window, const float* input, float* output) {
  HWY_DYNAMIC_DISPATCH(MaxPoolForward)(window, input, output);
}

void max_pool_backward(const MaxPoolWindow& window, const float* input, const float* output,
                       const float* output_gradient, float* input_gradient) {
  HWY_DYNAMIC_DISPATCH(MaxPoolBackward)(window, input, output, output_gradient, input_gradient);
}

}  // namespace terngrad::cpu
#endif
