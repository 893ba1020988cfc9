#include "nets/cuda/concatenation.h"

#include <cuda_runtime.h>

#include "kernels/runtime/errors.h"
#include "nets/cuda/divisor.h"
#include "nets/cuda/packs.cuh"

namespace terngrad::cuda {
namespace {

/// @param packs  packs of copied channels per pixel
template <int kLanes>
__global__ void __launch_bounds__(kPackThreads) copy_channels_kernel(const float* from, int from_channels, float* to,
                                                                     int to_channels, int num_packs, Divisor packs) {
  const int item = item_index();
  if (item >= num_packs) return;
  const int pixel = packs.quotient(item);
  const int channel = (item - pixel * packs.divisor()) * kLanes;
  store_pack(to + std::int64_t{pixel} * to_channels + channel,
             load_pack<kLanes>(from + std::int64_t{pixel} * from_channels + channel));
}

template <int kLanes>
void launch_copy(const Channels<const float>& from, const Channels<float>& to, int count, std::int64_t num_pixels,
                 const Stream& stream) {
  for_each_part(num_pixels, count, [&](std::int64_t first, int num_part_pixels) {
    const int packs = count / kLanes;
    const int num_packs = num_part_pixels * packs;
    launch(copy_channels_kernel<kLanes>, dim3(num_blocks_for(num_packs, kPackThreads)), dim3(kPackThreads), 0, stream,
           from.data + first * from.channels + from.first, from.channels, to.data + first * to.channels + to.first,
           to.channels, num_packs, Divisor(packs));
  });
}

template <class T>
void require_channels(const Channels<T>& channels, int count) {
  TERNGRAD_REQUIRE(count >= 0 && channels.first >= 0 && channels.first <= channels.channels - count,
                   "[concatenation] channels from ", channels.first, ", ", count, " of them, are not all among ",
                   channels.channels);
}

template <class T>
bool is_wide(const Channels<T>& channels) {
  return channels.channels % kWideLanes == 0 && are_aligned_for_packs(channels.data + channels.first);
}

}  // namespace

void copy_channels(const Channels<const float>& from, const Channels<float>& to, int count, std::int64_t num_pixels,
                   const Stream& stream) {
  require_channels(from, count);
  require_channels(to, count);
  if (count % kWideLanes == 0 && is_wide(from) && is_wide(to)) {
    launch_copy<kWideLanes>(from, to, count, num_pixels, stream);
  } else {
    launch_copy<1>(from, to, count, num_pixels, stream);
  }
}

}  // namespace terngrad::cuda
