// Copies images and labels to a step's batch on a GPU.
#include "datasets/cuda/copy_images.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "datasets/cuda/slot_ring.cuh"
#include "kernels/runtime/cuda/launch.cuh"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = 128;
constexpr unsigned kItems = 4;  // loads in flight per thread
constexpr std::int64_t kTile = kThreads * kItems;
constexpr std::int64_t kMaxBlocksPerImage = 64;  // enough to fill any GPU
constexpr std::int64_t kVector = 4;              // floats per 128-bit access

/// to[i] = from[i] for tiles `first`, first + stride, ... of `count` values, by all threads of the block.
template <class T>
__device__ void copy_tiles(const T* __restrict__ from, T* __restrict__ to, std::int64_t count, std::int64_t first,
                           std::int64_t stride) {
  for (std::int64_t begin = first * kTile + threadIdx.x; begin < count; begin += stride * kTile) {
    T values[kItems] = {};
#pragma unroll
    for (unsigned k = 0; k < kItems; ++k) {
      if (begin + k * kThreads < count) values[k] = __ldg(from + begin + k * kThreads);
    }
#pragma unroll
    for (unsigned k = 0; k < kItems; ++k) {
      if (begin + k * kThreads < count) to[begin + k * kThreads] = values[k];
    }
  }
}

/// Block (x, y) copies every gridDim.y-th tile of example x, starting at tile y.
/// @param count  values of type T per image
template <class T>
__global__ void __launch_bounds__(kThreads)
    gather_images_kernel(const T* examples, std::int64_t count, const BatchEntry* entries, const SlotRing ring,
                         const BatchTarget target) {
  const BatchEntry entry = read_entry(entries, ring, blockIdx.x);
  copy_tiles(examples + entry.index * count, reinterpret_cast<T*>(target.images) + blockIdx.x * count, count,
             blockIdx.y, gridDim.y);
  if (blockIdx.y == 0 && threadIdx.x == 0) target.labels[blockIdx.x] = entry.label;
}

template <class T>
void launch_gather(const float* examples, std::int64_t count, const BatchEntry* entries, const SlotRing& ring,
                   const BatchTarget& target, const Stream& stream) {
  const dim3 grid(num_blocks_for(ring.batch, 1),
                  static_cast<unsigned>(std::min((count + kTile - 1) / kTile, kMaxBlocksPerImage)));
  launch(gather_images_kernel<T>, grid, dim3(kThreads), 0, stream, reinterpret_cast<const T*>(examples), count, entries,
         ring, target);
}

/// @param count  vectors per slot
__global__ void __launch_bounds__(kThreads)
    copy_slot_kernel(const float4* images, std::int64_t count, const std::int32_t* labels, const SlotRing ring,
                     const BatchTarget target) {
  const std::int64_t slot = slot_of(ring);
  copy_tiles(images + slot * count, reinterpret_cast<float4*>(target.images), count, blockIdx.x, gridDim.x);
  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (std::int64_t i = first; i < ring.batch; i += std::int64_t{gridDim.x} * kThreads) {
    target.labels[i] = labels[slot * ring.batch + i];
  }
}

}  // namespace

void gather_images(const float* examples, std::int64_t image_elements, const BatchEntry* entries, const SlotRing& ring,
                   const BatchTarget& target, const Stream& stream) {
  if (image_elements % kVector == 0) {
    launch_gather<float4>(examples, image_elements / kVector, entries, ring, target, stream);
  } else {
    launch_gather<float>(examples, image_elements, entries, ring, target, stream);
  }
}

void copy_slot(const float* images, std::int64_t slot_values, const std::int32_t* labels, const SlotRing& ring,
               const BatchTarget& target, const Stream& stream) {
  const std::int64_t count = slot_values / kVector;
  launch(copy_slot_kernel, dim3(num_blocks_for(count, kTile)), dim3(kThreads), 0, stream,
         reinterpret_cast<const float4*>(images), count, labels, ring, target);
}

}  // namespace terngrad::cuda
