// Reads the same 16 codes of several payloads as words for summation, in any format.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/codes/cuda/codes.cuh"
#include "kernels/codes/cuda/packed_sums.cuh"
#include "kernels/tensor/cuda/reduce.cuh"

namespace terngrad::cuda {

/// Reads this thread's word in each payload of a batch, codes in two's complement; results for missing payloads are
/// unspecified. Missing payloads and words are read as the last existing one, so that no branch separates the loads.
/// @param payload_of  address of payload k of the batch, also for missing ones
/// @param left        number of existing payloads, from the first of the batch on
template <TernaryFormat kFormat>
struct WordReader;

template <>
struct WordReader<TernaryFormat::kT2> {
  std::int64_t word;

  __device__ WordReader(std::int64_t count, std::int64_t chunk) {
    word = min(chunk * kChunkWords + threadIdx.x, (count - 1) / kCodesPerWord);
  }
  template <class PayloadOf>
  __device__ void read(const PayloadOf& payload_of, int, std::uint32_t (&words)[kPayloadBatch]) const {
#pragma unroll
    for (int k = 0; k < kPayloadBatch; ++k) words[k] = __ldg(payload_of(k) + word);
  }
};

template <>
struct WordReader<TernaryFormat::kT5> {
  T5Place place;

  __device__ WordReader(std::int64_t count, std::int64_t chunk)
      : place(min(chunk * kChunkElements + threadIdx.x * kCodesPerWord, (count - 1) / kCodesPerWord * kCodesPerWord),
              count) {}
  template <class PayloadOf>
  __device__ void read(const PayloadOf& payload_of, int, std::uint32_t (&words)[kPayloadBatch]) const {
    std::uint32_t high[kPayloadBatch];
#pragma unroll
    for (int k = 0; k < kPayloadBatch; ++k) {
      const std::uint32_t* at = payload_of(k) + place.word;
      words[k] = __ldg(at);
      high[k] = __ldg(at + (place.is_split ? 1 : 0));
    }
#pragma unroll
    for (int k = 0; k < kPayloadBatch; ++k) words[k] = t5_as_t2(words[k], high[k], place);
  }
};

/// Each warp reads one payload for the whole block, which has kChunkWords threads.
static_assert(kChunkWords / kWarpThreads == kPayloadBatch, "a warp per payload of a batch");
template <>
struct WordReader<TernaryFormat::kTMask> {
  std::int64_t num_codes;
  std::int64_t chunk;

  __device__ WordReader(std::int64_t count, std::int64_t tile) : num_codes(count), chunk(tile) {}
  template <class PayloadOf>
  __device__ void read(const PayloadOf& payload_of, int left, std::uint32_t (&words)[kPayloadBatch]) const {
    __shared__ std::uint32_t of_payload[kPayloadBatch][kChunkWords];
    const unsigned warp = threadIdx.x / kWarpThreads;
    if (static_cast<int>(warp) < left) {
      const TMaskView view(payload_of(static_cast<int>(warp)), num_codes);
      const std::int64_t first = chunk * (kChunkElements / 32) + threadIdx.x % kWarpThreads;
      std::uint32_t masks[kChunkWarpCodes];
#pragma unroll
      for (unsigned part = 0; part < kChunkWarpCodes; ++part) masks[part] = view.mask(first + part * kWarpThreads);
      std::uint64_t sign = std::uint64_t{8} * __ldg(view.offsets + chunk);
#pragma unroll
      for (unsigned part = 0; part < kChunkWarpCodes; ++part) {
        const uint2 pair = view.warp_words(masks[part], sign);
        const unsigned at = 2 * (part * kWarpThreads + threadIdx.x % kWarpThreads);
        of_payload[warp][at] = pair.x;
        of_payload[warp][at + 1] = pair.y;
        sign += warp_sum(static_cast<unsigned>(__popc(masks[part])));
      }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kPayloadBatch; ++k) words[k] = k < left ? of_payload[k][threadIdx.x] : 0;
    __syncthreads();  // before of_payload is overwritten
  }
};

}  // namespace terngrad::cuda
