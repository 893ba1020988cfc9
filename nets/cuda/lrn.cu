#include "nets/cuda/lrn.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/errors.h"
#include "nets/cuda/divisor.h"

namespace terngrad::cuda {
namespace {

constexpr int kThreads = 256;
/// Approximate elements per block, in whole pixels: enough for several per thread, few enough for many resident blocks.
constexpr int kBlockElements = 1024;

/// Layout of a block's pixels in shared memory: rows of channels with `radius` zeros before each and after the last, so
/// that windows stay inside.
struct Rows {
  explicit Rows(const LrnShape& shape)
      : channels(shape.channels),
        radius(std::min(shape.radius, shape.channels - 1)),  // more adds only zeros
        pixels(std::max(kBlockElements / (shape.channels + radius), 1)) {}

  __device__ int pitch() const { return channels.divisor() + radius; }
  /// Position of element `e` of the block's pixels.
  __device__ int place(int e) const { return e + (channels.quotient(e) + 1) * radius; }
  int num_elements() const { return radius + pixels * (channels.divisor() + radius); }

  Divisor channels;
  int radius;
  int pixels;
};

/// One step of third order towards y = s^(-1/4), as nets/cpu/lrn_window.cpp.
__device__ float refine_inverse_fourth_root(float s, float y) {
  const float y2 = y * y;
  const float e = 1.0f - s * y2 * y2;
  return y + y * (e * (0.25f + e * 0.15625f));
}

__device__ float inverse_fourth_root(float s) {
  if (s == std::numeric_limits<float>::infinity()) return 0;
  const float start = __uint_as_float(0x4f586000u - (__float_as_uint(s) >> 2));
  return refine_inverse_fourth_root(s, refine_inverse_fourth_root(s, start));
}

struct Powers {
  float scale;       // s^-beta
  float reciprocal;  // 1 / s
};

template <bool kThreeQuarters>
__device__ Powers powers_of(float s, float beta) {
  if constexpr (kThreeQuarters) {
    const float root = inverse_fourth_root(s);
    const float root2 = root * root;
    return {root2 * root, root2 * root2};
  } else {
    return {powf(s, -beta), __fdiv_rn(1.0f, s)};
  }
}

/// Sum of the values around `center`, from the first to the last.
__device__ float window_sum(const float* center, int radius) {
  float sum = center[-radius];
  for (int i = 1 - radius; i <= radius; ++i) sum += center[i];
  return sum;
}

__device__ float base(const LrnShape& shape, const Rows& rows, const float* squares, int place) {
  return shape.k + shape.alpha * window_sum(squares + place, rows.radius);
}

/// Sets the zeros around rows.
__device__ void clear_margins(const Rows& rows, float* values) {
  for (int i = static_cast<int>(threadIdx.x); i < (rows.pixels + 1) * rows.radius; i += kThreads) {
    values[i / rows.radius * rows.pitch() + i % rows.radius] = 0;
  }
}

/// Number of elements of this block, and its first one.
__device__ int elements_of_block(const Rows& rows, std::int64_t num_pixels, std::int64_t& first) {
  const std::int64_t first_pixel = std::int64_t{blockIdx.x} * rows.pixels;
  first = first_pixel * rows.channels.divisor();
  return static_cast<int>(min(std::int64_t{rows.pixels}, num_pixels - first_pixel)) * rows.channels.divisor();
}

__device__ void store_squares(const Rows& rows, const float* input, int count, float* squares) {
  clear_margins(rows, squares);
  for (int e = static_cast<int>(threadIdx.x); e < count; e += kThreads) squares[rows.place(e)] = input[e] * input[e];
}

template <bool kThreeQuarters>
__global__ void __launch_bounds__(kThreads)
    lrn_forward_kernel(LrnShape shape, Rows rows, std::int64_t num_pixels, const float* input, float* output) {
  float* squares = dynamic_shared<float>();
  std::int64_t first;
  const int count = elements_of_block(rows, num_pixels, first);
  input += first;
  output += first;
  store_squares(rows, input, count, squares);
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < count; e += kThreads) {
    const float s = base(shape, rows, squares, rows.place(e));
    output[e] = input[e] * powers_of<kThreeQuarters>(s, shape.beta).scale;
  }
}

/// Computes first g s^-beta and the terms of the sum, g x s^(-beta - 1), then the sums over windows. A thread updates
/// only elements of the input's gradient that it wrote itself.
template <bool kThreeQuarters>
__global__ void __launch_bounds__(kThreads)
    lrn_backward_kernel(LrnShape shape, Rows rows, int num_shared, std::int64_t num_pixels, const float* input,
                        const float* output_gradient, float* input_gradient) {
  float* squares = dynamic_shared<float>();
  float* terms = squares + num_shared;
  std::int64_t first;
  const int count = elements_of_block(rows, num_pixels, first);
  input += first;
  output_gradient += first;
  input_gradient += first;
  store_squares(rows, input, count, squares);
  clear_margins(rows, terms);
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < count; e += kThreads) {
    const int place = rows.place(e);
    const Powers powers = powers_of<kThreeQuarters>(base(shape, rows, squares, place), shape.beta);
    const float direct = output_gradient[e] * powers.scale;
    input_gradient[e] = direct;
    terms[place] = direct * input[e] * powers.reciprocal;
  }
  __syncthreads();
  const float factor = 2 * shape.alpha * shape.beta;
  for (int e = static_cast<int>(threadIdx.x); e < count; e += kThreads) {
    const float shared = factor * input[e] * window_sum(terms + rows.place(e), rows.radius);
    input_gradient[e] = input_gradient[e] - shared;
  }
}

Rows make_rows(const LrnShape& shape) {
  const Rows rows(shape);
  const int row = shape.channels + 2 * rows.radius;
  if (row > kMaxLrnRow) {
    TERNGRAD_THROW(NotSupported, "[lrn] ", shape.channels, " channels with windows of radius ", rows.radius, " are ",
                   row, " numbers; a GPU takes at most ", kMaxLrnRow);
  }
  return rows;
}

}  // namespace

void lrn_forward(const LrnShape& shape, std::int64_t num_pixels, const float* input, float* output,
                 const Stream& stream) {
  const Rows rows = make_rows(shape);
  const auto shared_bytes = static_cast<std::size_t>(rows.num_elements()) * sizeof(float);
  launch(shape.beta == 0.75f ? lrn_forward_kernel<true> : lrn_forward_kernel<false>,
         dim3(num_blocks_for(num_pixels, rows.pixels)), dim3(kThreads), shared_bytes, stream, shape, rows, num_pixels,
         input, output);
}

void lrn_backward(const LrnShape& shape, std::int64_t num_pixels, const float* input, const float* output_gradient,
                  float* input_gradient, const Stream& stream) {
  const Rows rows = make_rows(shape);
  const auto shared_bytes = 2 * static_cast<std::size_t>(rows.num_elements()) * sizeof(float);
  launch(shape.beta == 0.75f ? lrn_backward_kernel<true> : lrn_backward_kernel<false>,
         dim3(num_blocks_for(num_pixels, rows.pixels)), dim3(kThreads), shared_bytes, stream, shape, rows,
         rows.num_elements(), num_pixels, input, output_gradient, input_gradient);
}

}  // namespace terngrad::cuda
