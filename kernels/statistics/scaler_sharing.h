// Combines the local scalers of the workers on the device: the scalers for drawing codes and for decoding their sum.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"

namespace terngrad {

/// Combination of the workers' local scalers into the one for drawing codes.
enum class ScalerCombination : std::uint32_t {
  kMax,
  kMean,  // float64 sum in worker order, divided by N, rounded once
  kOwn,   // every worker uses its own
};

/// Description of one scaler of a worker. 32-bit words only, so that a table of them has no padding.
struct ScalerPlace {
  ScalerCombination combination = ScalerCombination::kMax;
  std::uint32_t segment = 0;   // index of the scaler's segment
  std::uint32_t is_first = 1;  // 1 for the first scaler of its segment, else 0
};

/// Number and position of non-finite segments. All zero if there are none.
struct NonfiniteReport {
  std::uint64_t inverted_first = 0;  // ~(segment * N + worker) of the first one
  std::uint64_t count = 0;           // number of (segment, worker) pairs

  std::uint64_t first() const { return ~inverted_first; }
};

/// Scalers of N workers, some of them local to this process. Pointers are device memory on a GPU's stream.
struct ScalerSharingTask {
  const ScalerPlace* places = nullptr;  // [num_scalers]
  std::int64_t num_scalers = 0;         // per worker
  int num_workers = 1;                  // N
  int max_sum = 1;                      // largest possible sum of the codes of N workers: L N for codes of shared / L
  int first_local_worker = 0;
  int num_local_workers = 1;
  const float* local = nullptr;       // [num_workers * num_scalers] worker-major; NaN: non-finite segment
  float* own = nullptr;               // out, like local, with NaN replaced by 0
  float* shared = nullptr;            // [num_scalers] out: the combination (max for kOwn); NaN counts as 0
  float* scales = nullptr;            // [num_scalers] out: fl(shared / fl(max_sum)), factor for a sum of codes
  float* drawn_with = nullptr;        // [num_local_workers * num_scalers] out: shared, or own for kOwn; 0 for NaN
  NonfiniteReport* report = nullptr;  // updated: set it to zero before the first call of a step
  std::uint32_t* skip = nullptr;      // null, or set to 1 if any segment is non-finite
  const std::uint32_t* stop_latched = nullptr;  // null, or [1]: nonzero leaves the report unchanged
};

/// Runs the task. Bit-equal on every backend; asynchronous on a GPU.
/// @throws InvalidArgument if the local workers are not among the N
void combine_scalers(const ScalerSharingTask& task, Stream& stream);

/// If one scaler of a segment is NaN, sets all scalers of the segment to the canonical NaN, in place.
/// @param scalers       [num_rows * num_scalers], rows with the same segments
/// @param first_scaler  [num_segments + 1] index of each segment's first scaler in a row, then num_scalers
void flag_whole_segments(float* scalers, std::int64_t num_rows, const std::int64_t* first_scaler,
                         std::int64_t num_segments, std::int64_t num_scalers, Stream& stream);

}  // namespace terngrad
