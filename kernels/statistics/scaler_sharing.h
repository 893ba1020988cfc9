// Sharing of scalers between workers, without the host: from local scalers to what codes are drawn with and multiplied
// by.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"

namespace terngrad {

/// How the local scalers of all workers become the one that codes are drawn with.
enum class ScalerCombination : std::uint32_t {
  kMax,
  kMean,  // sum in float64 in worker order, over N, rounded once
  kOwn,   // every worker keeps its own
};

/// One scaler's place. Plain words, so that a table of them has no padding.
struct ScalerPlace {
  ScalerCombination combination = ScalerCombination::kMax;
  std::uint32_t segment = 0;   // whose scaler it is
  std::uint32_t is_first = 1;  // 1 for the first scaler of its segment, else 0
};

/// Which gradients were not finite. All zero if none was.
struct NonfiniteReport {
  std::uint64_t inverted_first = 0;  // ~(segment * N + worker) of the first one in this order
  std::uint64_t count = 0;           // of (segment, worker) pairs

  std::uint64_t first() const { return ~inverted_first; }
};

/// Scalers of N workers, of which this process has some. Pointers are device memory on a GPU's stream.
struct ScalerSharingTask {
  const ScalerPlace* places = nullptr;  // [num_scalers]
  std::int64_t num_scalers = 0;         // of one worker
  int num_workers = 1;                  // N
  int max_sum = 1;                      // that codes of N workers can come to: L N for codes of shared / L
  int first_local_worker = 0;
  int num_local_workers = 1;
  const float* local = nullptr;  // [num_workers * num_scalers] worker after worker; NaN: that segment is not finite
  float* own = nullptr;          // out, like local: with 0 for NaN
  float* shared = nullptr;       // [num_scalers] out: the combination; NaN counts as 0. Of kOwn the largest
  float* scales = nullptr;       // [num_scalers] out: fl(shared / fl(max_sum)), what a sum of codes is multiplied by
  float* drawn_with = nullptr;   // [num_local_workers * num_scalers] out: shared, or own for kOwn; 0 for NaN
  NonfiniteReport* report = nullptr;            // updated: set it to zeros before the first call of a step
  std::uint32_t* skip = nullptr;                // null, or set to 1 where a segment is not finite
  const std::uint32_t* stop_latched = nullptr;  // null, or [1]: if it is not 0, the report stays as it is
};

/// Runs the task. Bit-equal on every backend; on a GPU the host does not wait.
/// @throws InvalidArgument if the local workers are not among the N
void combine_scalers(const ScalerSharingTask& task, Stream& stream);

/// A segment counts as a whole: where one of its scalers is NaN, all become it.
/// @param scalers       [num_rows * num_scalers], rows of the same places; in place
/// @param first_scaler  [num_segments + 1] index of each segment's first scaler in a row, then num_scalers
void flag_whole_segments(float* scalers, std::int64_t num_rows, const std::int64_t* first_scaler,
                         std::int64_t num_segments, std::int64_t num_scalers, Stream& stream);

}  // namespace terngrad
