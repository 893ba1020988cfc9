// Aggregation: the mean over workers from their encoded slices, in one pass over the output.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/device.h"

namespace terngrad {

/// Sums of the codes of all workers for one slice, times one scale per block: out[i] = scale * sum_k code_k[i], one
/// float32 multiplication of an exact integer. On a GPU payloads, scales and out are device memory, where check_payload
/// cannot look; the two spans are tables in host memory on every backend.
struct CodeSumTask {
  CodeFormat format = CodeFormat::kT2;
  std::span<const std::uint8_t* const> payloads;  // one per worker; checked by check_payload; 4-byte aligned, lanes 8
  std::span<const std::int64_t> payload_bytes;    // of each; for tmask on a GPU also the room that it has
  int num_workers = 1;                            // N of lanes (lanes only): payloads may be sums themselves
  int summed_workers = 0;                         // of lanes, whose codes they are together; 0: of all N
  std::int64_t first = 0;                         // position of the slice in the segment, a multiple of kChunkElements
  std::int64_t count = 0;
  std::int64_t block_elements = 0;  // elements per scale, a multiple of kMinBlockElements; 0 = one for all
  const float* scales = nullptr;    // [blocks that the slice touches]
  float* out = nullptr;             // [count] out, any 4-byte alignment
  int lane_levels = 2;              // m of lanes
};

/// What the payloads of lanes hold above the sum of their codes.
int summed_lane_bias(const CodeSumTask& task);

/// Checks what every sum over workers asks of a task. @throws InvalidArgument for a payload whose length does not fit
/// it, a misaligned `first`, `block_elements` or payload, or more than kMaxSummedWorkers workers
void check_code_sum(const CodeSumTask& task);

/// Most workers whose codes can be summed: those of ternary codes fit 16 bits.
inline constexpr int kMaxSummedWorkers = 16383;

namespace cuda {
class CodeSumRunner;
}

/// Sums of codes, step after step. On a GPU it keeps the tables of tasks there: a call with the tasks of the last one
/// allocates and copies nothing, and the host does not wait. Serves one stream.
class CodeSummer {
 public:
  explicit CodeSummer(Device device = Device::cpu());

  /// Runs every task. Bit-equal on every backend and for any number of threads: sums are integers. Where a scale is NaN
  /// so is the result: canonical_nan() on a GPU, the scale's own NaN on the CPU.
  /// @throws InvalidArgument for a payload whose length does not fit the task, a misaligned `first`, `block_elements`
  /// or payload, more than 16383 workers, sums that could pass 2^24, or a stream of another device; NotSupported for
  /// trans on a GPU
  void run(std::span<const CodeSumTask> tasks, Stream& stream);

 private:
  Device device_;
  std::shared_ptr<cuda::CodeSumRunner> cuda_;
};

/// Runs every task once, like CodeSummer. On a GPU's stream the host waits for the result.
void aggregate_code_sums(std::span<const CodeSumTask> tasks, Stream& stream);

/// Writes elements [first, first + out.size()) of one leaf as float32: of a worker's slice, or of a sum over several.
using DecodeLeaf = std::function<void(int leaf, std::int64_t first, std::span<float> out)>;

/// out[i] = scale * tree-sum over workers k of leaf_k[i], in float32, for i in [0, count), in the order of
/// kernels/tensor/worker_tree.h. Bit-equal for any number of threads and any split of the tree over processes.
/// @param num_workers  leaves, at least 1
/// @param scale        last factor, fl(1 / N) for a mean; 1 leaves the sum as it is
void aggregate_tree(int num_workers, std::int64_t count, const DecodeLeaf& leaf, float scale, float* out,
                    Stream& stream);
/// The same where sums over subtrees are there already.
/// @param workers  of each leaf, in order. @throws InvalidArgument if they are not subtrees that make up a tree
void aggregate_tree(std::span<const int> workers, std::int64_t count, const DecodeLeaf& leaf, float scale, float* out,
                    Stream& stream);

namespace cpu {
/// How results are stored.
enum class Stores {
  kCached,
  kStreaming,  // past the caches: for results too large to be found there again
};

/// out[i] = scale * (sum over payloads of the t2 codes), for one tile: at most kChunkElements codes of at most 127
/// payloads, payload k's tile beginning at words[k].
void sum_t2_tile(std::span<const std::uint32_t* const> words, std::int64_t count, float scale, float* out,
                 Stores stores);
/// out[i] = a[i] + b[i]; out may be a.
void add(const float* a, const float* b, std::int64_t count, float* out);
/// out[i] = scale * values[i]; out may be values.
void scale(const float* values, std::int64_t count, float factor, float* out);
/// out[i] = scale * float(sums[i]).
void scale_sums(const std::int32_t* sums, std::int64_t count, float factor, float* out);
void scale_sums(const std::int16_t* sums, std::int64_t count, float factor, float* out);
void scale_sums(const std::int8_t* sums, std::int64_t count, float factor, float* out, Stores stores);
}  // namespace cpu

}  // namespace terngrad
