// Majority vote over the packed signs of N workers, in one pass over the output.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/codes/code_sum.h"
#include "kernels/runtime/device.h"

namespace terngrad {

namespace cuda {
class VoteRunner;
}

/// Majority votes (Bernstein et al., ICML 2018) step after step: out[i] = fl(scale v) with v = sign(N - 2 m), where m
/// is the number of workers with bit 1; v is 0 for a tie. On a GPU it caches the task tables: a call with the same
/// tasks as the previous one neither allocates, copies nor waits. Use each object with one stream only.
class VoteCounter {
 public:
  explicit VoteCounter(Device device = Device::cpu());

  /// Runs every task: CodeFormat::kBits with one payload per worker, or lanes of one level, with N = num_workers.
  /// Bit-equal on every backend and for any number of threads, since counts are integers. If a scale is NaN, the result
  /// is NaN: canonical_nan() on a GPU, the scale's own NaN on the CPU.
  /// @throws InvalidArgument for other formats, no payloads, kBits with other than num_workers payloads, and as
  /// check_code_sum
  void run(std::span<const CodeSumTask> tasks, Stream& stream);

 private:
  Device device_;
  std::shared_ptr<cuda::VoteRunner> cuda_;
};

namespace cpu {
/// Counts up to kChunkElements votes: sets bits where more than half of the workers are negative, and where exactly
/// half are.
/// @param bits      [workers] each worker's bits, from the chunk's first byte on
/// @param num_bytes  length of the chunk's bits, a multiple of 4
/// @param negative, tied  [kChunkElements / 64] out; unspecified behind the chunk's end
void count_votes(std::span<const std::uint8_t* const> bits, std::int64_t num_bytes, std::uint64_t* negative,
                 std::uint64_t* tied);
/// out[i] = scale * v: v is 0 if tied, else -1 if negative, else 1.
/// @param first  bit index of the first element, a multiple of 64
void scale_votes(const std::uint64_t* negative, const std::uint64_t* tied, std::int64_t first, std::int64_t count,
                 float scale, float* out, Stores stores);
}  // namespace cpu

}  // namespace terngrad
