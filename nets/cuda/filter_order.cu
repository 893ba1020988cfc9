#include "nets/cuda/filter_order.h"

#include <cuda_runtime.h>

#include "kernels/runtime/cuda/launch.cuh"

namespace terngrad::cuda {
namespace {

constexpr int kTile = 32;
constexpr int kTileRows = 8;  // rows of a tile that a block takes at once
constexpr int kThreads = kTile * kTileRows;

/// One matrix of a launch: [rows, columns] in, its transpose out.
struct Transpose {
  const float* from;
  std::int64_t from_stride;  // distance of matrices
  float* to;
  std::int64_t to_stride;
  std::int64_t rows;
  std::int64_t columns;
};

/// blockIdx: (tile, matrix). Reads a tile by rows and writes it by columns, through shared memory with rows padded by
/// one to avoid bank conflicts.
__global__ void __launch_bounds__(kThreads) transpose_kernel(Transpose t, unsigned tiles_of_row) {
  __shared__ float tile[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x) % kTile;
  const int y = static_cast<int>(threadIdx.x) / kTile;
  const std::int64_t first_row = std::int64_t{blockIdx.x / tiles_of_row} * kTile;
  const std::int64_t first_column = std::int64_t{blockIdx.x % tiles_of_row} * kTile;
  const float* from = t.from + blockIdx.y * t.from_stride;
  float* to = t.to + blockIdx.y * t.to_stride;
#pragma unroll
  for (int i = 0; i < kTile; i += kTileRows) {
    const std::int64_t row = first_row + y + i;
    if (row < t.rows && first_column + x < t.columns) tile[y + i][x] = from[row * t.columns + first_column + x];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kTile; i += kTileRows) {
    const std::int64_t column = first_column + y + i;
    if (column < t.columns && first_row + x < t.rows) to[column * t.rows + first_row + x] = tile[x][y + i];
  }
}

void launch_transpose(const Transpose& t, int num_matrices, const Stream& stream) {
  const unsigned tiles_of_row = num_blocks_for(t.columns, kTile);
  const unsigned tiles = num_blocks_for(((t.rows + kTile - 1) / kTile) * tiles_of_row, 1);
  launch(transpose_kernel, dim3(tiles, static_cast<unsigned>(num_matrices)), dim3(kThreads), 0, stream, t,
         tiles_of_row);
}

}  // namespace

void to_filters(const float* weights, float* filters, std::int64_t rows, std::int64_t columns, const Stream& stream) {
  launch_transpose({weights, 0, filters, 0, rows, columns}, 1, stream);
}

void from_filters(const float* filter_gradients, std::int64_t rows, std::int64_t columns, int num_workers,
                  WorkerBuffers<float> gradients, const Stream& stream) {
  launch_transpose({filter_gradients, rows * columns, gradients.data, gradients.stride, columns, rows}, num_workers,
                   stream);
}

}  // namespace terngrad::cuda
