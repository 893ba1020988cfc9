// Ternarization on a GPU: one block per chunk, or per group of chunks whose codes end on a unit boundary of the format.
#include "kernels/codes/cuda/ternarize.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "kernels/codes/cuda/ternarize_chunk.cuh"
#include "kernels/codes/cuda/ternarize_whole.cuh"
#include "kernels/codes/shared_draws.h"
#include "kernels/runtime/cuda/grow.h"
#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"
#include "kernels/tensor/cuda/elements.cuh"
#include "kernels/tensor/cuda/reduce.cuh"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = kTernarizeThreads;
constexpr std::int64_t kT5GroupChunks = 5;
/// Words of sign bits per chunk in the workspace for tmask.
constexpr unsigned kSignWords = static_cast<unsigned>(kChunkElements / 32);

/// Arguments common to all kernels.
struct Work {
  const TernarizeJob* jobs;
  const EncodeTile* tiles;
  DrawStream stream;
  std::uint32_t refine_purpose;
  TernarizeMode mode;
};

/// Resident blocks that a kernel for any mode is compiled for, whose registers the compiler would else spill; 0: its
/// choice.
template <bool kHasModes>
constexpr int kFewestBlocks = kHasModes ? resident_blocks(3) : 0;

/// t2: words are written directly.
template <class Element, bool kHasModes>
__global__ void __launch_bounds__(kThreads, kFewestBlocks<kHasModes>) ternarize_t2_kernel(const Work work) {
  const EncodeTile tile = work.tiles[blockIdx.x];
  const TernarizeJob job = work.jobs[tile.job];
  const std::int64_t begin = std::int64_t{tile.group} * kChunkElements;
  const std::int64_t count = min(kChunkElements, job.count - begin);
  const ThreadWord mine =
      ternarize_chunk<Element, kHasModes>(job, tile, begin, 0, count, work.stream, work.refine_purpose, work.mode);
  if (mine.index * 16 < count) {
    __stcg(reinterpret_cast<std::uint32_t*>(job.payload) + begin / 16 + mine.index, mine.word);
  }
}

/// Ternarizes a group of chunks to t2 words in shared memory, followed by two words of zeros. Ends with a barrier.
template <class Element, bool kHasModes>
__device__ void ternarize_group(const TernarizeJob& job, const EncodeTile& tile, std::int64_t begin, std::int64_t count,
                                const Work& work, std::uint32_t* words) {
  for (unsigned done = 0; done < count; done += static_cast<unsigned>(kChunkElements)) {
    const ThreadWord mine = ternarize_chunk<Element, kHasModes>(
        job, tile, begin, done, min(kChunkElements, count - done), work.stream, work.refine_purpose, work.mode);
    words[done / 16 + mine.index] = mine.word;
  }
  const auto end = static_cast<unsigned>((count + kChunkElements - 1) / kChunkElements) * kChunkWords;
  if (threadIdx.x < 2) words[end + threadIdx.x] = 0;
  __syncthreads();
}

/// Code + 1 of a 2-bit code.
__device__ std::uint32_t code_plus_one(std::uint32_t code) { return (code + 1) & 3u; }

/// t5: byte j holds codes 5j to 5j + 4, which are 10 bits of t2; missing codes have digit 0.
template <class Element, bool kHasModes>
__global__ void __launch_bounds__(kThreads, kFewestBlocks<kHasModes>) ternarize_t5_kernel(const Work work) {
  auto* words = dynamic_shared<std::uint32_t>();
  const EncodeTile tile = work.tiles[blockIdx.x];
  const TernarizeJob job = work.jobs[tile.job];
  const std::int64_t begin = std::int64_t{tile.group} * kT5GroupChunks * kChunkElements;
  const std::int64_t count = min(kT5GroupChunks * kChunkElements, job.count - begin);
  ternarize_group<Element, kHasModes>(job, tile, begin, count, work, words);
  const auto num_codes = static_cast<unsigned>(count);
  const unsigned num_bytes = (num_codes + 4) / 5;
  auto* out = reinterpret_cast<std::uint32_t*>(job.payload + begin / 5);
  for (unsigned word = threadIdx.x; word * 4 < num_bytes; word += kThreads) {
    std::uint32_t bytes = 0;
    for (unsigned byte = 0; byte < 4; ++byte) {
      const unsigned first = (word * 4 + byte) * 5;
      if (first >= num_codes) break;
      const unsigned bit = first * 2;
      const std::uint32_t codes = __funnelshift_r(words[bit / 32], words[bit / 32 + 1], bit % 32);
      std::uint32_t value = 0;
      std::uint32_t power = 1;
      for (unsigned i = 0; i < 5 && first + i < num_codes; ++i, power *= 3) {
        value += power * code_plus_one(codes >> (2 * i) & 3u);
      }
      bytes |= value << (8 * byte);
    }
    out[word] = bytes;
  }
}

/// Lanes of code + 1: `per_word` codes per uint64.
template <class Element, bool kHasModes>
__global__ void __launch_bounds__(kThreads, kFewestBlocks<kHasModes>)
    ternarize_lanes_kernel(const Work work, int bits, int per_word) {
  auto* words = dynamic_shared<std::uint32_t>();
  const EncodeTile tile = work.tiles[blockIdx.x];
  const TernarizeJob job = work.jobs[tile.job];
  const std::int64_t group_elements = per_word * kChunkElements;
  const std::int64_t begin = tile.group * group_elements;
  const std::int64_t count = min(group_elements, job.count - begin);
  ternarize_group<Element, kHasModes>(job, tile, begin, count, work, words);
  const auto num_codes = static_cast<unsigned>(count);
  const auto lanes = static_cast<unsigned>(per_word);
  auto* out = reinterpret_cast<std::uint64_t*>(job.payload) + begin / per_word;
  for (unsigned word = threadIdx.x; word * lanes < num_codes; word += kThreads) {
    std::uint64_t value = 0;
    const unsigned end = min((word + 1) * lanes, num_codes);
    for (unsigned i = end; i-- > word * lanes;) {
      value = value << bits | code_plus_one(words[i / 16] >> (2 * (i % 16)) & 3u);
    }
    out[word] = value;
  }
}

/// Offsets of the parts of a tmask payload: tmask_parts() for kernels.
struct MaskParts {
  std::int64_t num_chunks;
  std::int64_t masks_offset;
  std::int64_t signs_offset;
  __device__ explicit MaskParts(std::int64_t count)
      : num_chunks((count + kChunkElements - 1) / kChunkElements),
        masks_offset(4 * (num_chunks + 1)),
        signs_offset(masks_offset + 4 * ((count + 31) / 32)) {}
};

/// Packs the even bits of a word.
__device__ std::uint32_t even_bits(std::uint32_t word) {
  word &= 0x55555555u;
  word = (word | word >> 1) & 0x33333333u;
  word = (word | word >> 2) & 0x0f0f0f0fu;
  word = (word | word >> 4) & 0x00ff00ffu;
  return (word | word >> 8) & 0x0000ffffu;
}

/// tmask, first of three kernels: writes masks to the payload, and a chunk's signs and their number of bytes to
/// workspace.
template <class Element, bool kHasModes>
__global__ void __launch_bounds__(kThreads, resident_blocks(4))
    ternarize_masks_kernel(const Work work, std::uint32_t* __restrict__ signs, std::uint32_t* __restrict__ sign_bytes) {
  __shared__ std::uint32_t words[kChunkWords];
  __shared__ std::uint32_t compacted[kSignWords];
  const EncodeTile tile = work.tiles[blockIdx.x];
  const TernarizeJob job = work.jobs[tile.job];
  const std::int64_t begin = std::int64_t{tile.group} * kChunkElements;
  const std::int64_t count = min(kChunkElements, job.count - begin);
  const ThreadWord mine =
      ternarize_chunk<Element, kHasModes>(job, tile, begin, 0, count, work.stream, work.refine_purpose, work.mode);
  words[mine.index] = mine.word;
  if (threadIdx.x < kSignWords) compacted[threadIdx.x] = 0;
  __syncthreads();
  const std::uint32_t word = words[threadIdx.x];
  const std::uint32_t nonzero = even_bits(word);
  const std::uint32_t negative = even_bits(word >> 1);
  auto* masks = reinterpret_cast<std::uint16_t*>(job.payload + MaskParts(job.count).masks_offset + begin / 8);
  if (threadIdx.x < (count + 31) / 32 * 2) masks[threadIdx.x] = static_cast<std::uint16_t>(nonzero);
  unsigned total = 0;
  const unsigned place = block_exclusive_sum<kThreads>(static_cast<unsigned>(__popc(nonzero)), total);
  std::uint64_t bits = 0;
  unsigned rank = place % 32;
  for (std::uint32_t left = nonzero; left != 0; left &= left - 1, ++rank) {
    const int bit = __ffs(static_cast<int>(left)) - 1;
    bits |= std::uint64_t{negative >> bit & 1u} << rank;
  }
  if (static_cast<std::uint32_t>(bits) != 0) atomicOr(&compacted[place / 32], static_cast<std::uint32_t>(bits));
  if (bits >> 32 != 0) atomicOr(&compacted[place / 32 + 1], static_cast<std::uint32_t>(bits >> 32));
  __syncthreads();
  if (threadIdx.x < (total + 31) / 32)
    signs[std::int64_t{blockIdx.x} * kSignWords + threadIdx.x] = compacted[threadIdx.x];
  if (threadIdx.x == 0) sign_bytes[blockIdx.x] = (total + 7) / 8;
}

/// tmask, second: one block per job converts byte counts to offsets, in chunk order, and computes the payload's length.
__global__ void __launch_bounds__(kThreads)
    tmask_offsets_kernel(const TernarizeJob* __restrict__ jobs, const std::int64_t* __restrict__ first_tiles,
                         const std::uint32_t* __restrict__ sign_bytes, std::int64_t* __restrict__ bytes) {
  const TernarizeJob job = jobs[blockIdx.x];
  const MaskParts parts(job.count);
  auto* offsets = reinterpret_cast<std::uint32_t*>(job.payload);
  const std::uint32_t* counts = sign_bytes + first_tiles[blockIdx.x];
  std::uint32_t before = 0;
  for (std::int64_t begin = 0; begin < parts.num_chunks; begin += kThreads) {
    const std::int64_t chunk = begin + threadIdx.x;
    unsigned total = 0;
    const unsigned sum = block_exclusive_sum<kThreads>(chunk < parts.num_chunks ? counts[chunk] : 0, total);
    if (chunk < parts.num_chunks) offsets[chunk] = before + sum;
    before += total;
  }
  if (threadIdx.x == 0) {
    offsets[parts.num_chunks] = before;
    bytes[blockIdx.x] = parts.signs_offset + (std::int64_t{before} + 3) / 4 * 4;
  }
}

/// tmask, third: one block per chunk copies its signs into place, using whole words unless they contain bytes of
/// another chunk. The last chunk also writes the zero padding.
__global__ void __launch_bounds__(kThreads)
    tmask_signs_kernel(const TernarizeJob* __restrict__ jobs, const EncodeTile* __restrict__ tiles,
                       const std::uint32_t* __restrict__ signs) {
  const EncodeTile tile = tiles[blockIdx.x];
  const TernarizeJob job = jobs[tile.job];
  const MaskParts parts(job.count);
  const auto* offsets = reinterpret_cast<const std::uint32_t*>(job.payload);
  const std::uint32_t begin = offsets[tile.group];
  const std::uint32_t end = offsets[tile.group + 1];
  const auto* from = reinterpret_cast<const std::uint8_t*>(signs + std::int64_t{blockIdx.x} * kSignWords);
  std::uint8_t* to = job.payload + parts.signs_offset;
  // Words [first, last) belong to this chunk only; up to three bytes on either side may share a word with another
  // chunk.
  const std::uint32_t first = (begin + 3) / 4;
  const std::uint32_t last = end / 4;
  const auto* from_words = signs + std::int64_t{blockIdx.x} * kSignWords;
  auto* to_words = reinterpret_cast<std::uint32_t*>(to);
  for (std::uint32_t word = first + threadIdx.x; word < last; word += kThreads) {
    const std::uint32_t at = 4 * word - begin;
    const std::uint32_t shift = 8 * (at % 4);
    to_words[word] = __funnelshift_r(from_words[at / 4], shift == 0 ? 0 : from_words[at / 4 + 1], shift);
  }
  const std::uint32_t before = min(4 * first, end) - begin;
  const std::uint32_t behind = first <= last ? end - 4 * last : 0;
  if (threadIdx.x < before) to[begin + threadIdx.x] = from[threadIdx.x];
  if (threadIdx.x < behind) to[4 * last + threadIdx.x] = from[4 * last + threadIdx.x - begin];
  if (tile.group + 1 == parts.num_chunks && threadIdx.x < 3 && end + threadIdx.x < (end + 3) / 4 * 4) {
    to[end + threadIdx.x] = 0;
  }
}

/// Calls call<Element, kHasModes>() to select a kernel; the default mode has its own.
template <class Call>
void with_kernel(ElementType type, const TernarizeMode& mode, const Call& call) {
  with_element(type, [&]<class Element>(Element) {
    if (mode.is_default()) {
      call.template operator()<Element, false>();
    } else {
      call.template operator()<Element, true>();
    }
  });
}

class Runner final : public TernarizeRunner {
 public:
  explicit Runner(const Device& device)
      : jobs_table_(device),
        tiles_table_(device),
        whole_tiles_table_(device),
        strata_table_(device),
        first_tiles_table_(device),
        signs_(0, device),
        sign_bytes_(0, device),
        bytes_(0, device) {}

  void run(std::span<const TernarizeTask> tasks, ElementType type, const TernarizeOptions& options, const DrawKey& key,
           const std::uint64_t* device_step, std::span<std::int64_t> bytes, Stream& stream) override {
    if (tasks.empty()) return;
    const int bits = lane_bits(options.num_workers);
    const std::int64_t group_chunks = options.format == TernaryFormat::kT5      ? kT5GroupChunks
                                      : options.format == TernaryFormat::kLanes ? lanes_per_word(bits)
                                                                                : 1;
    const TernarizeMode mode = {.is_nearest = options.rounding == Rounding::kNearest,
                                .is_asymmetric = options.levels == TernaryLevels::kAsymmetric,
                                .is_stratified = options.rounding == Rounding::kStratified};
    const bool takes_whole = options.format == TernaryFormat::kT2 && !mode.is_nearest && !mode.is_asymmetric;
    prepare(tasks, options, key, group_chunks * kChunkElements,
            takes_whole ? static_cast<std::int64_t>(element_bytes(type)) : 0);
    const TernarizeJob* jobs = jobs_table_.on_device(jobs_, stream);
    const Work work = {jobs, tiles_table_.on_device(tiles_, stream), make_draw_stream(key, device_step),
                       static_cast<std::uint32_t>(options.refine_purpose), mode};
    const std::size_t shared_bytes = (static_cast<std::size_t>(group_chunks) * kChunkWords + 2) * sizeof(std::uint32_t);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      bytes[i] = payload_bytes(options.format, tasks[i].count, options.num_workers);
    }
    if (options.format == TernaryFormat::kTMask) return run_tmask(work, type, bytes, stream);
    with_element(type, [&]<class Element>(Element) {
      const WholeTile* tiles = whole_tiles_table_.on_device(whole_tiles_, stream);
      if (mode.is_stratified) {
        launch(ternarize_strata_kernel<Element>, dim3(static_cast<unsigned>(strata_.size())), dim3(kThreads), 0, stream,
               tiles, strata_table_.on_device(strata_, stream), work.stream, kDrawHigh, work.refine_purpose);
      } else {
        launch(ternarize_whole_kernel<Element>, dim3(static_cast<unsigned>(whole_tiles_.size())), dim3(kThreads), 0,
               stream, tiles, work.stream, kDrawHigh, work.refine_purpose);
      }
    });
    const dim3 grid(static_cast<unsigned>(tiles_.size()));
    with_kernel(type, work.mode, [&]<class Element, bool kHasModes>() {
      if (options.format == TernaryFormat::kT2) {
        launch(ternarize_t2_kernel<Element, kHasModes>, grid, dim3(kThreads), 0, stream, work);
      } else if (options.format == TernaryFormat::kT5) {
        launch(ternarize_t5_kernel<Element, kHasModes>, grid, dim3(kThreads), shared_bytes, stream, work);
      } else {
        launch(ternarize_lanes_kernel<Element, kHasModes>, grid, dim3(kThreads), shared_bytes, stream, work, bits,
               lanes_per_word(bits));
      }
    });
  }

 private:
  /// True if the whole-chunk kernel can process the next elements of a task: enough of them, aligned, and with one
  /// scaler.
  static bool is_whole(const TernarizeTask& task, const EncodeTile& tile, std::int64_t begin, std::int64_t bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(task.gradient) + static_cast<std::uintptr_t>(begin * bytes);
    return task.count - begin >= kWholeElements && address % kVectorBytes == 0 &&
           (task.block_elements == 0 || task.block_elements - tile.into_block >= kWholeElements);
  }
  static WholeTile whole_tile(const TernarizeTask& task, const EncodeTile& tile, std::int64_t begin, std::int64_t bytes,
                              const TaskDraws& draws) {
    return {static_cast<const std::uint8_t*>(task.gradient) + begin * bytes,
            reinterpret_cast<std::uint32_t*>(task.payload) + begin / 16,
            task.scalers + tile.first_scaler,
            task.clips == nullptr ? nullptr : task.clips + tile.first_scaler,
            static_cast<std::uint64_t>(task.draw_offset + task.first + begin) / kRunElements,
            draws};
  }

  /// Builds the tables of jobs, of groups of `group_elements` elements, and of whole chunks, which belong to no group.
  /// @param whole_bytes  element size for whole chunks; 0: all chunks are in groups
  void prepare(std::span<const TernarizeTask> tasks, const TernarizeOptions& options, const DrawKey& key,
               std::int64_t group_elements, std::int64_t whole_bytes) {
    jobs_.clear();
    tiles_.clear();
    whole_tiles_.clear();
    strata_.clear();
    first_tiles_.clear();
    for (std::size_t i = 0; i < tasks.size();) {
      const std::span<const TernarizeTask> members = tasks_of_one_draw(tasks, i, options.rounding);
      const std::size_t first_strata = strata_.size();
      for (const TernarizeTask& task : members) {
        const auto first_whole = static_cast<std::int64_t>(whole_tiles_.size());
        add_task(task, task_draws(options.rounding, key, task.worker, options.num_workers), group_elements,
                 whole_bytes);
        if (options.rounding == Rounding::kStratified) add_strata(first_strata, first_whole);
      }
      i += members.size();
    }
  }

  void add_task(const TernarizeTask& task, const TaskDraws& draws, std::int64_t group_elements,
                std::int64_t whole_bytes) {
    first_tiles_.push_back(static_cast<std::int64_t>(tiles_.size()));
    const std::int64_t num_groups = (task.count + group_elements - 1) / group_elements;
    TERNGRAD_REQUIRE(num_groups + static_cast<std::int64_t>(tiles_.size()) <= 0x7fffffff,
                     "[ternarize] more chunks than one launch can hold");
    const auto job = static_cast<std::int32_t>(jobs_.size());
    for (std::int64_t group = 0; group < num_groups; ++group) {
      const EncodeTile tile = encode_tile(task, job, group, group_elements);
      const std::int64_t begin = group * group_elements;
      if (whole_bytes > 0 && is_whole(task, tile, begin, whole_bytes)) {
        whole_tiles_.push_back(whole_tile(task, tile, begin, whole_bytes, draws));
        group += kWholeChunks - 1;
      } else {
        tiles_.push_back(tile);
      }
    }
    jobs_.push_back({task.gradient, task.scalers, task.clips, task.payload, task.first, task.count, task.draw_offset,
                     task.block_elements, draws});
  }

  /// Adds a task's whole chunks to those of the tasks before it that take the same draws. Such tasks have equally many,
  /// or none if their gradient is not aligned.
  /// @param first_strata  first entry of these tasks; @param first_whole  first tile of the task
  void add_strata(std::size_t first_strata, std::int64_t first_whole) {
    const auto num_whole = static_cast<std::int64_t>(whole_tiles_.size()) - first_whole;
    if (first_strata < strata_.size()) {
      for (std::size_t i = first_strata; i < strata_.size() && num_whole > 0; ++i) ++strata_[i].count;
      return;
    }
    for (std::int64_t i = 0; i < num_whole; ++i) {
      strata_.push_back({first_whole + i, static_cast<std::int32_t>(num_whole), 1});
    }
  }

  void run_tmask(const Work& work, ElementType type, std::span<std::int64_t> bytes, Stream& stream) {
    TERNGRAD_REQUIRE(!cuda::is_capturing(stream),
                     "[ternarize] tmask cannot be captured into a graph: its size depends on the data");
    const auto num_tiles = static_cast<std::int64_t>(tiles_.size());
    const auto num_jobs = static_cast<std::int64_t>(jobs_.size());
    grow(signs_, num_tiles * kSignWords, stream);
    grow(sign_bytes_, num_tiles, stream);
    grow(bytes_, num_jobs, stream);
    const dim3 grid(static_cast<unsigned>(num_tiles));
    with_kernel(type, work.mode, [&]<class Element, bool kHasModes>() {
      launch(ternarize_masks_kernel<Element, kHasModes>, grid, dim3(kThreads), 0, stream, work, signs_.data(),
             sign_bytes_.data());
    });
    launch(tmask_offsets_kernel, dim3(static_cast<unsigned>(num_jobs)), dim3(kThreads), 0, stream, work.jobs,
           first_tiles_table_.on_device(first_tiles_, stream), sign_bytes_.data(), bytes_.data());
    launch(tmask_signs_kernel, grid, dim3(kThreads), 0, stream, work.jobs, work.tiles, signs_.data());
    copy<std::int64_t>(bytes_.span().first(bytes.size()), bytes, stream);
    stream.synchronize();
  }

  std::vector<TernarizeJob> jobs_;
  std::vector<EncodeTile> tiles_;
  std::vector<WholeTile> whole_tiles_;
  std::vector<StrataTiles> strata_;  // kStratified only
  std::vector<std::int64_t> first_tiles_;
  UploadedTable<TernarizeJob> jobs_table_;
  UploadedTable<EncodeTile> tiles_table_;
  UploadedTable<WholeTile> whole_tiles_table_;
  UploadedTable<StrataTiles> strata_table_;
  UploadedTable<std::int64_t> first_tiles_table_;
  Buffer<std::uint32_t> signs_;       // tmask: kSignWords per tile
  Buffer<std::uint32_t> sign_bytes_;  // tmask: one per tile
  Buffer<std::int64_t> bytes_;        // tmask: one per job
};

}  // namespace

std::shared_ptr<TernarizeRunner> make_ternarize_runner(const Device& device) {
  return std::make_shared<Runner>(device);
}

}  // namespace terngrad::cuda
