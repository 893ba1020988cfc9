#include "kernels/codes/votes.h"

#include <array>
#include <vector>

#include "kernels/codes/cpu/block_runs.h"
#include "kernels/codes/cpu/sum_tiles.h"
#include "kernels/codes/cuda/votes.h"
#include "kernels/codes/lanes.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/slice.h"

namespace terngrad {
namespace {

/// Bits of a chunk in 64-bit words.
using ChunkBits = std::array<std::uint64_t, kChunkElements / 64>;

/// @throws InvalidArgument
void check(const CodeSumTask& task) {
  const bool is_lanes = task.format == CodeFormat::kLanes && task.lane_levels == 1;
  TERNGRAD_REQUIRE(is_lanes || task.format == CodeFormat::kBits,
                   "[votes] payloads are bits or lanes of one level, not ", to_string(task.format));
  TERNGRAD_REQUIRE(!task.payloads.empty(), "[votes] needs at least one worker");
  TERNGRAD_REQUIRE(is_lanes || task.payloads.size() == static_cast<std::size_t>(task.num_workers), "[votes] ",
                   task.payloads.size(), " payloads of bits are not those of ", task.num_workers, " workers");
  check_code_sum(task);
}

void count_lanes(const CodeSumTask& task, std::int64_t begin, std::int64_t count, ChunkBits& negative,
                 ChunkBits& tied) {
  const int bits = lane_bits(task.num_workers, 1);
  std::array<std::int32_t, kChunkElements> sums{};
  std::array<std::int32_t, kChunkElements> counts;
  for (const std::uint8_t* payload : task.payloads) {
    unpack_lanes(payload, bits, begin, {counts.data(), static_cast<std::size_t>(count)});
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) sums[i] += counts[i];
  }
  negative.fill(0);
  tied.fill(0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    negative[i / 64] |= std::uint64_t{2 * sums[i] > task.num_workers} << (i % 64);
    tied[i / 64] |= std::uint64_t{2 * sums[i] == task.num_workers} << (i % 64);
  }
}

void count_bits(const CodeSumTask& task, std::int64_t begin, std::int64_t count, ChunkBits& negative, ChunkBits& tied) {
  // Kept between calls, so that a step allocates nothing.
  static thread_local std::vector<const std::uint8_t*> of_chunk;
  of_chunk.clear();
  for (const std::uint8_t* payload : task.payloads) of_chunk.push_back(payload + begin / 8);
  cpu::count_votes(of_chunk, (count + 31) / 32 * 4, negative.data(), tied.data());
}

}  // namespace

VoteCounter::VoteCounter(Device device) : device_(device) {
  if (device.is_cuda()) cuda_ = cuda::make_vote_runner(device);
}

void VoteCounter::run(std::span<const CodeSumTask> tasks, Stream& stream) {
  TERNGRAD_REQUIRE(stream.device() == device_, "[votes] made for ", device_.name(), ", the stream is for ",
                   stream.device().name());
  for (const CodeSumTask& task : tasks) check(task);
  if (cuda_ != nullptr) return cuda_->run(tasks, stream);
  cpu::for_each_sum_tile(
      tasks, stream, [](const CodeSumTask& task, std::int64_t begin, std::int64_t count, cpu::Stores stores) {
        ChunkBits negative;
        ChunkBits tied;
        const auto count_signs = task.format == CodeFormat::kLanes ? count_lanes : count_bits;
        count_signs(task, begin, count, negative, tied);
        cpu::for_each_block_run(task, begin, count, [&](std::int64_t block, std::int64_t done, std::int64_t run_count) {
          cpu::scale_votes(negative.data(), tied.data(), done, run_count, task.scales[block], task.out + begin + done,
                           stores);
        });
      });
}

}  // namespace terngrad
