#include "nets/cuda/dropout.h"

#include <cuda_runtime.h>

#include <cmath>

#include "kernels/codes/cuda/draws.cuh"
#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/errors.h"
#include "nets/cuda/packs.cuh"

namespace terngrad::cuda {
namespace {

constexpr int kBlockDraws = 4;

/// Scales elements whose 24-bit draw is below `threshold` and zeroes others.
struct Mask {
  std::uint32_t threshold;
  float scale;
  __device__ float operator()(std::uint32_t word, float value) const {
    return word >> 8 < threshold ? value * scale : 0.0f;
  }
};

/// blockIdx: (draws, worker). Each thread processes the elements of one Philox block.
template <bool kAligned>
__global__ void __launch_bounds__(kPackThreads)
    dropout_kernel(DrawStream draws, std::uint64_t first_block, Mask mask, const float* input,
                   std::int64_t elements_per_worker, float* output) {
  const std::int64_t block = std::int64_t{blockIdx.x} * kPackThreads + threadIdx.x;
  const std::int64_t first = block * kBlockDraws;
  if (first >= elements_per_worker) return;
  const uint4 words =
      draw_block(draws, step_of(draws), blockIdx.y, draws.purpose, first_block + static_cast<std::uint64_t>(block));
  const float* from = input + blockIdx.y * elements_per_worker + first;
  float* to = output + blockIdx.y * elements_per_worker + first;
  if constexpr (kAligned) {
    const Pack<kBlockDraws> in = load_pack<kBlockDraws>(from);
    // nvcc would split a plain store into four.
    __stwb(reinterpret_cast<float4*>(to), make_float4(mask(words.x, in.lanes[0]), mask(words.y, in.lanes[1]),
                                                      mask(words.z, in.lanes[2]), mask(words.w, in.lanes[3])));
  } else {
    const std::int64_t count = elements_per_worker - first;
    to[0] = mask(words.x, from[0]);
    if (count > 1) to[1] = mask(words.y, from[1]);
    if (count > 2) to[2] = mask(words.z, from[2]);
    if (count > 3) to[3] = mask(words.w, from[3]);
  }
}

}  // namespace

void apply_dropout(const DropoutDraws& draws, float keep_prob, const float* input, std::int64_t elements_per_worker,
                   int num_workers, float* output, const Stream& stream) {
  TERNGRAD_REQUIRE(draws.first_draw % kBlockDraws == 0, "[dropout] the first draw must be a multiple of ", kBlockDraws,
                   ", is ", draws.first_draw);
  const DrawKey key{draws.seed, draws.step.step, draws.first_worker, DrawPurpose::kDropout};
  // The smallest 24-bit integer u with u / 2^24 >= keep_prob: an element is kept if its 24-bit draw is below.
  const Mask mask{static_cast<std::uint32_t>(std::ceil(static_cast<double>(keep_prob) * 0x1p24)), 1.0f / keep_prob};
  const bool is_aligned = elements_per_worker % kBlockDraws == 0 && are_aligned_for_packs(input, output);
  const dim3 grid(num_blocks_for(elements_per_worker, std::int64_t{kPackThreads} * kBlockDraws),
                  static_cast<unsigned>(num_workers));
  launch(is_aligned ? dropout_kernel<true> : dropout_kernel<false>, grid, dim3(kPackThreads), 0, stream,
         make_draw_stream(key, draws.step.on_device), draws.first_draw / kBlockDraws, mask, input, elements_per_worker,
         output);
}

}  // namespace terngrad::cuda
