#include "nets/cuda/pool.h"

#include <cuda_runtime.h>

#include <cstdint>

#include "nets/cuda/packs.cuh"
#include "nets/cuda/pool_windows.cuh"

namespace terngrad::cuda {
namespace {

template <int kLanes>
__global__ void __launch_bounds__(kPackThreads)
    max_pool_forward_kernel(Pool pool, Places outputs, const float* input, float* output) {
  const int item = item_index();
  if (item >= outputs.count) return;
  const Place place = outputs.at<kLanes>(item);
  const Range rows = pool.rows.window_elements(place.row);
  const Range columns = pool.columns.window_elements(place.column);
  const float* first = input + pool.input_at(place.image, rows.begin, columns.begin) + place.channel;
  Pack<kLanes> max = load_pack<kLanes>(first);
  for (int i = 0; i < rows.size(); ++i) {
    for (int j = 0; j < columns.size(); ++j) {
      const auto pixel = std::int64_t{i} * pool.columns.input + j;
      const Pack<kLanes> value = load_pack<kLanes>(first + pixel * pool.channels);
#pragma unroll
      for (int k = 0; k < kLanes; ++k) {
        max.lanes[k] = max.lanes[k] > value.lanes[k] ? max.lanes[k] : value.lanes[k];
      }
    }
  }
  store_pack(output + std::int64_t{item} * kLanes, max);
}

/// Bit mask of the lanes where the two are equal.
template <int kLanes>
__device__ unsigned equal_lanes(const Pack<kLanes>& a, const Pack<kLanes>& b) {
  unsigned lanes = 0;
#pragma unroll
  for (int k = 0; k < kLanes; ++k) lanes |= a.lanes[k] == b.lanes[k] ? 1u << k : 0u;
  return lanes;
}

/// The `lanes` in which no element of the window before `element`, in row-major order, equals the maximum.
template <int kLanes>
__device__ unsigned first_lanes(const Pool& pool, const float* image, Range rows, Range columns, const Place& element,
                                const Pack<kLanes>& max, unsigned lanes) {
#pragma unroll 1
  for (int y = rows.begin; y <= element.row && lanes != 0; ++y) {
    const int end = y < element.row ? columns.end : element.column;
    const float* row = image + std::int64_t{y} * pool.columns.input * pool.channels;
#pragma unroll 1
    for (int x = columns.begin; x < end; ++x) {
      lanes &= ~equal_lanes(load_pack<kLanes>(row + std::int64_t{x} * pool.channels), max);
    }
  }
  return lanes;
}

template <int kLanes>
__device__ unsigned positive_lanes(const Pack<kLanes>& pack) {
  unsigned lanes = 0;
#pragma unroll
  for (int k = 0; k < kLanes; ++k) lanes |= pack.lanes[k] > 0 ? 1u << k : 0u;
  return lanes;
}

/// Resident blocks per multiprocessor: leaves the 64 registers that a thread needs.
constexpr int kBackwardBlocks = 4;

/// @tparam kTiles  every element is in exactly one window: its gradient is stored unchanged, -0 too
template <int kLanes, bool kTiles>
__global__ void __launch_bounds__(kPackThreads, resident_blocks(kBackwardBlocks))
    max_pool_backward_kernel(Pool pool, Places inputs, bool has_relu, const float* input, const float* output,
                             const float* output_gradient, float* input_gradient) {
  const int item = item_index();
  if (item >= inputs.count) return;
  const Place place = inputs.at<kLanes>(item);
  const Pack<kLanes> value = load_pack<kLanes>(input + std::int64_t{item} * kLanes);
  const float* image = input + pool.input_at(place.image, 0, 0) + place.channel;
  Pack<kLanes> sum{};
  const Range rows = pool.rows.windows_of(place.row);
  const Range columns = pool.columns.windows_of(place.column);
  for (int y = rows.begin; y < rows.end; ++y) {
    for (int x = columns.begin; x < columns.end; ++x) {
      const std::int64_t at = pool.output_at(place.image, y, x) + place.channel;
      const Pack<kLanes> max = load_pack<kLanes>(output + at);
      unsigned lanes = equal_lanes(value, max);
      if (has_relu) lanes &= positive_lanes(max);
      if (lanes == 0) continue;
      lanes =
          first_lanes(pool, image, pool.rows.window_elements(y), pool.columns.window_elements(x), place, max, lanes);
#pragma unroll
      for (int k = 0; k < kLanes; ++k) {
        if ((lanes >> k & 1) == 0) continue;
        const float share = output_gradient[at + k];
        sum.lanes[k] = kTiles ? share : sum.lanes[k] + share;
      }
    }
  }
  store_pack(input_gradient + std::int64_t{item} * kLanes, sum);
}

/// @tparam kCountsPadding  divides by the whole window
template <int kLanes, bool kCountsPadding>
__global__ void __launch_bounds__(kPackThreads)
    average_pool_forward_kernel(Pool pool, Places outputs, const float* input, float* output) {
  const int item = item_index();
  if (item >= outputs.count) return;
  const Place place = outputs.at<kLanes>(item);
  const Range rows = pool.rows.window_elements(place.row);
  const Range columns = pool.columns.window_elements(place.column);
  const float* first = input + pool.input_at(place.image, rows.begin, columns.begin) + place.channel;
  Pack<kLanes> sum{};
  for (int i = 0; i < rows.size(); ++i) {
    for (int j = 0; j < columns.size(); ++j) {
      const auto pixel = std::int64_t{i} * pool.columns.input + j;
      const Pack<kLanes> value = load_pack<kLanes>(first + pixel * pool.channels);
#pragma unroll
      for (int k = 0; k < kLanes; ++k) sum.lanes[k] += value.lanes[k];
    }
  }
  const auto size =
      static_cast<float>(kCountsPadding ? pool.rows.window * pool.columns.window : rows.size() * columns.size());
#pragma unroll
  for (int k = 0; k < kLanes; ++k) sum.lanes[k] = __fdiv_rn(sum.lanes[k], size);
  store_pack(output + std::int64_t{item} * kLanes, sum);
}

template <int kLanes, bool kCountsPadding>
__global__ void __launch_bounds__(kPackThreads)
    average_pool_backward_kernel(Pool pool, Places inputs, const float* output_gradient, float* input_gradient) {
  const int item = item_index();
  if (item >= inputs.count) return;
  const Place place = inputs.at<kLanes>(item);
  Pack<kLanes> sum{};
  const Range rows = pool.rows.windows_of(place.row);
  const Range columns = pool.columns.windows_of(place.column);
  for (int y = rows.begin; y < rows.end; ++y) {
    for (int x = columns.begin; x < columns.end; ++x) {
      const int inside = pool.rows.window_elements(y).size() * pool.columns.window_elements(x).size();
      const auto size = static_cast<float>(kCountsPadding ? pool.rows.window * pool.columns.window : inside);
      const Pack<kLanes> gradient =
          load_pack<kLanes>(output_gradient + pool.output_at(place.image, y, x) + place.channel);
#pragma unroll
      for (int k = 0; k < kLanes; ++k) sum.lanes[k] += __fdiv_rn(gradient.lanes[k], size);
    }
  }
  store_pack(input_gradient + std::int64_t{item} * kLanes, sum);
}

/// True if every element is in exactly one window.
bool tiles(const PoolWindow& w) {
  return w.window == WindowSize(w.stride) && w.output.height * w.stride >= w.input.height &&
         w.output.width * w.stride >= w.input.width;
}

const dim3 kBlock(kPackThreads);

}  // namespace

void max_pool_forward(const PoolWindow& window, int num_images, const float* input, float* output,
                      const Stream& stream) {
  const std::int64_t in = window.input.num_elements();
  const std::int64_t out = window.output.num_elements();
  for_each_pool_launch(window, num_images, window.output, is_wide_pool(window, input, output),
                       [&](auto lanes, const Places& outputs, std::int64_t first, dim3 grid) {
                         launch(max_pool_forward_kernel<decltype(lanes)::value>, grid, kBlock, 0, stream, Pool(window),
                                outputs, input + first * in, output + first * out);
                       });
}

void max_pool_backward(const PoolWindow& window, int num_images, const float* input, const float* output,
                       const float* output_gradient, float* input_gradient, const Stream& stream) {
  const std::int64_t in = window.input.num_elements();
  const std::int64_t out = window.output.num_elements();
  for_each_pool_launch(window, num_images, window.input, is_wide_pool(window, input, output, input_gradient),
                       [&](auto lanes, const Places& inputs, std::int64_t first, dim3 grid) {
                         constexpr int kLanes = decltype(lanes)::value;
                         const auto kernel = tiles(window) ? max_pool_backward_kernel<kLanes, true>
                                                           : max_pool_backward_kernel<kLanes, false>;
                         launch(kernel, grid, kBlock, 0, stream, Pool(window), inputs, window.relu_gradient,
                                input + first * in, output + first * out, output_gradient + first * out,
                                input_gradient + first * in);
                       });
}

void average_pool_forward(const PoolWindow& window, int num_images, const float* input, float* output,
                          const Stream& stream) {
  const std::int64_t in = window.input.num_elements();
  const std::int64_t out = window.output.num_elements();
  for_each_pool_launch(window, num_images, window.output, is_wide_pool(window, input, output),
                       [&](auto lanes, const Places& outputs, std::int64_t first, dim3 grid) {
                         constexpr int kLanes = decltype(lanes)::value;
                         const auto kernel = window.counts_padding ? average_pool_forward_kernel<kLanes, true>
                                                                   : average_pool_forward_kernel<kLanes, false>;
                         launch(kernel, grid, kBlock, 0, stream, Pool(window), outputs, input + first * in,
                                output + first * out);
                       });
}

void average_pool_backward(const PoolWindow& window, int num_images, const float* output_gradient,
                           float* input_gradient, const Stream& stream) {
  const std::int64_t in = window.input.num_elements();
  const std::int64_t out = window.output.num_elements();
  for_each_pool_launch(window, num_images, window.input, is_wide_pool(window, output_gradient, input_gradient),
                       [&](auto lanes, const Places& inputs, std::int64_t first, dim3 grid) {
                         constexpr int kLanes = decltype(lanes)::value;
                         const auto kernel = window.counts_padding ? average_pool_backward_kernel<kLanes, true>
                                                                   : average_pool_backward_kernel<kLanes, false>;
                         launch(kernel, grid, kBlock, 0, stream, Pool(window), inputs, output_gradient + first * out,
                                input_gradient + first * in);
                       });
}

}  // namespace terngrad::cuda
