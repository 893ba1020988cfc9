#include "nets/cuda/pool.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "nets/cuda/divisor.h"
#include "nets/cuda/packs.cuh"

namespace terngrad::cuda {
namespace {

/// Rows or columns from `begin` up to `end`.
struct Range {
  int begin;
  int end;
  __device__ int size() const { return end - begin; }
};

/// One direction of a pool: which elements a window holds, and which windows an element.
struct Axis {
  Axis(int input_size, int output_size, int padding_before, int window_size, int stride_size)
      : input(input_size), output(output_size), padding(padding_before), window(window_size), stride(stride_size) {}

  __device__ Range window_elements(int at) const {
    const int first = at * stride.divisor() - padding;
    return {max(first, 0), min(first + window, input)};
  }
  /// Windows w with w stride - padding <= at < w stride - padding + window.
  __device__ Range windows_of(int at) const {
    const int place = at + padding;
    const int begin = place < window ? 0 : stride.quotient(place - window) + 1;
    return {begin, min(stride.quotient(place) + 1, output)};
  }

  int input;
  int output;
  int padding;
  int window;
  Divisor stride;
};

/// What kernels know of a pool.
struct Pool {
  explicit Pool(const PoolWindow& w)
      : rows(w.input.height, w.output.height, w.padding.top, w.window, w.stride),
        columns(w.input.width, w.output.width, w.padding.left, w.window, w.stride),
        channels(w.input.channels) {}
  __device__ std::int64_t input_at(int image, int row, int column) const {
    return ((std::int64_t{image} * rows.input + row) * columns.input + column) * channels;
  }
  __device__ std::int64_t output_at(int image, int row, int column) const {
    return ((std::int64_t{image} * rows.output + row) * columns.output + column) * channels;
  }

  Axis rows;
  Axis columns;
  int channels;
};

/// One pack of channels of one pixel.
struct Place {
  int image;
  int row;
  int column;
  int channel;
};

/// Places of all packs of `num_images` images, in memory's order.
struct Places {
  Places(int num_images, int image_height, int image_width, int packs_of_pixel)
      : packs(packs_of_pixel),
        width(image_width),
        height(image_height),
        count(num_images * image_height * image_width * packs_of_pixel) {}

  template <int kLanes>
  __device__ Place at(int item) const {
    const int pixel = packs.quotient(item);
    const int row = width.quotient(pixel);
    const int image = height.quotient(row);
    return {image, row - image * height.divisor(), pixel - row * width.divisor(),
            (item - pixel * packs.divisor()) * kLanes};
  }

  Divisor packs;
  Divisor width;
  Divisor height;
  int count;
};

template <int kLanes>
__global__ void __launch_bounds__(kPackThreads)
    max_pool_forward_kernel(Pool pool, Places outputs, const float* input, float* output) {
  const int item = item_index();
  if (item >= outputs.count) return;
  const Place place = outputs.at<kLanes>(item);
  const Range rows = pool.rows.window_elements(place.row);
  const Range columns = pool.columns.window_elements(place.column);
  const float* first = input + pool.input_at(place.image, rows.begin, columns.begin) + place.channel;
  Pack<kLanes> greatest = load_pack<kLanes>(first);
  for (int i = 0; i < rows.size(); ++i) {
    for (int j = 0; j < columns.size(); ++j) {
      const auto pixel = std::int64_t{i} * pool.columns.input + j;
      const Pack<kLanes> value = load_pack<kLanes>(first + pixel * pool.channels);
#pragma unroll
      for (int k = 0; k < kLanes; ++k) {
        greatest.lanes[k] = greatest.lanes[k] > value.lanes[k] ? greatest.lanes[k] : value.lanes[k];
      }
    }
  }
  store_pack(output + std::int64_t{item} * kLanes, greatest);
}

/// A bit for each lane where the two are equal.
template <int kLanes>
__device__ unsigned equal_lanes(const Pack<kLanes>& a, const Pack<kLanes>& b) {
  unsigned lanes = 0;
#pragma unroll
  for (int k = 0; k < kLanes; ++k) lanes |= a.lanes[k] == b.lanes[k] ? 1u << k : 0u;
  return lanes;
}

/// Those of `lanes` where no element of window (rows, columns) that is before `element` by rows equals its maximum.
template <int kLanes>
__device__ unsigned first_lanes(const Pool& pool, const float* image, Range rows, Range columns, const Place& element,
                                const Pack<kLanes>& greatest, unsigned lanes) {
#pragma unroll 1
  for (int y = rows.begin; y <= element.row && lanes != 0; ++y) {
    const int end = y < element.row ? columns.end : element.column;
    const float* row = image + std::int64_t{y} * pool.columns.input * pool.channels;
#pragma unroll 1
    for (int x = columns.begin; x < end; ++x) {
      lanes &= ~equal_lanes(load_pack<kLanes>(row + std::int64_t{x} * pool.channels), greatest);
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

/// Blocks that are to fit into a multiprocessor: leaves the 64 registers that a thread needs.
constexpr int kBackwardBlocks = 4;

/// @tparam kTiles  every element is in one window: a share is stored as it is, -0 too
template <int kLanes, bool kTiles>
__global__ void __launch_bounds__(kPackThreads, kBackwardBlocks)
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
      const Pack<kLanes> greatest = load_pack<kLanes>(output + at);
      unsigned lanes = equal_lanes(value, greatest);
      if (has_relu) lanes &= positive_lanes(greatest);
      if (lanes == 0) continue;
      lanes = first_lanes(pool, image, pool.rows.window_elements(y), pool.columns.window_elements(x), place, greatest,
                          lanes);
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

template <int kLanes>
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
  const auto size = static_cast<float>(rows.size() * columns.size());
#pragma unroll
  for (int k = 0; k < kLanes; ++k) sum.lanes[k] = __fdiv_rn(sum.lanes[k], size);
  store_pack(output + std::int64_t{item} * kLanes, sum);
}

template <int kLanes>
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
      const int elements = pool.rows.window_elements(y).size() * pool.columns.window_elements(x).size();
      const auto size = static_cast<float>(elements);
      const Pack<kLanes> gradient =
          load_pack<kLanes>(output_gradient + pool.output_at(place.image, y, x) + place.channel);
#pragma unroll
      for (int k = 0; k < kLanes; ++k) sum.lanes[k] += __fdiv_rn(gradient.lanes[k], size);
    }
  }
  store_pack(input_gradient + std::int64_t{item} * kLanes, sum);
}

/// Whether every element is in exactly one window.
bool tiles(const PoolWindow& w) {
  return w.window == w.stride && w.output.height * w.stride >= w.input.height &&
         w.output.width * w.stride >= w.input.width;
}

/// Calls body(kLanes, places, first image, grid) for launches with a thread for each pack of images of shape `shape`.
template <class Body>
void for_each_launch(const PoolWindow& w, int num_images, const ImageShape& shape, bool is_wide, const Body& body) {
  const std::int64_t elements = std::max(w.input.num_elements(), w.output.num_elements());
  for_each_part(num_images, elements, [&](std::int64_t first, int count) {
    const int lanes = is_wide ? kWideLanes : 1;
    const Places places(count, shape.height, shape.width, shape.channels / lanes);
    const dim3 grid(num_blocks_for(places.count, kPackThreads));
    is_wide ? body(std::integral_constant<int, kWideLanes>(), places, first, grid)
            : body(std::integral_constant<int, 1>(), places, first, grid);
  });
}

template <class... Pointers>
bool is_wide(const PoolWindow& w, Pointers... pointers) {
  return w.input.channels % kWideLanes == 0 && are_aligned_for_packs(pointers...);
}

const dim3 kBlock(kPackThreads);

}  // namespace

void max_pool_forward(const PoolWindow& window, int num_images, const float* input, float* output,
                      const Stream& stream) {
  const std::int64_t in = window.input.num_elements();
  const std::int64_t out = window.output.num_elements();
  for_each_launch(window, num_images, window.output, is_wide(window, input, output),
                  [&](auto lanes, const Places& outputs, std::int64_t first, dim3 grid) {
                    launch(max_pool_forward_kernel<decltype(lanes)::value>, grid, kBlock, 0, stream, Pool(window),
                           outputs, input + first * in, output + first * out);
                  });
}

void max_pool_backward(const PoolWindow& window, int num_images, const float* input, const float* output,
                       const float* output_gradient, float* input_gradient, const Stream& stream) {
  const std::int64_t in = window.input.num_elements();
  const std::int64_t out = window.output.num_elements();
  for_each_launch(window, num_images, window.input, is_wide(window, input, output, input_gradient),
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
  for_each_launch(window, num_images, window.output, is_wide(window, input, output),
                  [&](auto lanes, const Places& outputs, std::int64_t first, dim3 grid) {
                    launch(average_pool_forward_kernel<decltype(lanes)::value>, grid, kBlock, 0, stream, Pool(window),
                           outputs, input + first * in, output + first * out);
                  });
}

void average_pool_backward(const PoolWindow& window, int num_images, const float* output_gradient,
                           float* input_gradient, const Stream& stream) {
  const std::int64_t in = window.input.num_elements();
  const std::int64_t out = window.output.num_elements();
  for_each_launch(window, num_images, window.input, is_wide(window, output_gradient, input_gradient),
                  [&](auto lanes, const Places& inputs, std::int64_t first, dim3 grid) {
                    launch(average_pool_backward_kernel<decltype(lanes)::value>, grid, kBlock, 0, stream, Pool(window),
                           inputs, output_gradient + first * out, input_gradient + first * in);
                  });
}

}  // namespace terngrad::cuda
