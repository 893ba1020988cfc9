// Index arithmetic of pools: elements of a window and windows of an element, for kernels with one thread per pack.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "nets/cuda/divisor.h"
#include "nets/cuda/packs.cuh"
#include "nets/cuda/pool.h"

namespace terngrad::cuda {

/// Rows or columns from `begin` up to `end`.
struct Range {
  int begin;
  int end;
  __device__ int size() const { return end - begin; }
};

/// One axis of a pool: elements of a window, and windows that contain an element.
struct PoolAxis {
  PoolAxis(int input_size, int output_size, int padding_before, int window_size, int stride_size)
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

/// A pool, in the form that kernels use.
struct Pool {
  explicit Pool(const PoolWindow& w)
      : rows(w.input.height, w.output.height, w.padding.top, w.window.height, w.stride),
        columns(w.input.width, w.output.width, w.padding.left, w.window.width, w.stride),
        channels(w.input.channels) {}
  __device__ std::int64_t input_at(int image, int row, int column) const {
    return ((std::int64_t{image} * rows.input + row) * columns.input + column) * channels;
  }
  __device__ std::int64_t output_at(int image, int row, int column) const {
    return ((std::int64_t{image} * rows.output + row) * columns.output + column) * channels;
  }

  PoolAxis rows;
  PoolAxis columns;
  int channels;
};

/// One pack of channels of one pixel.
struct Place {
  int image;
  int row;
  int column;
  int channel;
};

/// Maps indices, in memory order, to the packs of `num_images` images.
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

/// Calls body(kLanes, places, first image, grid) for launches with one thread per pack of images of shape `shape`.
template <class Body>
void for_each_pool_launch(const PoolWindow& w, int num_images, const ImageShape& shape, bool is_wide,
                          const Body& body) {
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
bool is_wide_pool(const PoolWindow& w, Pointers... pointers) {
  return w.input.channels % kWideLanes == 0 && are_aligned_for_packs(pointers...);
}

}  // namespace terngrad::cuda
