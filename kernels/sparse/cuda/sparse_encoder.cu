// Sparse encoding on a GPU. Format runs: three histograms per slice, prefix sums over chunks, and one pass that writes
// places and values of the k elements in order. Format local: one thread block per block. Then places and values are
// packed.
#include "kernels/sparse/cuda/sparse_encoder.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/runtime/cuda/grow.h"
#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"
#include "kernels/sparse/cuda/exclusive_sum.h"
#include "kernels/sparse/cuda/top_k_select.cuh"
#include "kernels/sparse/sparse_layout.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/cuda/reduce.cuh"
#include "kernels/tensor/slice.h"

namespace terngrad::cuda {
namespace {

/// Most chunks per counting block: several share the cost of clearing and adding up 4096 bins. Fewer if the grid would
/// otherwise have less than kBusyBlocks blocks, some for each multiprocessor.
constexpr std::int64_t kMaxTileChunks = 8;
constexpr std::int64_t kBusyBlocks = 4 * 132;
constexpr std::int64_t kRoundElements = std::int64_t{kSelectThreads} * 4;
static_assert(kChunkElements % kRoundElements == 0, "whole rounds of a block cover a chunk");
constexpr unsigned kWarps = kSelectThreads / kWarpThreads;
constexpr unsigned kGroupThreads = 128;
static_assert(kGroupThreads == kSparseGroup, "a thread per place");
/// Words of a local payload that one thread block writes.
constexpr std::int64_t kTileWords = 1024;

/// SparseEncodeTask in the form for kernels.
struct Job {
  const void* values;
  const float* flag;
  std::uint32_t* payload;
  std::int64_t count;
  std::int64_t kept;
  std::int64_t first_place;  // index of the job's first place and value
  std::int64_t first_chunk;  // runs: index of its first chunk over all jobs
  std::int64_t first_group;  // runs: index of its first group over all jobs
  std::int64_t block_elements;
  std::int64_t kept_of_block;  // local: kept elements of a full block
  std::int64_t place_bits;
};

struct Tile {
  std::int32_t job;
  std::int32_t index;  // index of the chunk, block, group or range of words in the job
};

struct ChunkCounts {
  std::uint32_t above;  // elements whose upper bits exceed those known before the last pass
  std::uint16_t bins[kLastSelectBins];
};

__device__ bool counts_as_zero(const Job& job) {
  const float flag = job.flag == nullptr ? 0.0f : *job.flag;
  return flag != flag;
}

/// Calls visit(magnitude) for elements [begin, end) of a job, distributed over the threads of the block.
template <class Element, class Visit>
__device__ void for_magnitudes(const Job& job, std::int64_t begin, std::int64_t end, const Visit& visit) {
  constexpr int kRounds = static_cast<int>(kChunkElements / kRoundElements);
  const bool zeros = counts_as_zero(job);
  const auto* elements = static_cast<const Element*>(job.values);
  std::int64_t at = begin + std::int64_t{threadIdx.x} * 4;
  if (!zeros && is_quad_aligned(elements + begin)) {
    for (; at - threadIdx.x * 4 + kChunkElements <= end; at += kChunkElements) {
      // All loads of a chunk come first, so that they are in flight together.
      MagnitudeQuad quads[kRounds];
#pragma unroll
      for (int round = 0; round < kRounds; ++round) {
        quads[round] = magnitudes_of(load_quad(elements + at + round * kRoundElements));
      }
#pragma unroll
      for (int round = 0; round < kRounds; ++round) {
#pragma unroll
        for (int i = 0; i < 4; ++i) visit(quads[round].magnitudes[i]);
      }
    }
  }
  for (; at < end; at += kRoundElements) {
    const MagnitudeQuad quad = magnitudes_of(Quad<Element>(elements, at, end, zeros));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < quad.count) visit(quad.magnitudes[i]);
    }
  }
}

/// Passes 0 and 1: adds the histogram of a few chunks to their job's histogram.
template <class Element, int kPass>
__global__ void __launch_bounds__(kSelectThreads)
    histogram_kernel(const Job* __restrict__ jobs, const Tile* __restrict__ tiles, std::int64_t tile_chunks,
                     const Selected* __restrict__ selected, std::uint32_t* __restrict__ histograms) {
  __shared__ std::uint32_t bins[kSelectBins];
  const Tile tile = tiles[blockIdx.x];
  const Job job = jobs[tile.job];
  for (std::uint32_t bin = threadIdx.x; bin < kSelectBins; bin += kSelectThreads) bins[bin] = 0;
  __syncthreads();
  Selected known = {0, 0};
  if constexpr (kPass > 0) known = selected[tile.job];
  const std::int64_t begin = std::int64_t{tile.index} * kChunkElements;
  for_magnitudes<Element>(job, begin, min(begin + tile_chunks * kChunkElements, job.count),
                          [&](std::uint32_t magnitude) { count_magnitude<kPass>(magnitude, known, bins); });
  __syncthreads();
  std::uint32_t* of_job = histograms + std::int64_t{tile.job} * kSelectBins;
  for (std::uint32_t bin = threadIdx.x; bin < kSelectBins; bin += kSelectThreads) {
    if (bins[bin] != 0) atomicAdd(of_job + bin, bins[bin]);
  }
}

/// Pass 2: the same, but also stores each chunk's histogram.
template <class Element>
__global__ void __launch_bounds__(kSelectThreads)
    chunk_counts_kernel(const Job* __restrict__ jobs, const Tile* __restrict__ tiles, std::int64_t tile_chunks,
                        const Selected* __restrict__ selected, ChunkCounts* __restrict__ chunks,
                        std::uint32_t* __restrict__ histograms) {
  __shared__ std::uint32_t bins[kLastSelectBins];
  __shared__ std::uint32_t above;
  const Tile tile = tiles[blockIdx.x];
  const Job job = jobs[tile.job];
  const Selected known = selected[tile.job];
  std::uint32_t of_tile = 0;  // count of the thread's bin
  for (std::int64_t chunk = tile.index; chunk < tile.index + tile_chunks && chunk * kChunkElements < job.count;
       ++chunk) {
    if (threadIdx.x < kLastSelectBins) bins[threadIdx.x] = 0;
    if (threadIdx.x == 0) above = 0;
    __syncthreads();
    std::uint32_t own_above = 0;
    const std::int64_t begin = chunk * kChunkElements;
    for_magnitudes<Element>(job, begin, min(begin + kChunkElements, job.count), [&](std::uint32_t magnitude) {
      count_magnitude<2>(magnitude, known, bins);
      own_above += magnitude >> kSelectShift<1> > known.bits ? 1 : 0;
    });
    own_above = warp_sum(own_above);
    if (threadIdx.x % kWarpThreads == 0) atomicAdd(&above, own_above);
    __syncthreads();
    ChunkCounts& counts = chunks[job.first_chunk + chunk];
    if (threadIdx.x < kLastSelectBins) {
      counts.bins[threadIdx.x] = static_cast<std::uint16_t>(bins[threadIdx.x]);
      of_tile += bins[threadIdx.x];
    }
    if (threadIdx.x == 0) counts.above = above;
    // No barrier: each thread clears only counts that it has read itself.
  }
  if (threadIdx.x < kLastSelectBins && of_tile != 0) {
    atomicAdd(histograms + std::int64_t{tile.job} * kSelectBins + threadIdx.x, of_tile);
  }
}

/// One block per job: finds the bin in the job's histogram and clears it for the next pass.
template <int kPass>
__global__ void __launch_bounds__(kSelectThreads)
    find_kernel(const Job* __restrict__ jobs, std::uint32_t* __restrict__ histograms, Selected* __restrict__ selected) {
  std::uint32_t* histogram = histograms + std::int64_t{blockIdx.x} * kSelectBins;
  const Selected known =
      kPass == 0 ? Selected{0, static_cast<std::uint32_t>(jobs[blockIdx.x].kept)} : selected[blockIdx.x];
  __syncthreads();  // before one thread overwrites the state that all have read
  find_bin<kPass>(histogram, known, selected + blockIdx.x);
  __syncthreads();
  for (std::uint32_t bin = threadIdx.x; bin < kBinsOfPass<kPass>; bin += kSelectThreads) histogram[bin] = 0;
}

/// One warp per chunk: counts its elements larger than the k-th (upper half of the result) and equal to it (lower
/// half).
__global__ void __launch_bounds__(kSelectThreads)
    sum_counts_kernel(const Tile* __restrict__ chunk_tiles, std::int64_t num_chunks,
                      const Selected* __restrict__ selected, const ChunkCounts* __restrict__ chunks,
                      std::uint64_t* __restrict__ counts) {
  const std::int64_t chunk = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpThreads;
  if (chunk >= num_chunks) return;  // whole warps
  const std::uint32_t last = selected[chunk_tiles[chunk].job].bits & (kLastSelectBins - 1);
  std::uint32_t above = 0;
  for (std::uint32_t bin = threadIdx.x % kWarpThreads; bin < kLastSelectBins; bin += kWarpThreads) {
    above += bin > last ? chunks[chunk].bins[bin] : 0u;
  }
  above = warp_sum(above) + chunks[chunk].above;
  if (threadIdx.x % kWarpThreads == 0) counts[chunk] = std::uint64_t{above} << 32 | chunks[chunk].bins[last];
}

__device__ float element_of(const float4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

/// Writes the places and values of a chunk's kept elements.
/// @param counts  per chunk: elements larger than the k-th in the upper half, equal ones in the lower
/// @param before  per chunk: exclusive prefix sum of `counts`
template <class Element>
__global__ void __launch_bounds__(kSelectThreads)
    choose_kernel(const Job* __restrict__ jobs, const Tile* __restrict__ chunk_tiles,
                  const Selected* __restrict__ selected, const std::uint64_t* __restrict__ counts,
                  const std::uint64_t* __restrict__ before, std::uint32_t* __restrict__ places,
                  float* __restrict__ values) {
  constexpr int kRounds = static_cast<int>(kChunkElements / kRoundElements);
  const Tile tile = chunk_tiles[blockIdx.x];
  const Job job = jobs[tile.job];
  const Selected chosen = selected[tile.job];
  // The prefix sums run over the chunks of all jobs; within a job, differences fit 32 bits in either half.
  const std::uint64_t in_job = before[blockIdx.x] - before[job.first_chunk];
  KeptBefore kept = {static_cast<std::uint32_t>(in_job >> 32), static_cast<std::uint32_t>(in_job)};
  const std::uint64_t own = counts[blockIdx.x];
  if (own >> 32 == 0 && (static_cast<std::uint32_t>(own) == 0 || kept.equal >= chosen.left)) return;  // nothing is kept
  const bool zeros = counts_as_zero(job);
  const auto* elements = static_cast<const Element*>(job.values);
  const std::int64_t begin = std::int64_t{tile.index} * kChunkElements;
  const std::int64_t end = min(begin + kChunkElements, job.count);
  const std::int64_t first = begin + std::int64_t{threadIdx.x} * 4;
  const auto store = [&](std::int64_t at, std::uint32_t place, float value) {
    if (place >= job.kept) return;  // only if the gradient was modified meanwhile
    places[job.first_place + place] = static_cast<std::uint32_t>(at);
    values[job.first_place + place] = value;
  };
  if (!zeros && end - begin == kChunkElements && is_quad_aligned(elements + begin)) {
    float4 loaded[kRounds];
#pragma unroll
    for (int round = 0; round < kRounds; ++round) loaded[round] = load_quad(elements + first + round * kRoundElements);
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      place_quads(kept_of(magnitudes_of(loaded[round]), chosen.bits), chosen, kept, [&](int i, std::uint32_t place) {
        store(first + round * kRoundElements + i, place, element_of(loaded[round], i));
      });
    }
    return;
  }
  for (std::int64_t round = 0; begin + round < end; round += kRoundElements) {
    const Quad<Element> quad(elements, first + round, end, zeros);
    place_quads(kept_of(magnitudes_of(quad), chosen.bits), chosen, kept,
                [&](int i, std::uint32_t place) { store(first + round + i, place, quad.values[i]); });
  }
}

/// Format local: one thread block does all passes over its block and rereads elements from the caches, if blocks are
/// small enough (at 16384 float32 elements, the resident blocks hold 52 MB).
template <class Element>
__global__ void __launch_bounds__(kSelectThreads, resident_blocks(6))
    choose_in_block_kernel(const Job* __restrict__ jobs, const Tile* __restrict__ block_tiles,
                           std::uint32_t* __restrict__ places, float* __restrict__ values) {
  __shared__ std::uint32_t bins[kSelectBins];
  __shared__ Selected found;
  const Tile tile = block_tiles[blockIdx.x];
  const Job job = jobs[tile.job];
  const std::int64_t begin = std::int64_t{tile.index} * job.block_elements;
  const std::int64_t end = min(begin + job.block_elements, job.count);
  const std::int64_t first_kept = std::int64_t{tile.index} * job.kept_of_block;
  const auto num_kept = static_cast<std::uint32_t>(min(job.kept_of_block, job.kept - first_kept));
  Selected known = {0, num_kept};
  const auto pass = [&](auto number) {
    constexpr int kPass = decltype(number)::value;
    for (std::uint32_t bin = threadIdx.x; bin < kBinsOfPass<kPass>; bin += kSelectThreads) bins[bin] = 0;
    __syncthreads();
    for_magnitudes<Element>(job, begin, end,
                            [&](std::uint32_t magnitude) { count_magnitude<kPass>(magnitude, known, bins); });
    __syncthreads();
    find_bin<kPass>(bins, known, &found);
    __syncthreads();
    known = found;
  };
  pass(std::integral_constant<int, 0>{});
  pass(std::integral_constant<int, 1>{});
  pass(std::integral_constant<int, 2>{});
  const bool zeros = counts_as_zero(job);
  const auto* elements = static_cast<const Element*>(job.values);
  const std::int64_t first_place = job.first_place + first_kept;
  KeptBefore kept;
  for (std::int64_t round = begin; round < end; round += kRoundElements) {
    const std::int64_t at = round + std::int64_t{threadIdx.x} * 4;
    const Quad<Element> quad(elements, at, end, zeros);
    place_quads(kept_of(magnitudes_of(quad), known.bits), known, kept, [&](int i, std::uint32_t place) {
      if (place >= num_kept) return;  // only if the gradient was modified meanwhile
      places[first_place + place] = static_cast<std::uint32_t>(at + i);
      values[first_place + place] = quad.values[i];
    });
  }
}

/// Gap before place `index` of a group, minus one; 0 for the first.
__device__ std::uint32_t gap_at(const std::uint32_t* places, std::int64_t index) {
  return index == 0 ? 0 : places[index] - places[index - 1] - 1;
}

/// One warp per group of runs: computes the bits of its widest gap.
__global__ void __launch_bounds__(kSelectThreads)
    width_kernel(const Job* __restrict__ jobs, const Tile* __restrict__ group_tiles, std::int64_t num_groups,
                 const std::uint32_t* __restrict__ places, std::uint64_t* __restrict__ widths) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpThreads;
  if (index >= num_groups) return;  // whole warps
  const Tile tile = group_tiles[index];
  const Job job = jobs[tile.job];
  const std::uint32_t* of_group = places + job.first_place + std::int64_t{tile.index} * kSparseGroup;
  const std::int64_t count = places_of_group(job.kept, tile.index);
  std::uint32_t gaps = 0;
  for (std::int64_t i = threadIdx.x % kWarpThreads; i < count; i += kWarpThreads) gaps |= gap_at(of_group, i);
  gaps = warp_or(gaps);
  if (threadIdx.x % kWarpThreads == 0) widths[index] = static_cast<std::uint64_t>(32 - __clz(static_cast<int>(gaps)));
}

/// Word `word` of a sequence of `width`-bit numbers, packed low bits first.
template <class Number>
__device__ std::uint32_t packed_word(std::int64_t word, std::int64_t width, std::int64_t count, const Number& number) {
  if (width == 0) return 0;
  std::uint32_t result = 0;
  for (std::int64_t i = word * 32 / width; i < count && i * width < (word + 1) * 32; ++i) {
    const std::int64_t shift = i * width - word * 32;
    const std::uint32_t bits = number(i);
    result |= shift >= 0 ? bits << shift : bits >> -shift;
  }
  return result;
}

/// Word `word` of a job's values.
template <bool kBfloat16>
__device__ std::uint32_t value_word(const float* values, std::int64_t count, std::int64_t word) {
  if constexpr (!kBfloat16) return __float_as_uint(values[word]);
  const std::uint32_t low = to_bfloat16(values[2 * word]);
  return 2 * word + 1 < count ? low | std::uint32_t{to_bfloat16(values[2 * word + 1])} << 16 : low;
}

/// One block per group of runs: writes its header, gaps and values.
/// @param widths  of all groups
/// @param before  exclusive prefix sum of `widths`
template <bool kBfloat16>
__global__ void __launch_bounds__(kGroupThreads)
    write_runs_kernel(const Job* __restrict__ jobs, const Tile* __restrict__ group_tiles,
                      const std::uint32_t* __restrict__ places, const float* __restrict__ values,
                      const std::uint64_t* __restrict__ widths, const std::uint64_t* __restrict__ before) {
  __shared__ std::uint32_t gaps[kSparseGroup];
  const Tile tile = group_tiles[blockIdx.x];
  const Job job = jobs[tile.job];
  const std::int64_t first = std::int64_t{tile.index} * kSparseGroup;
  const std::int64_t count = places_of_group(job.kept, tile.index);
  const std::uint32_t* of_group = places + job.first_place + first;
  if (threadIdx.x < count) gaps[threadIdx.x] = gap_at(of_group, threadIdx.x);
  __syncthreads();
  const auto width = static_cast<std::int64_t>(widths[blockIdx.x]);
  const auto widths_before = static_cast<std::uint32_t>(before[blockIdx.x] - before[job.first_group]);
  if (threadIdx.x == 0) {
    if (tile.index == 0) {
      job.payload[0] = static_cast<std::uint32_t>(job.kept);
      job.payload[1] = 0;
    }
    std::uint32_t* header = job.payload + kRunsHeaderWords + 2 * std::int64_t{tile.index};
    header[0] = of_group[0];
    header[1] = widths_before << kRunsWidthBits | static_cast<std::uint32_t>(width);
  }
  if (threadIdx.x < words_of_bits(count * width)) {
    job.payload[first_gap_word(job.kept, widths_before) + threadIdx.x] =
        packed_word(threadIdx.x, width, count, [&](std::int64_t i) { return gaps[i]; });
  }
  const std::int64_t last = num_sparse_groups(job.kept) - 1;
  const auto widths_before_last = static_cast<std::uint32_t>(before[job.first_group + last] - before[job.first_group]);
  const auto last_width = static_cast<std::int64_t>(widths[job.first_group + last]);
  std::uint32_t* of_values = job.payload + first_gap_word(job.kept, widths_before_last) +
                             words_of_bits(places_of_group(job.kept, last) * last_width);
  constexpr std::int64_t kValuesPerWord = kBfloat16 ? 2 : 1;
  if (threadIdx.x * kValuesPerWord < count) {
    const std::int64_t word = first / kValuesPerWord + threadIdx.x;
    of_values[word] = value_word<kBfloat16>(values + job.first_place, job.kept, word);
  }
}

/// Writes words of a local payload: places, then values.
template <bool kBfloat16>
__global__ void __launch_bounds__(kSelectThreads)
    write_local_kernel(const Job* __restrict__ jobs, const Tile* __restrict__ word_tiles,
                       const std::uint32_t* __restrict__ places, const float* __restrict__ values) {
  const Tile tile = word_tiles[blockIdx.x];
  const Job job = jobs[tile.job];
  const std::int64_t num_place_words = words_of_bits(job.kept * job.place_bits);
  const std::int64_t num_words = num_place_words + words_of_bits((kBfloat16 ? 16 : 32) * job.kept);
  const auto mask = static_cast<std::uint32_t>(job.block_elements - 1);
  const std::int64_t begin = std::int64_t{tile.index} * kTileWords;
  for (std::int64_t word = begin + threadIdx.x; word < min(begin + kTileWords, num_words); word += kSelectThreads) {
    job.payload[word] = word < num_place_words
                            ? packed_word(word, job.place_bits, job.kept,
                                          [&](std::int64_t i) { return places[job.first_place + i] & mask; })
                            : value_word<kBfloat16>(values + job.first_place, job.kept, word - num_place_words);
  }
}

/// Tiles of one kernel launch.
struct Tiles {
  explicit Tiles(const Device& device) : table(device) {}
  std::vector<Tile> tiles;
  UploadedTable<Tile> table;
  std::int64_t size() const { return static_cast<std::int64_t>(tiles.size()); }
  const Tile* on_device(Stream& stream) { return table.on_device(tiles, stream); }
};

class Runner final : public SparseEncodeRunner {
 public:
  explicit Runner(const Device& device)
      : jobs_table_(device),
        counting_(device),
        chunks_(device),
        groups_(device),
        blocks_(device),
        words_(device),
        places_(0, device),
        values_(0, device),
        selected_(0, device),
        histograms_(0, device),
        chunk_counts_(0, device),
        counts_(0, device),
        before_(0, device),
        sum_(device) {}

  void run(std::span<const SparseEncodeTask> tasks, Stream& stream) override {
    plan(tasks);
    const Job* jobs = jobs_table_.on_device(jobs_, stream);
    const bool is_bf16 = tasks[0].shape.values == SparseValues::kBfloat16;
    with_element(tasks[0].type, [&](auto element) {
      using Element = decltype(element);
      if (tasks[0].shape.format == SparseFormat::kLocal) {
        encode_blocks<Element>(jobs, is_bf16, stream);
      } else {
        encode_runs<Element>(jobs, is_bf16, stream);
      }
    });
  }

 private:
  void plan(std::span<const SparseEncodeTask> tasks) {
    jobs_.clear();
    num_places_ = 0;
    for (Tiles* tiles : {&counting_, &chunks_, &groups_, &blocks_, &words_}) tiles->tiles.clear();
    std::int64_t num_elements = 0;
    for (const SparseEncodeTask& task : tasks) num_elements += task.shape.num_elements;
    tile_chunks_ = std::clamp<std::int64_t>(num_elements / (kChunkElements * kBusyBlocks), 1, kMaxTileChunks);
    for (const SparseEncodeTask& task : tasks) {
      const SparseShape& shape = task.shape;
      const std::int64_t kept = num_kept(shape);
      const bool is_local = shape.format == SparseFormat::kLocal;
      Job job = {.values = task.values,
                 .flag = task.flag,
                 .payload = reinterpret_cast<std::uint32_t*>(task.payload),
                 .count = shape.num_elements,
                 .kept = kept,
                 .first_place = num_places_,
                 .first_chunk = chunks_.size(),
                 .first_group = groups_.size(),
                 .block_elements = shape.block_elements,
                 .kept_of_block = is_local ? top_k_count(shape.block_elements, shape.density) : 0,
                 .place_bits = is_local ? std::countr_zero(static_cast<std::uint64_t>(shape.block_elements)) : 0};
      if (is_local) {
        add(blocks_, shape.num_elements, shape.block_elements, 1);
        add(words_, max_sparse_bytes(shape) / 4, kTileWords, 1);
      } else {
        add(counting_, shape.num_elements, tile_chunks_ * kChunkElements, tile_chunks_);
        add(chunks_, shape.num_elements, kChunkElements, 1);
        add(groups_, kept, kSparseGroup, 1);
      }
      num_places_ += kept;
      jobs_.push_back(job);
    }
  }

  /// Adds tiles of `per_tile` items for the next job, with indices in multiples of `step`.
  void add(Tiles& tiles, std::int64_t items, std::int64_t per_tile, std::int64_t step) const {
    for (std::int64_t tile = 0; tile * per_tile < items; ++tile) {
      tiles.tiles.push_back({static_cast<std::int32_t>(jobs_.size()), static_cast<std::int32_t>(tile * step)});
    }
  }

  template <class Element>
  void encode_runs(const Job* jobs, bool is_bf16, Stream& stream) {
    const auto num_jobs = static_cast<std::int64_t>(jobs_.size());
    const Tile* counting = counting_.on_device(stream);
    const Tile* chunks = chunks_.on_device(stream);
    const Tile* groups = groups_.on_device(stream);
    grow(places_, num_places_, stream);
    grow(values_, num_places_, stream);
    grow(selected_, num_jobs, stream);
    grow(chunk_counts_, chunks_.size(), stream);
    grow(counts_, std::max(chunks_.size(), groups_.size()), stream);
    grow(before_, std::max(chunks_.size(), groups_.size()), stream);
    // Kernels that read a histogram clear it again, so only new memory needs zeros.
    if (grow(histograms_, num_jobs * kSelectBins, stream)) fill_zero(histograms_.span(), stream);
    const dim3 counting_grid(num_blocks_for(counting_.size(), 1));
    const dim3 job_grid(num_blocks_for(num_jobs, 1));
    const dim3 threads(kSelectThreads);
    Selected* selected = selected_.data();
    std::uint32_t* histograms = histograms_.data();
    launch(histogram_kernel<Element, 0>, counting_grid, threads, 0, stream, jobs, counting, tile_chunks_, selected,
           histograms);
    launch(find_kernel<0>, job_grid, threads, 0, stream, jobs, histograms, selected);
    launch(histogram_kernel<Element, 1>, counting_grid, threads, 0, stream, jobs, counting, tile_chunks_, selected,
           histograms);
    launch(find_kernel<1>, job_grid, threads, 0, stream, jobs, histograms, selected);
    launch(chunk_counts_kernel<Element>, counting_grid, threads, 0, stream, jobs, counting, tile_chunks_, selected,
           chunk_counts_.data(), histograms);
    launch(find_kernel<2>, job_grid, threads, 0, stream, jobs, histograms, selected);
    launch(sum_counts_kernel, dim3(num_blocks_for(chunks_.size(), kWarps)), threads, 0, stream, chunks, chunks_.size(),
           selected, chunk_counts_.data(), counts_.data());
    sum_.run(counts_.data(), before_.data(), chunks_.size(), stream);
    launch(choose_kernel<Element>, dim3(num_blocks_for(chunks_.size(), 1)), threads, 0, stream, jobs, chunks, selected,
           counts_.data(), before_.data(), places_.data(), values_.data());
    launch(width_kernel, dim3(num_blocks_for(groups_.size(), kWarps)), threads, 0, stream, jobs, groups, groups_.size(),
           places_.data(), counts_.data());
    sum_.run(counts_.data(), before_.data(), groups_.size(), stream);
    launch(is_bf16 ? write_runs_kernel<true> : write_runs_kernel<false>, dim3(num_blocks_for(groups_.size(), 1)),
           dim3(kGroupThreads), 0, stream, jobs, groups, places_.data(), values_.data(), counts_.data(),
           before_.data());
  }

  template <class Element>
  void encode_blocks(const Job* jobs, bool is_bf16, Stream& stream) {
    const Tile* blocks = blocks_.on_device(stream);
    const Tile* words = words_.on_device(stream);
    grow(places_, num_places_, stream);
    grow(values_, num_places_, stream);
    launch(choose_in_block_kernel<Element>, dim3(num_blocks_for(blocks_.size(), 1)), dim3(kSelectThreads), 0, stream,
           jobs, blocks, places_.data(), values_.data());
    launch(is_bf16 ? write_local_kernel<true> : write_local_kernel<false>, dim3(num_blocks_for(words_.size(), 1)),
           dim3(kSelectThreads), 0, stream, jobs, words, places_.data(), values_.data());
  }

  std::vector<Job> jobs_;
  UploadedTable<Job> jobs_table_;
  Tiles counting_, chunks_, groups_, blocks_, words_;
  std::int64_t num_places_ = 0;
  std::int64_t tile_chunks_ = 1;  // chunks per tile of counting_
  Buffer<std::uint32_t> places_;  // for all jobs, one after another
  Buffer<float> values_;
  Buffer<Selected> selected_;         // per job
  Buffer<std::uint32_t> histograms_;  // [jobs][kSelectBins], 0 between calls
  Buffer<ChunkCounts> chunk_counts_;  // per chunk
  Buffer<std::uint64_t> counts_;      // per chunk, later per group
  Buffer<std::uint64_t> before_;      // exclusive prefix sums of counts_
  ExclusiveSum sum_;
};

}  // namespace

std::shared_ptr<SparseEncodeRunner> make_sparse_encode_runner(const Device& device) {
  return std::make_shared<Runner>(device);
}

}  // namespace terngrad::cuda
