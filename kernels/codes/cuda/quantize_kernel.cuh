// Generic quantization on a GPU: one block per chunk, a rule that computes the codes of 8 elements, and the storage of
// codes.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/codes/cuda/draws.cuh"
#include "kernels/codes/cuda/encode_tiles.cuh"
#include "kernels/codes/lanes.h"
#include "kernels/codes/quantize_task.h"
#include "kernels/codes/ternary.h"
#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/cuda/elements.cuh"

namespace terngrad::cuda {

/// QuantizeTask in the form for kernels.
struct QuantizeJob {
  const void* gradient;  // elements of the kernel's element type
  const float* scalers;
  std::uint8_t* payload;
  std::int64_t first;
  std::int64_t count;
  std::int64_t draw_offset;
  std::int64_t block_elements;
  TaskDraws draws;
};

/// Arguments common to all kernels.
struct QuantizeWork {
  const QuantizeJob* jobs;
  const EncodeTile* tiles;
  DrawStream stream;
  std::uint32_t refine_purpose;
};

/// Eight consecutive elements in memory, their scaler and their draws.
template <class Element>
struct QuantizeRun {
  const Element* values;
  std::int64_t count;  // remaining elements from the first on, at least 1
  float scaler;
  std::uint64_t draw_index;  // draw index of the first element, a multiple of 8
  std::uint32_t worker;
  Stratum stratum;  // kStratified only
  std::uint64_t step;
  const float* scalers;       // scalers of the job
  std::int64_t scaler_index;  // index of the run's scaler
  std::int64_t position;      // offset of the first element in the segment

  __device__ uint4 draws(const DrawStream& stream) const {
    return draw_block(stream, step, worker, stream.purpose, draw_index / kRunElements);
  }
  /// 24 refinement bits for element i.
  __device__ std::uint32_t refinement(const DrawStream& stream, std::uint32_t purpose, int i) const {
    return draw32(stream, step, worker, purpose, draw_index + static_cast<std::uint64_t>(i)) >> 8;
  }
  /// Element i, read from memory again: registers cannot be indexed.
  __device__ float value(int i) const { return widened(values[i]); }
};

/// Codes of eight elements from `offset` of a tile on, one byte each. @param begin  offset of the tile in the job
template <class Rule, class Element>
__device__ uint2 quantize_run(const QuantizeJob& job, const EncodeTile& tile, std::int64_t begin, unsigned offset,
                              const float (&g)[kRunElements], const QuantizeWork& work, std::uint64_t step,
                              const Rule& rule) {
  const std::int64_t at = begin + offset;
  const std::int64_t index = scaler_index(job.block_elements, tile, offset);
  const QuantizeRun<Element> run = {static_cast<const Element*>(job.gradient) + at,
                                    job.count - at,
                                    job.scalers[index],
                                    static_cast<std::uint64_t>(job.draw_offset + job.first + at),
                                    job.draws.worker,
                                    job.draws.stratum,
                                    step,
                                    job.scalers,
                                    index,
                                    job.first + at};
  return rule.codes(g, run, work.stream, work.refine_purpose);
}

/// Low `count` bytes of a word; all for count >= 4.
__device__ inline std::uint32_t low_bytes(std::uint32_t word, int count) {
  return count >= 4 ? word : count <= 0 ? 0 : word & ((1u << (8 * count)) - 1);
}

/// Packs the low bits of eight bytes.
template <unsigned kBits>
__device__ std::uint32_t packed_bits(uint2 codes) {
  const auto four = [](std::uint32_t bytes) {
    constexpr std::uint32_t kPair = (1u << 2 * kBits) - 1;
    const std::uint32_t pairs = (bytes | bytes >> (8 - kBits)) & (kPair << 16 | kPair);
    return (pairs | pairs >> (16 - 2 * kBits)) & ((1u << 4 * kBits) - 1);
  };
  return four(codes.x) | four(codes.y) << 4 * kBits;
}

/// Packs four bytes of code + 1 to t2.
__device__ inline std::uint32_t t2_of(std::uint32_t bytes) {
  const std::uint32_t codes = (bytes + 0x03030303u) & 0x03030303u;
  const std::uint32_t pairs = (codes | codes >> 6) & 0x000f000fu;
  return (pairs | pairs >> 12) & 0xffu;
}

/// Elements per word of a format; runs are stored up to a multiple of it.
template <CodeFormat kFormat>
constexpr std::int64_t kWordElements = kFormat == CodeFormat::kT2 || kFormat == CodeFormat::kE2 ? 16
                                       : kFormat == CodeFormat::kBits                           ? 32
                                                                                                : 1;

/// Writes the codes of a thread's run, zero-padded.
/// @param at     offset of the run in the job
/// @param codes  for bits in the low byte, else one byte each. Unspecified beyond the job's last element; only for t2,
///               bits and e2 may a run have no elements
template <CodeFormat kFormat>
__device__ void store_run(const QuantizeJob& job, std::int64_t at, uint2 codes) {
  const std::int64_t left = job.count - at;
  const int present = left < kRunElements ? static_cast<int>(left) : kRunElements;
  if constexpr (kFormat == CodeFormat::kT2) {
    const std::uint32_t half = present <= 0 ? 0 : t2_of(codes.x) | t2_of(codes.y) << 8;
    // Elements past the end were loaded as zeros, whose t2 code is 0.
    reinterpret_cast<std::uint16_t*>(job.payload)[at / kRunElements] = static_cast<std::uint16_t>(half);
    return;
  }
  if constexpr (kFormat == CodeFormat::kBits) {
    const std::uint32_t left_bits = present <= 0 ? 0 : codes.x & (0xffu >> (kRunElements - present));
    job.payload[at / kRunElements] = static_cast<std::uint8_t>(left_bits);
    return;
  }
  codes.x = low_bytes(codes.x, present);
  codes.y = low_bytes(codes.y, present - 4);
  auto* words = reinterpret_cast<std::uint32_t*>(job.payload);
  if constexpr (kFormat == CodeFormat::kE2) {
    reinterpret_cast<std::uint16_t*>(job.payload)[at / kRunElements] =
        static_cast<std::uint16_t>(packed_bits<2>(codes));
  } else if constexpr (kFormat == CodeFormat::kE3) {
    const std::uint32_t bits = packed_bits<3>(codes);
    std::uint8_t* bytes = job.payload + at / kRunElements * 3;
#pragma unroll
    for (unsigned i = 0; i < 3; ++i) bytes[i] = static_cast<std::uint8_t>(bits >> 8 * i);
    if (left > kRunElements) return;
    // Padding after the last run.
    for (std::uint8_t* end = bytes + 3; reinterpret_cast<std::uintptr_t>(end) % 4 != 0; ++end) *end = 0;
  } else if constexpr (kFormat == CodeFormat::kQ4 || kFormat == CodeFormat::kN4 || kFormat == CodeFormat::kE4) {
    __stcg(words + at / kRunElements, packed_bits<4>(codes));
  } else {
    words += at / 4;
    if (present > 4 && reinterpret_cast<std::uintptr_t>(words) % sizeof(uint2) == 0) {
      __stcg(reinterpret_cast<uint2*>(words), codes);
      return;
    }
    __stcg(words, codes.x);
    if (present > 4) __stcg(words + 1, codes.y);
  }
}

template <class Rule, CodeFormat kFormat, class Element>
__global__ void __launch_bounds__(kEncodeThreads) quantize_kernel(const QuantizeWork work, const Rule rule) {
  constexpr unsigned kSecond = kEncodeThreads * kRunElements;  // offset of the threads' second runs
  const EncodeTile tile = work.tiles[blockIdx.x];
  const QuantizeJob job = work.jobs[tile.job];
  const std::int64_t begin = std::int64_t{tile.group} * kChunkElements;
  const std::int64_t count = min(kChunkElements, job.count - begin);
  const unsigned offset = threadIdx.x * kRunElements;
  const Element* values = static_cast<const Element*>(job.gradient) + begin;
  float low[kRunElements];
  float high[kRunElements];
  load_run(values + offset, count - offset, low);
  load_run(values + kSecond + offset, count - kSecond - offset, high);
  const std::uint64_t step = step_of(work.stream);
  // A word of t2 or e2 holds two runs, one of bits holds four.
  constexpr std::int64_t kWord = kWordElements<kFormat>;
  const std::int64_t end = (count + kWord - 1) / kWord * kWord;
  if (offset < end) {
    uint2 codes = {0, 0};
    if (offset < count) codes = quantize_run<Rule, Element>(job, tile, begin, offset, low, work, step, rule);
    store_run<kFormat>(job, begin + offset, codes);
  }
  if (kSecond + offset < end) {
    uint2 codes = {0, 0};
    if (kSecond + offset < count) {
      codes = quantize_run<Rule, Element>(job, tile, begin, kSecond + offset, high, work, step, rule);
    }
    store_run<kFormat>(job, begin + kSecond + offset, codes);
  }
}

/// Lanes: a block writes the words whose first lane is in its chunk, and therefore also computes the codes of up to 31
/// elements of the next chunk.
template <class Rule, class Element>
__global__ void __launch_bounds__(kEncodeThreads, resident_blocks(4))
    quantize_lanes_kernel(const QuantizeWork work, const Rule rule, int bits, int per_word) {
  constexpr unsigned kMostLanes = 32;
  __shared__ __align__(8) std::uint8_t codes[kChunkElements + kMostLanes];
  const EncodeTile tile = work.tiles[blockIdx.x];
  const QuantizeJob job = work.jobs[tile.job];
  const std::int64_t begin = std::int64_t{tile.group} * kChunkElements;
  const std::int64_t left = job.count - begin;
  const Element* values = static_cast<const Element*>(job.gradient) + begin;
  const std::uint64_t step = step_of(work.stream);
  for (unsigned offset = threadIdx.x * kRunElements; offset < kChunkElements + kMostLanes;
       offset += kEncodeThreads * kRunElements) {
    if (offset >= left) break;
    float g[kRunElements];
    load_run(values + offset, left - offset, g);
    *reinterpret_cast<uint2*>(codes + offset) =
        quantize_run<Rule, Element>(job, tile, begin, offset, g, work, step, rule);
  }
  __syncthreads();
  const std::int64_t first_word = (begin + per_word - 1) / per_word;
  const std::int64_t end_element = min(begin + kChunkElements, job.count);
  const auto num_words = static_cast<unsigned>((end_element + per_word - 1) / per_word - first_word);
  auto* out = reinterpret_cast<std::uint64_t*>(job.payload) + first_word;
  const auto lanes = static_cast<unsigned>(per_word);
  const auto skipped = static_cast<unsigned>(first_word * per_word - begin);
  for (unsigned word = threadIdx.x; word < num_words; word += kEncodeThreads) {
    const unsigned first = skipped + word * lanes;
    std::uint64_t value = 0;
    for (unsigned i = lanes; i-- > 0;) {
      value = value << bits | (first + i < left ? codes[first + i] : 0);
    }
    out[word] = value;
  }
}

/// Draws that workers share, if any do.
struct SharedDraws {
  Rounding rounding = Rounding::kStochastic;  // kStratified: they do
  int num_workers = 1;
};

/// Launches the kernels; caches the task tables on the GPU.
class QuantizeLauncher {
 public:
  explicit QuantizeLauncher(const Device& device) : jobs_table_(device), tiles_table_(device) {}

  /// @param rule       copied to the kernel: uint2 codes(g, run, stream, refine_purpose) returns the codes of 8
  ///                   elements g
  /// @param lane_bits  for kLanes
  /// @param shared     for kStratified
  template <CodeFormat kFormat, class Rule>
  void run(std::span<const QuantizeTask> tasks, ElementType type, const Rule& rule, const DrawKey& key,
           DrawPurpose refine_purpose, const std::uint64_t* device_step, Stream& stream, int lane_bits = 0,
           const SharedDraws& shared = {}) {
    prepare(tasks, key, shared);
    const QuantizeWork work = {jobs_table_.on_device(jobs_, stream), tiles_table_.on_device(tiles_, stream),
                               make_draw_stream(key, device_step), static_cast<std::uint32_t>(refine_purpose)};
    const dim3 grid(static_cast<unsigned>(tiles_.size()));
    with_element(type, [&]<class Element>(Element) {
      if constexpr (kFormat == CodeFormat::kLanes) {
        launch(quantize_lanes_kernel<Rule, Element>, grid, dim3(kEncodeThreads), 0, stream, work, rule, lane_bits,
               lanes_per_word(lane_bits));
      } else {
        launch(quantize_kernel<Rule, kFormat, Element>, grid, dim3(kEncodeThreads), 0, stream, work, rule);
      }
    });
  }

 private:
  void prepare(std::span<const QuantizeTask> tasks, const DrawKey& key, const SharedDraws& shared) {
    jobs_.clear();
    tiles_.clear();
    for (const QuantizeTask& task : tasks) {
      const std::int64_t num_chunks = (task.count + kChunkElements - 1) / kChunkElements;
      TERNGRAD_REQUIRE(num_chunks + static_cast<std::int64_t>(tiles_.size()) <= 0x7fffffff,
                       "[quantize] more chunks than one launch can hold");
      const auto job = static_cast<std::int32_t>(jobs_.size());
      for (std::int64_t chunk = 0; chunk < num_chunks; ++chunk) {
        tiles_.push_back(encode_tile(task, job, chunk, kChunkElements));
      }
      jobs_.push_back({task.gradient, task.scalers, task.payload, task.first, task.count, task.draw_offset,
                       task.block_elements, task_draws(shared.rounding, key, task.worker, shared.num_workers)});
    }
  }

  std::vector<QuantizeJob> jobs_;
  std::vector<EncodeTile> tiles_;
  UploadedTable<QuantizeJob> jobs_table_;
  UploadedTable<EncodeTile> tiles_table_;
};

}  // namespace terngrad::cuda
