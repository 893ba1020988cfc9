#include "kernels/codes/code_sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/codes/cpu/code_bytes.h"
#include "kernels/codes/cpu/packed_sums.h"
#include "kernels/codes/cpu/sum_tiles.h"
#include "kernels/codes/cuda/code_sum.h"
#include "kernels/codes/lanes.h"
#include "kernels/codes/levels.h"
#include "kernels/codes/ternarize.h"
#include "kernels/codes/trans_payload.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/tensor/slice.h"
#include "kernels/tensor/worker_tree.h"

namespace terngrad {
namespace {

/// Calls body(block, begin, end) for each run of [begin, begin + count) that shares one scale; positions are relative
/// to the slice.
template <class Body>
void for_each_block(std::int64_t slice_first, std::int64_t block_elements, std::int64_t begin, std::int64_t count,
                    const Body& body) {
  if (block_elements == 0) return body(std::int64_t{0}, begin, begin + count);
  const std::int64_t base = slice_first / block_elements;
  for (std::int64_t at = begin; at < begin + count;) {
    const std::int64_t block = (slice_first + at) / block_elements;
    const std::int64_t end = std::min(begin + count, (block + 1) * block_elements - slice_first);
    body(block - base, at, end);
    at = end;
  }
}

/// out[i] = scale * float(sums[i]) for a tile, with each block's own scale.
template <class Int>
void scale_tile(const CodeSumTask& task, std::int64_t begin, std::int64_t count, const Int* sums) {
  for_each_block(task.first, task.block_elements, begin, count,
                 [&](std::int64_t block, std::int64_t from, std::int64_t to) {
                   cpu::scale_sums(sums + (from - begin), to - from, task.scales[block], task.out + from);
                 });
}

/// Sums ternary codes of any number of workers.
void sum_tile_ternary(const CodeSumTask& task, std::int64_t begin, std::int64_t count) {
  std::array<std::int16_t, kChunkElements> sums{};
  std::array<std::int16_t, kChunkElements> codes;
  for (std::size_t k = 0; k < task.payloads.size(); ++k) {
    const PackedCodes packed{
        task.format, {task.payloads[k], static_cast<std::size_t>(task.payload_bytes[k])}, task.count, 1};
    unpack_codes(packed, begin, {codes.data(), static_cast<std::size_t>(count)});
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      sums[i] = static_cast<std::int16_t>(sums[i] + codes[i]);
    }
  }
  scale_tile(task, begin, count, sums.data());
}

/// Sums lanes. All payloads together contain the bias of all workers once.
void sum_tile_lanes(const CodeSumTask& task, std::int64_t begin, std::int64_t count) {
  const int bits = lane_bits(task.num_workers, task.lane_levels);
  std::array<std::int32_t, kChunkElements> sums;
  std::array<std::int32_t, kChunkElements> counts;
  sums.fill(-summed_lane_bias(task));
  for (const std::uint8_t* payload : task.payloads) {
    unpack_lanes(payload, bits, begin, {counts.data(), static_cast<std::size_t>(count)});
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) sums[i] += counts[i];
  }
  scale_tile(task, begin, count, sums.data());
}

/// Sums q4 and q8: codes + L are added in 16 bits, which are flushed to 32 bits before they overflow.
void sum_tile_levels(const CodeSumTask& task, std::int64_t begin, std::int64_t count) {
  constexpr std::size_t kMostBytes = 257;  // 255 * 257 = 65535
  const auto num_payloads = static_cast<int>(task.payloads.size());
  std::array<std::int32_t, kChunkElements> sums;
  std::array<std::uint16_t, kChunkElements> partial;
  std::array<std::uint8_t, kChunkElements + 2> room;
  sums.fill(-levels_of(task.format) * num_payloads);
  for (std::size_t first = 0; first < task.payloads.size(); first += kMostBytes) {
    partial.fill(0);
    for (const std::uint8_t* payload :
         task.payloads.subspan(first, std::min(kMostBytes, task.payloads.size() - first))) {
      const std::uint8_t* codes = payload + begin;
      if (task.format == CodeFormat::kQ4) {
        cpu::unpack_nibbles(payload + begin / 2, (count + 1) / 2, room.data());
        codes = room.data();
      }
      cpu::add_codes(codes, count, partial.data());
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) sums[i] += partial[i];
  }
  scale_tile(task, begin, count, sums.data());
}

/// Number of t2 words per chunk.
constexpr std::size_t kChunkWords = std::size_t{kChunkElements} / 16;

/// The chunk of payload k that begins `begin` codes into the task, as t2 words: in the payload, or decoded from trans
/// into `room`.
const std::uint32_t* chunk_as_t2(const CodeSumTask& task, std::size_t k, std::int64_t begin, std::uint32_t* room) {
  const std::uint8_t* payload = task.payloads[k];
  if (task.format == TernaryFormat::kT2) return reinterpret_cast<const std::uint32_t*>(payload) + begin / 16;
  const std::span<const std::uint8_t> whole(payload, static_cast<std::size_t>(task.payload_bytes[k]));
  cpu::trans_to_t2(whole, task.count, begin / kChunkElements, room);
  return room;
}

/// Sums t2, and trans decoded to t2: the fewest operations of all formats.
void sum_tile_t2(const CodeSumTask& task, std::int64_t begin, std::int64_t count, cpu::Stores stores) {
  std::array<const std::uint32_t*, cpu::kMaxPackedPayloads> chunks;
  std::array<const std::uint32_t*, cpu::kMaxPackedPayloads> words;
  // Kept between calls, so that a step allocates nothing.
  static thread_local std::vector<std::uint32_t> room;
  const std::size_t n = task.payloads.size();
  // t2 needs no room, and stride 0 avoids adding an offset to a null pointer.
  const std::size_t stride = task.format == TernaryFormat::kT2 ? 0 : kChunkWords;
  if (room.size() < n * stride) room.resize(n * stride);
  for (std::size_t k = 0; k < n; ++k) chunks[k] = chunk_as_t2(task, k, begin, room.data() + k * stride);
  for_each_block(task.first, task.block_elements, begin, count,
                 [&](std::int64_t block, std::int64_t from, std::int64_t to) {
                   // Blocks are multiples of 64 elements from the segment's start, so every run begins on a word.
                   for (std::size_t k = 0; k < n; ++k) words[k] = chunks[k] + (from - begin) / 16;
                   cpu::sum_t2_tile({words.data(), n}, to - from, task.scales[block], task.out + from, stores);
                 });
}

/// The chunk of payload k that begins `begin` codes into a tmask task.
cpu::TMaskChunk tmask_chunk(const CodeSumTask& task, std::size_t k, std::int64_t begin) {
  const std::uint8_t* payload = task.payloads[k];
  const TMaskParts parts = tmask_parts(task.count);
  std::uint32_t first_sign;
  std::memcpy(&first_sign, payload + 4 * (begin / kChunkElements), sizeof(first_sign));
  return {.masks = payload + parts.masks_offset + begin / 8,
          .num_mask_bytes = parts.signs_offset - parts.masks_offset - begin / 8,
          .signs = {payload + parts.signs_offset + first_sign, payload + task.payload_bytes[k]}};
}

/// t5 and tmask: sums codes in bytes, then scales.
void sum_tile_bytes(const CodeSumTask& task, std::int64_t begin, std::int64_t count, cpu::Stores stores) {
  std::array<std::int8_t, cpu::kT5SumRoom> room;
  const std::int8_t* sums = room.data();
  if (task.format == TernaryFormat::kT5) {
    sums = cpu::sum_t5_codes(task.payloads, task.payload_bytes[0], begin, count, room.data());
  } else {
    std::array<cpu::TMaskChunk, cpu::kMaxPackedPayloads> chunks;
    for (std::size_t k = 0; k < task.payloads.size(); ++k) chunks[k] = tmask_chunk(task, k, begin);
    cpu::sum_tmask_codes({chunks.data(), task.payloads.size()}, count, room.data());
  }
  for_each_block(task.first, task.block_elements, begin, count,
                 [&](std::int64_t block, std::int64_t from, std::int64_t to) {
                   cpu::scale_sums(sums + (from - begin), to - from, task.scales[block], task.out + from, stores);
                 });
}

/// Number of workers per leaf of a tree.
struct LeafSizes {
  std::span<const int> workers;  // empty: one per leaf
  int of(int leaf) const { return workers.empty() ? 1 : workers[static_cast<std::size_t>(leaf)]; }
};

/// Sums the subtree of m workers that begins with leaf `at` over one tile.
/// @param sum      [count] out
/// @param scratch  one tile for each level of the tree below the subtree
/// @returns the index of the leaf after the subtree
int tree_tile(int at, int m, LeafSizes sizes, std::int64_t first, std::int64_t count, const DecodeLeaf& leaf,
              float* sum, float* scratch) {
  if (sizes.of(at) == m) {
    leaf(at, first, {sum, static_cast<std::size_t>(count)});
    return at + 1;
  }
  const int left = tree_split(m);
  at = tree_tile(at, left, sizes, first, count, leaf, sum, scratch);
  at = tree_tile(at, m - left, sizes, first, count, leaf, scratch, scratch + kChunkElements);
  cpu::add(sum, scratch, count, sum);
  return at;
}

void sum_tree(int num_workers, LeafSizes sizes, std::int64_t count, const DecodeLeaf& leaf, float scale, float* out,
              Stream& stream) {
  TERNGRAD_REQUIRE(num_workers >= 1, "[aggregate] needs at least one worker, got ", num_workers);
  TERNGRAD_REQUIRE(stream.device().is_cpu(), "[aggregate] leaves are functions of the host; the stream is for ",
                   stream.device().name());
  const auto levels = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(num_workers))) + 1;
  const std::int64_t num_tiles = (count + kChunkElements - 1) / kChunkElements;
  parallel_for(stream.num_threads(), num_tiles, 1, [&](std::int64_t begin, std::int64_t end) {
    // Kept between calls, so that a step allocates nothing.
    static thread_local std::vector<float> scratch;
    if (scratch.size() < levels * kChunkElements) scratch.resize(levels * kChunkElements);
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const std::int64_t first = tile * kChunkElements;
      const std::int64_t tile_count = std::min(kChunkElements, count - first);
      tree_tile(0, num_workers, sizes, first, tile_count, leaf, out + first, scratch.data());
      if (scale != 1) cpu::scale(out + first, tile_count, scale, out + first);
    }
  });
}

/// True if a payload of `bytes` bytes has a valid length for the task's codes.
bool fits(const CodeSumTask& task, std::int64_t bytes) {
  const std::int64_t most = payload_bytes(task.format, task.count, task.num_workers, task.lane_levels);
  return has_fixed_size(task.format) ? bytes == most
                                     : bytes >= min_payload_bytes(task.format, task.count) && bytes <= most;
}

/// @throws InvalidArgument
void check(const CodeSumTask& task) {
  check_code_sum(task);
  if (task.format == CodeFormat::kLanes) return;
  const auto most = static_cast<std::int64_t>(levels_of(task.format)) * static_cast<std::int64_t>(task.payloads.size());
  TERNGRAD_REQUIRE(most < kMaxExactSum, "[aggregate] sums of ", task.payloads.size(), " codes in format ",
                   to_string(task.format), " could pass 2^24");
}

void sum_on_cpu(std::span<const CodeSumTask> tasks, Stream& stream) {
  cpu::for_each_sum_tile(tasks, stream,
                         [](const CodeSumTask& task, std::int64_t begin, std::int64_t count, cpu::Stores stores) {
                           if (task.format == CodeFormat::kLanes) {
                             sum_tile_lanes(task, begin, count);
                           } else if (!is_ternary(task.format)) {
                             sum_tile_levels(task, begin, count);
                           } else if (task.payloads.empty() || task.payloads.size() > cpu::kMaxPackedPayloads) {
                             sum_tile_ternary(task, begin, count);
                           } else if (task.format == CodeFormat::kT5 || task.format == CodeFormat::kTMask) {
                             sum_tile_bytes(task, begin, count, stores);
                           } else {
                             sum_tile_t2(task, begin, count, stores);
                           }
                         });
}

}  // namespace

void check_code_sum(const CodeSumTask& task) {
  TERNGRAD_REQUIRE(task.payloads.size() == task.payload_bytes.size(), "[aggregate] ", task.payloads.size(),
                   " payloads but ", task.payload_bytes.size(), " lengths");
  TERNGRAD_REQUIRE(
      task.payloads.size() <= static_cast<std::size_t>(kMaxSummedWorkers) && task.num_workers <= kMaxSummedWorkers,
      "[aggregate] at most ", kMaxSummedWorkers, " workers can be summed, got ", task.payloads.size());
  TERNGRAD_REQUIRE(task.first % kChunkElements == 0, "[aggregate] first must be a multiple of ", kChunkElements,
                   ", got ", task.first);
  TERNGRAD_REQUIRE(task.block_elements % kMinBlockElements == 0, "[aggregate] block_elements must be a multiple of ",
                   kMinBlockElements, ", got ", task.block_elements);
  for (const std::int64_t bytes : task.payload_bytes) {
    TERNGRAD_REQUIRE(fits(task, bytes), "[aggregate] a payload of ", bytes, " bytes does not hold ", task.count,
                     " codes in format ", to_string(task.format));
  }
  const std::uintptr_t alignment = task.format == TernaryFormat::kLanes ? sizeof(std::uint64_t) : sizeof(std::uint32_t);
  for (const std::uint8_t* payload : task.payloads) {
    TERNGRAD_REQUIRE(reinterpret_cast<std::uintptr_t>(payload) % alignment == 0, "[aggregate] a payload in format ",
                     to_string(task.format), " must begin at a multiple of ", alignment, " bytes");
  }
}

int summed_lane_bias(const CodeSumTask& task) {
  return lane_bias(task.summed_workers == 0 ? task.num_workers : task.summed_workers, task.lane_levels);
}

CodeSummer::CodeSummer(Device device) : device_(device) {
  if (device.is_cuda()) cuda_ = cuda::make_code_sum_runner(device);
}

void CodeSummer::run(std::span<const CodeSumTask> tasks, Stream& stream) {
  TERNGRAD_REQUIRE(stream.device() == device_, "[aggregate] the summer is for ", device_.name(), ", the stream for ",
                   stream.device().name());
  for (const CodeSumTask& task : tasks) {
    check(task);
    if (device_.is_cuda() && !runs_on_gpus(task.format)) {
      TERNGRAD_THROW(NotSupported, "[aggregate] format ", to_string(task.format), " has no kernels for GPUs");
    }
  }
  if (cuda_ != nullptr) return cuda_->run(tasks, stream);
  sum_on_cpu(tasks, stream);
}

void aggregate_code_sums(std::span<const CodeSumTask> tasks, Stream& stream) {
  CodeSummer(stream.device()).run(tasks, stream);
  if (stream.device().is_cuda()) stream.synchronize();
}

void aggregate_tree(int num_workers, std::int64_t count, const DecodeLeaf& leaf, float scale, float* out,
                    Stream& stream) {
  sum_tree(num_workers, {}, count, leaf, scale, out, stream);
}

void aggregate_tree(std::span<const int> workers, std::int64_t count, const DecodeLeaf& leaf, float scale, float* out,
                    Stream& stream) {
  TERNGRAD_REQUIRE(are_subtrees(workers), "[aggregate] ", workers.size(), " leaves do not make up the tree of workers");
  sum_tree(std::accumulate(workers.begin(), workers.end(), 0), {workers}, count, leaf, scale, out, stream);
}

}  // namespace terngrad
