// Aggregation of codes: the mean over workers from their encoded slices, in one pass over the output.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/device.h"

namespace terngrad {

/// Sum of all workers' codes of one slice, times one scale per block: out[i] = scale * sum_k code_k[i], one float32
/// multiplication of an exact integer. On a GPU payloads, scales and out are device memory, and payloads cannot be
/// validated with check_payload; both spans are host memory on every backend.
struct CodeSumTask {
  CodeFormat format = CodeFormat::kT2;
  std::span<const std::uint8_t* const> payloads;  // per worker; validated by check_payload; 4-byte aligned, lanes 8
  std::span<const std::int64_t> payload_bytes;    // per worker; for tmask on a GPU possibly the capacity
  int num_workers = 1;                            // N of lanes (lanes only), whose payloads may be sums themselves
  int summed_workers = 0;                         // lanes: number of workers in the sum of all payloads; 0: all N
  std::int64_t first = 0;                         // offset of the slice in the segment, a multiple of kChunkElements
  std::int64_t count = 0;
  std::int64_t block_elements = 0;  // elements per scale, a multiple of kMinBlockElements; 0 = one for all
  const float* scales = nullptr;    // [blocks that the slice touches]
  float* out = nullptr;             // [count] out, any 4-byte alignment
  int lane_levels = 2;              // m, for lanes
};

/// Bias of the summed lanes: the payloads' counts minus the sum of codes.
int summed_lane_bias(const CodeSumTask& task);

/// Checks the requirements common to all sums over workers.
/// @throws InvalidArgument for a payload of the wrong length, a misaligned `first`, `block_elements` or payload, or
/// more than kMaxSummedWorkers workers
void check_code_sum(const CodeSumTask& task);

/// Largest number of workers whose codes can be summed: sums of ternary codes then fit 16 bits.
inline constexpr int kMaxSummedWorkers = 16383;

namespace cuda {
class CodeSumRunner;
}

/// Sums codes step after step. On a GPU it caches the task tables: a call with the same tasks as the previous one
/// neither allocates, copies nor waits. Use each object with one stream only.
class CodeSummer {
 public:
  explicit CodeSummer(Device device = Device::cpu());

  /// Runs every task. Bit-equal on every backend and for any number of threads, since sums are integers. If a scale is
  /// NaN, the result is NaN: canonical_nan() on a GPU, the scale's own NaN on the CPU.
  /// @throws InvalidArgument for a payload of the wrong length, a misaligned `first`, `block_elements` or payload, more
  /// than 16383 workers, sums that could exceed 2^24, or a stream of another device; NotSupported for trans on a GPU
  void run(std::span<const CodeSumTask> tasks, Stream& stream);

 private:
  Device device_;
  std::shared_ptr<cuda::CodeSumRunner> cuda_;
};

/// Runs every task once, like CodeSummer. On a GPU's stream it waits for the result.
void aggregate_code_sums(std::span<const CodeSumTask> tasks, Stream& stream);

/// Decodes elements [first, first + out.size()) of one leaf to float32. A leaf is a worker's slice or a partial sum.
using DecodeLeaf = std::function<void(int leaf, std::int64_t first, std::span<float> out)>;

/// out[i] = scale * tree-sum over workers k of leaf_k[i], in float32, for i in [0, count), in the order of
/// kernels/tensor/worker_tree.h. Bit-equal for any number of threads and any split of the tree over processes.
/// @param num_workers  number of leaves, at least 1
/// @param scale        final factor, fl(1 / N) for a mean; 1 for the plain sum
void aggregate_tree(int num_workers, std::int64_t count, const DecodeLeaf& leaf, float scale, float* out,
                    Stream& stream);
/// The same with leaves that are sums over subtrees.
/// @param workers  number of workers per leaf, in order
/// @throws InvalidArgument if they are not subtrees that make up a tree
void aggregate_tree(std::span<const int> workers, std::int64_t count, const DecodeLeaf& leaf, float scale, float* out,
                    Stream& stream);

namespace cpu {
/// Cache policy of result stores.
enum class Stores {
  kCached,
  kStreaming,  // non-temporal: for results too large to stay in the cache
};

/// out[i] = scale * (sum over payloads of their t2 codes) for one tile: at most kChunkElements codes of at most 127
/// payloads; payload k's tile begins at words[k].
void sum_t2_tile(std::span<const std::uint32_t* const> words, std::int64_t count, float scale, float* out,
                 Stores stores);
/// out[i] = a[i] + b[i]; out may be a.
void add(const float* a, const float* b, std::int64_t count, float* out);
/// out[i] = factor * values[i]; out may be values.
void scale(const float* values, std::int64_t count, float factor, float* out);
/// out[i] = factor * float(sums[i]).
void scale_sums(const std::int32_t* sums, std::int64_t count, float factor, float* out);
void scale_sums(const std::int16_t* sums, std::int64_t count, float factor, float* out);
void scale_sums(const std::int8_t* sums, std::int64_t count, float factor, float* out, Stores stores);
}  // namespace cpu

}  // namespace terngrad
