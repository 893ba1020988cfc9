// Unpacking of codes and addition of lanes on a GPU.
#include "kernels/codes/cuda/ternary_pack.h"

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/codes/cuda/codes.cuh"
#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/errors.h"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = kChunkWords;  // one word of 16 codes per thread
constexpr unsigned kGroupsPerThread = static_cast<unsigned>(kChunkElements) / 4 / kThreads;

/// Codes [first, first + count) of a payload, and the output.
struct Range {
  std::int64_t num_codes;
  std::int64_t first;
  std::int64_t count;
  std::int16_t* out;

  /// Writes codes [code, code + 4) of the payload, limited to the range.
  __device__ void store(std::int64_t code, const int (&values)[4]) const {
    const std::int64_t at = code - first;
    if (at >= 0 && at + 4 <= count && reinterpret_cast<std::uintptr_t>(out + at) % sizeof(uint2) == 0) {
      const auto pair = [](int low, int high) {
        return (static_cast<std::uint32_t>(low) & 0xffffu) | static_cast<std::uint32_t>(high) << 16;
      };
      __stwb(reinterpret_cast<uint2*>(out + at), make_uint2(pair(values[0], values[1]), pair(values[2], values[3])));
      return;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (at + j >= 0 && at + j < count) out[at + j] = static_cast<std::int16_t>(values[j]);
    }
  }
};

/// One block per chunk of the payload that the range touches.
template <TernaryFormat kFormat>
__global__ void __launch_bounds__(kThreads) unpack_kernel(const std::uint32_t* __restrict__ payload, Range range) {
  __shared__ std::uint32_t words[kChunkWords];
  const std::int64_t chunk = range.first / kChunkElements + blockIdx.x;
  const std::int64_t word = chunk * kChunkWords + threadIdx.x;
  const bool is_inside = word * kCodesPerWord < range.num_codes;
  if constexpr (kFormat == TernaryFormat::kT2) {
    words[threadIdx.x] = is_inside ? __ldg(payload + word) : 0;
  } else if constexpr (kFormat == TernaryFormat::kT5) {
    std::uint32_t codes = 0;
    if (is_inside) {
      const T5Place place(word * kCodesPerWord, range.num_codes);
      codes = t5_as_t2(__ldg(payload + place.word), __ldg(payload + place.word + (place.is_split ? 1 : 0)), place);
    }
    words[threadIdx.x] = codes;
  } else {
    const unsigned part = threadIdx.x / kWarpThreads;
    if (part < kChunkWarpCodes) {
      const uint2 pair = TMaskView(payload, range.num_codes).part_of_chunk(chunk, part);
      words[2 * threadIdx.x] = pair.x;
      words[2 * threadIdx.x + 1] = pair.y;
    }
  }
  __syncthreads();
#pragma unroll
  for (unsigned i = 0; i < kGroupsPerThread; ++i) {
    const unsigned group = i * kThreads + threadIdx.x;
    const std::uint32_t four = words[group / 4] >> (8 * (group % 4));
    range.store(chunk * kChunkElements + 4 * group,
                {code_at(four, 0), code_at(four, 1), code_at(four, 2), code_at(four, 3)});
  }
}

/// Like unpack_kernel, for lanes.
__global__ void __launch_bounds__(kThreads)
    unpack_lanes_kernel(const std::uint64_t* __restrict__ words, Range range, int bias, int bits) {
  const std::int64_t chunk = range.first / kChunkElements + blockIdx.x;
  const LaneReader reader(range.num_codes, chunk, bits);
#pragma unroll
  for (unsigned i = 0; i < kGroupsPerThread; ++i) {
    const unsigned element = 4 * (i * kThreads + threadIdx.x);
    const std::int64_t code = chunk * kChunkElements + element;
    if (code >= range.num_codes) break;
    int values[4] = {-bias, -bias, -bias, -bias};
    reader.add_group(words, element, values);
    range.store(code, values);
  }
}

/// Like unpack_kernel, for q4 and q8.
template <unsigned kBits>
__global__ void __launch_bounds__(kThreads)
    unpack_levels_kernel(const std::uint32_t* __restrict__ payload, Range range) {
  const std::int64_t chunk = range.first / kChunkElements + blockIdx.x;
#pragma unroll
  for (unsigned i = 0; i < kGroupsPerThread; ++i) {
    const std::int64_t code = chunk * kChunkElements + 4 * (i * kThreads + threadIdx.x);
    if (code >= range.num_codes) break;
    const std::uint32_t four = four_codes<kBits>(payload, code);
    range.store(
        code, {level_at<kBits>(four, 0), level_at<kBits>(four, 1), level_at<kBits>(four, 2), level_at<kBits>(four, 3)});
  }
}

struct alignas(16) WordPair {
  std::uint64_t low;
  std::uint64_t high;
};

/// One thread per pair of words. @param is_aligned  true if both arrays begin at a multiple of 16 bytes
__global__ void __launch_bounds__(kThreads)
    add_lanes_kernel(std::uint64_t* lanes, const std::uint64_t* other, std::int64_t count, bool is_aligned) {
  const std::int64_t pair = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t word = 2 * pair;
  if (is_aligned && word + 1 < count) {
    const WordPair a = reinterpret_cast<const WordPair*>(lanes)[pair];
    const WordPair b = reinterpret_cast<const WordPair*>(other)[pair];
    reinterpret_cast<WordPair*>(lanes)[pair] = {a.low + b.low, a.high + b.high};
    return;
  }
  if (word < count) lanes[word] += other[word];
  if (word + 1 < count) lanes[word + 1] += other[word + 1];
}

}  // namespace

void unpack_codes(const PackedCodes& codes, std::int64_t first, std::span<std::int16_t> out, const Stream& stream) {
  const Range range = {codes.num_codes, first, static_cast<std::int64_t>(out.size()), out.data()};
  const std::int64_t first_chunk = first / kChunkElements;
  const std::int64_t end_chunk = (first + range.count + kChunkElements - 1) / kChunkElements;
  const dim3 grid(num_blocks_for(end_chunk - first_chunk, 1));
  const auto* words = reinterpret_cast<const std::uint32_t*>(codes.payload.data());
  switch (codes.format) {
    case TernaryFormat::kT2:
      return launch(unpack_kernel<TernaryFormat::kT2>, grid, dim3(kThreads), 0, stream, words, range);
    case TernaryFormat::kT5:
      return launch(unpack_kernel<TernaryFormat::kT5>, grid, dim3(kThreads), 0, stream, words, range);
    case TernaryFormat::kTMask:
      return launch(unpack_kernel<TernaryFormat::kTMask>, grid, dim3(kThreads), 0, stream, words, range);
    case TernaryFormat::kLanes:
      return launch(unpack_lanes_kernel, grid, dim3(kThreads), 0, stream,
                    reinterpret_cast<const std::uint64_t*>(codes.payload.data()), range,
                    lane_bias(codes.num_workers, codes.lane_levels), lane_bits(codes.num_workers, codes.lane_levels));
    case CodeFormat::kQ4:
      return launch(unpack_levels_kernel<4>, grid, dim3(kThreads), 0, stream, words, range);
    case CodeFormat::kQ8:
      return launch(unpack_levels_kernel<8>, grid, dim3(kThreads), 0, stream, words, range);
    case CodeFormat::kN8:
    case CodeFormat::kN4:
    case CodeFormat::kE4M3:
    case CodeFormat::kBits:
    case CodeFormat::kE2:
    case CodeFormat::kE3:
    case CodeFormat::kE4:
    case CodeFormat::kTrans:
      break;  // refused earlier
  }
}

void add_lanes(std::span<std::uint64_t> lanes, std::span<const std::uint64_t> other, const Stream& stream) {
  const auto count = static_cast<std::int64_t>(lanes.size());
  const dim3 grid(num_blocks_for(count, std::int64_t{2} * kThreads));
  const bool is_aligned = (reinterpret_cast<std::uintptr_t>(lanes.data()) % sizeof(WordPair) == 0) &&
                          (reinterpret_cast<std::uintptr_t>(other.data()) % sizeof(WordPair) == 0);
  launch(add_lanes_kernel, grid, dim3(kThreads), 0, stream, lanes.data(), other.data(), count, is_aligned);
}

}  // namespace terngrad::cuda
