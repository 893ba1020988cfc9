// Top-k selection on a GPU by radix histograms of the 31 magnitude bits: passes over the upper 12, next 12 and last 7
// bits each extend the known upper bits of the k-th magnitude. Counts are integers, so the order of threads does not
// matter.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/tensor/cuda/elements.cuh"
#include "kernels/tensor/cuda/reduce.cuh"

namespace terngrad::cuda {

inline constexpr unsigned kSelectThreads = 256;
inline constexpr std::uint32_t kSelectBins = 4096;     // bins of the first two passes
inline constexpr std::uint32_t kLastSelectBins = 128;  // bins of the last pass
static_assert(kSelectBins % kSelectThreads == 0 && kLastSelectBins <= kSelectThreads);

/// State of the search for the k-th magnitude after some passes.
struct Selected {
  std::uint32_t bits;  // known upper bits, right-aligned
  std::uint32_t left;  // elements with these bits to keep; after the last pass, the first ones
};

__device__ inline std::uint32_t magnitude_of(float value) { return __float_as_uint(value) & 0x7fffffffu; }

/// Number of bits below those of a pass.
template <int kPass>
constexpr int kSelectShift = kPass == 0   ? 19
                             : kPass == 1 ? 7
                                          : 0;
template <int kPass>
constexpr std::uint32_t kBinsOfPass = kPass == 2 ? kLastSelectBins : kSelectBins;

/// True if a magnitude has the upper bits that are known before a pass.
template <int kPass>
__device__ bool has_known_bits(std::uint32_t magnitude, const Selected& known) {
  if constexpr (kPass == 0) return true;
  return magnitude >> kSelectShift<kPass - (kPass > 0 ? 1 : 0)> == known.bits;
}

/// Counts a magnitude in the pass's histogram.
template <int kPass>
__device__ void count_magnitude(std::uint32_t magnitude, const Selected& known, std::uint32_t* histogram) {
  if (!has_known_bits<kPass>(magnitude, known)) return;
  atomicAdd(histogram + (magnitude >> kSelectShift<kPass> & (kBinsOfPass<kPass> - 1)), 1u);
}

/// Finds the bin of the k-th magnitude. Every thread of a block of kSelectThreads must call it, after a barrier behind
/// the counting.
/// @param known   state before the pass; before the first, its `left` is k
/// @param result  out, written by one thread: read it after a barrier
template <int kPass>
__device__ void find_bin(const std::uint32_t* histogram, const Selected& known, Selected* result) {
  constexpr std::uint32_t kPerThread = kBinsOfPass<kPass> >= kSelectThreads ? kBinsOfPass<kPass> / kSelectThreads : 1;
  // Thread 0 has the largest bins.
  const std::uint32_t beyond = kBinsOfPass<kPass> - min(threadIdx.x * kPerThread, kBinsOfPass<kPass>);
  const std::uint32_t first = beyond > kPerThread ? beyond - kPerThread : 0;
  unsigned own = 0;
  if constexpr (kPerThread == 16) {
    // Lanes start at different bins, which spreads the reads over the banks of shared memory.
#pragma unroll
    for (std::uint32_t i = 0; i < kPerThread; ++i) {
      own += histogram[first + ((i + threadIdx.x % kWarpThreads / 2) & (kPerThread - 1))];
    }
  } else {
    for (std::uint32_t bin = first; bin < beyond; ++bin) own += histogram[bin];
  }
  unsigned total = 0;
  const unsigned above = block_exclusive_sum<kSelectThreads>(own, total);
  if (known.left <= above || known.left - above > own) return;
  std::uint32_t left = known.left - above;
  std::uint32_t bin = beyond - 1;
  while (histogram[bin] < left) left -= histogram[bin--];
  constexpr int kBits = kPass == 0 ? 12 : kSelectShift<kPass - (kPass > 0 ? 1 : 0)> - kSelectShift<kPass>;
  *result = {kPass == 0 ? bin : known.bits << kBits | bin, left};
}

/// Masks of the kept elements among four consecutive ones.
struct KeptQuad {
  unsigned above = 0;  // bit i: element i is larger than the k-th
  unsigned equal = 0;  // bit i: element i equals the k-th
};

/// Counts of a run's elements before the current position, as a block walks through it in order.
struct KeptBefore {
  std::uint32_t above = 0;  // elements larger than the k-th
  std::uint32_t equal = 0;  // elements equal to the k-th, of which the first `left` are kept
};

/// Calls store(index in the quad, output position among the k) for the kept elements of each thread's quad, in thread
/// order. Every thread of a block of kSelectThreads must call it.
/// @param before  advanced by the block's counts, equally in all threads
template <class Store>
__device__ void place_quads(const KeptQuad& quad, const Selected& selected, KeptBefore& before, const Store& store) {
  unsigned total = 0;
  const unsigned own = static_cast<unsigned>(__popc(quad.above)) | static_cast<unsigned>(__popc(quad.equal)) << 16;
  const unsigned sum = block_exclusive_sum<kSelectThreads>(own, total);  // at most 1024 of each, so 16 bits suffice
  std::uint32_t above = before.above + (sum & 0xffffu);
  std::uint32_t equal = before.equal + (sum >> 16);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bool is_above = (quad.above >> i & 1u) != 0;
    const bool is_equal = (quad.equal >> i & 1u) != 0;
    if (is_above || (is_equal && equal < selected.left)) store(i, above + min(equal, selected.left));
    above += is_above ? 1 : 0;
    equal += is_equal ? 1 : 0;
  }
  before.above += total & 0xffffu;
  before.equal += total >> 16;
}

/// Four elements from `at` on, padded with zeros beyond num_elements.
template <class Element>
struct Quad {
  float values[4] = {};
  int count;

  /// @param counts_as_zero  true if the tensor is not finite
  __device__ Quad(const Element* elements, std::int64_t at, std::int64_t num_elements, bool counts_as_zero)
      : count(static_cast<int>(max(std::int64_t{0}, min(std::int64_t{4}, num_elements - at)))) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < count && !counts_as_zero) values[i] = widened(elements[at + i]);
    }
  }
};

template <class Element>
inline constexpr std::uintptr_t kQuadBytes = 4 * sizeof(Element);

/// True if a quad from here on can be loaded by one access.
template <class Element>
__device__ bool is_quad_aligned(const Element* elements) {
  return reinterpret_cast<std::uintptr_t>(elements) % kQuadBytes<Element> == 0;
}

/// Magnitudes of up to four consecutive elements, as bit patterns.
struct MagnitudeQuad {
  std::uint32_t magnitudes[4];
  int count;
};

template <class Element>
__device__ MagnitudeQuad magnitudes_of(const Quad<Element>& quad) {
  return {{magnitude_of(quad.values[0]), magnitude_of(quad.values[1]), magnitude_of(quad.values[2]),
           magnitude_of(quad.values[3])},
          quad.count};
}

/// Loads four elements by one access.
template <class Element>
__device__ float4 load_quad(const Element* elements) {
  if constexpr (sizeof(Element) == sizeof(float)) {
    return __ldg(reinterpret_cast<const float4*>(elements));
  } else {
    const uint2 words = __ldg(reinterpret_cast<const uint2*>(elements));
    const float2 low = widened_pair<Element>(words.x);
    const float2 high = widened_pair<Element>(words.y);
    return {low.x, low.y, high.x, high.y};
  }
}

__device__ inline MagnitudeQuad magnitudes_of(const float4& v) {
  return {{magnitude_of(v.x), magnitude_of(v.y), magnitude_of(v.z), magnitude_of(v.w)}, 4};
}

/// Compares a quad's magnitudes with the threshold. @param threshold  the k-th magnitude
__device__ inline KeptQuad kept_of(const MagnitudeQuad& quad, std::uint32_t threshold) {
  KeptQuad kept;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i >= quad.count) continue;
    kept.above |= (quad.magnitudes[i] > threshold ? 1u : 0u) << i;
    kept.equal |= (quad.magnitudes[i] == threshold ? 1u : 0u) << i;
  }
  return kept;
}

}  // namespace terngrad::cuda
