// Crops windows of stored images on a GPU, one block per image: integer sums of the window, an affine map computed by
// one thread, then the mapped window.
#include "datasets/cuda/crop_images.h"

#include <cuda_runtime.h>

#include "datasets/common/standardize.h"
#include "datasets/cuda/slot_ring.cuh"
#include "datasets/transforms/augmentation.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/tensor/cuda/reduce.cuh"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / kWarpThreads;
constexpr unsigned kSums = 2 * kAugmentedChannels;  // sums of p and p^2 per channel
// Dynamic shared memory per block: static and dynamic together are limited to 48 KiB by default (CUDA C++ Programming
// Guide, compute capabilities), and sums and the map take about 200 bytes.
constexpr int kMaxStagedBytes = 47 * 1024;
constexpr unsigned kVector = 4;  // floats per 128-bit store

static_assert(std::uint64_t{kMaxAugmentedSide} * kMaxAugmentedSide * 255 * 255 < std::uint64_t{1} << 32,
              "32 bits hold the sums of any window");

/// A window of an image, in shared or device memory.
struct DeviceWindow {
  const std::uint8_t* pixels;  // the window's first red pixel
  unsigned stride;             // distance of rows
  unsigned plane;              // distance of channels
  unsigned size;
  bool flip;

  /// Element `element` of the standardized image [size, size, 3].
  __device__ float standardized(unsigned element, const common::AffineMap& map) const {
    const unsigned pixel = element / kAugmentedChannels;
    const unsigned channel = element - pixel * kAugmentedChannels;
    const unsigned row = pixel / size;
    const unsigned column = pixel - row * size;
    const unsigned from = flip ? size - 1 - column : column;
    const std::uint8_t p = pixels[channel * plane + row * stride + from];
    return (static_cast<float>(p) - map.centre[channel]) * map.scale;
  }
};

/// The image's bytes: staged in shared memory, read 16 at a time, or in device memory.
template <bool kStaged>
__device__ const std::uint8_t* stage(const std::uint8_t* image, unsigned bytes) {
  if constexpr (kStaged) {
    auto* staged = dynamic_shared<uint4>();
    const auto* vectors = reinterpret_cast<const uint4*>(image);
    for (unsigned i = threadIdx.x; i < bytes / sizeof(uint4); i += kThreads) staged[i] = __ldg(vectors + i);
    __syncthreads();
    return reinterpret_cast<const std::uint8_t*>(staged);
  } else {
    return image;
  }
}

/// All threads must call it; thread 0 gets the sums, which are integers and so independent of the order.
__device__ common::WindowSums sum_window(const DeviceWindow& window) {
  __shared__ unsigned of_warp[kWarps][kSums];
  unsigned sums[kSums] = {};
  for (unsigned pixel = threadIdx.x; pixel < window.size * window.size; pixel += kThreads) {
    const unsigned row = pixel / window.size;
    const std::uint8_t* at = window.pixels + row * window.stride + (pixel - row * window.size);
#pragma unroll
    for (unsigned channel = 0; channel < kAugmentedChannels; ++channel) {
      const unsigned p = at[channel * window.plane];
      sums[channel] += p;
      sums[kAugmentedChannels + channel] += p * p;
    }
  }
#pragma unroll
  for (unsigned i = 0; i < kSums; ++i) {
    const unsigned sum = warp_sum(sums[i]);
    if (threadIdx.x % kWarpThreads == 0) of_warp[threadIdx.x / kWarpThreads][i] = sum;
  }
  __syncthreads();
  common::WindowSums total{};
  if (threadIdx.x != 0) return total;
#pragma unroll
  for (unsigned channel = 0; channel < kAugmentedChannels; ++channel) {
    for (unsigned warp = 0; warp < kWarps; ++warp) {
      total.first[channel] += of_warp[warp][channel];
      total.second[channel] += of_warp[warp][kAugmentedChannels + channel];
    }
  }
  return total;
}

/// Double square roots and divisions are correctly rounded, as on the CPU.
__device__ common::AffineMap map_of(const common::WindowSums& sums, unsigned size, double contrast) {
  const std::uint64_t pixels = std::uint64_t{size} * size;
  return common::standardizing_map(sums, pixels, contrast, __dsqrt_rn(common::window_variance(sums, pixels, contrast)),
                                   __dsqrt_rn(3.0 * static_cast<double>(pixels)));
}

__device__ Augmentation augmentation_of(const CropTask& task, const BatchEntry& entry) {
  const int max_offset = task.source_size - task.size;
  if (!task.is_augmented) return {.top = max_offset / 2, .left = max_offset / 2};
  const DrawKey key{.seed = task.seed, .step = entry.epoch, .worker = 0, .purpose = DrawPurpose::kAugmentation};
  return common::augmentation_of(draw_block(key, entry.index), max_offset);
}

template <bool kStaged, bool kWide>
__global__ void __launch_bounds__(kThreads)
    crop_images_kernel(const CropTask task, const SlotRing ring, const BatchTarget target) {
  __shared__ common::AffineMap map;
  const BatchEntry entry = read_entry(task.entries, ring, blockIdx.x);
  const Augmentation augmentation = augmentation_of(task, entry);
  const auto stride = static_cast<unsigned>(task.source_size);
  const unsigned bytes = kAugmentedChannels * stride * stride;
  const std::uint8_t* image = stage<kStaged>(task.planar + std::int64_t{entry.index} * bytes, bytes);
  const DeviceWindow window{.pixels = image + augmentation.top * task.source_size + augmentation.left,
                            .stride = stride,
                            .plane = stride * stride,
                            .size = static_cast<unsigned>(task.size),
                            .flip = augmentation.flip};
  const common::WindowSums sums = sum_window(window);
  if (threadIdx.x == 0) {
    map = map_of(sums, window.size, static_cast<double>(augmentation.contrast));
    target.labels[blockIdx.x] = entry.label;
  }
  __syncthreads();
  const unsigned elements = kAugmentedChannels * window.size * window.size;
  float* out = target.images + std::int64_t{blockIdx.x} * elements;
  if constexpr (kWide) {
    for (unsigned i = kVector * threadIdx.x; i < elements; i += kVector * kThreads) {
      *reinterpret_cast<float4*>(out + i) =
          make_float4(window.standardized(i, map), window.standardized(i + 1, map), window.standardized(i + 2, map),
                      window.standardized(i + 3, map));
    }
  } else {
    for (unsigned i = threadIdx.x; i < elements; i += kThreads) out[i] = window.standardized(i, map);
  }
}

template <bool kStaged, bool kWide>
void launch_crop(const CropTask& task, const SlotRing& ring, const BatchTarget& target, const Stream& stream) {
  const int bytes = kAugmentedChannels * task.source_size * task.source_size;
  launch(crop_images_kernel<kStaged, kWide>, dim3(num_blocks_for(ring.batch, 1)), dim3(kThreads),
         kStaged ? static_cast<std::size_t>(bytes) : 0, stream, task, ring, target);
}

}  // namespace

void crop_images(const CropTask& task, const SlotRing& ring, const BatchTarget& target, const Stream& stream) {
  const int bytes = kAugmentedChannels * task.source_size * task.source_size;
  const bool is_staged = bytes <= kMaxStagedBytes && bytes % static_cast<int>(sizeof(uint4)) == 0;
  const bool is_wide = task.size * task.size % static_cast<int>(kVector) == 0;  // images are whole vectors
  if (is_staged) {
    is_wide ? launch_crop<true, true>(task, ring, target, stream)
            : launch_crop<true, false>(task, ring, target, stream);
  } else {
    is_wide ? launch_crop<false, true>(task, ring, target, stream)
            : launch_crop<false, false>(task, ring, target, stream);
  }
}

}  // namespace terngrad::cuda
