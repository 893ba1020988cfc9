// Votes: the sign that most of N workers have, from their packed signs, in one pass over the output.
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

/// Majority votes (Bernstein et al., ICML 2018), step after step: with m the number of workers whose bit is 1, out[i] =
/// fl(scale v) with v = sign(N - 2 m), which is 0 where as many are negative as not. On a GPU it keeps the tables of
/// tasks there: a call with the tasks of the last one allocates and copies nothing, and the host does not wait. Serves
/// one stream.
class VoteCounter {
 public:
  explicit VoteCounter(Device device = Device::cpu());

  /// Runs every task: CodeFormat::kBits with a payload for each worker, or lanes of one level, with N = num_workers.
  /// Bit-equal on every backend and for any number of threads: counts are integers. Where a scale is NaN so is the
  /// result: canonical_nan() on a GPU, the scale's own NaN on the CPU.
  /// @throws InvalidArgument for other formats, no payloads, other than num_workers payloads of bits, and as
  /// check_code_sum
  void run(std::span<const CodeSumTask> tasks, Stream& stream);

 private:
  Device device_;
  std::shared_ptr<cuda::VoteRunner> cuda_;
};

namespace cpu {
/// Of up to kChunkElements signs: in which more than half of the workers are negative, and in which exactly half are.
/// @param bits      [workers] at the chunk's first byte of each worker
/// @param num_bytes  of the chunk, a multiple of 4
/// @param negative, tied  [kChunkElements / 64] out; arbitrary behind the chunk's end
void count_votes(std::span<const std::uint8_t* const> bits, std::int64_t num_bytes, std::uint64_t* negative,
                 std::uint64_t* tied);
/// out[i] = scale * v: 0 where tied, else -1 where negative, else 1.
/// @param first  bit of the first element, a multiple of 64
void scale_votes(const std::uint64_t* negative, const std::uint64_t* tied, std::int64_t first, std::int64_t count,
                 float scale, float* out, Stores stores);
}  // namespace cpu

}  // namespace terngrad
