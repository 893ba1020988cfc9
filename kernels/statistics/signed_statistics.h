// Statistics of the positive and negative elements of gradients, from which a scaler for each sign is computed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Sums and maxima of |g| by sign bit over a group of elements: -0 is negative.
struct SignedStatistics {
  double sum_positive = 0;
  double sum_negative = 0;
  std::uint64_t num_negative = 0;
  std::uint32_t max_positive = 0;  // bit patterns: NaN > infinity > finite
  std::uint32_t max_negative = 0;

  /// True if an element was NaN or infinite; the sums are then unspecified.
  bool is_nonfinite() const { return max_positive >= 0x7f800000u || max_negative >= 0x7f800000u; }
  friend bool operator==(const SignedStatistics&, const SignedStatistics&) = default;
};

/// A run of elements of one segment, treated as one group or as one group per column.
struct SignedRun {
  Slice slice = {};
  std::int64_t columns = 0;  // 0: one group; else C: group i mod C for element i, and the slice is made of whole rows
};

/// Rows per block of a column sum; blocks are the leaves of its reduction.
inline constexpr std::int64_t kColumnBlockRows = 64;

/// Plan for signed statistics. The order of the sums is fixed and part of the format (contract B1). All accumulators
/// are float64 and start at +0; an element of the other sign adds +0, which changes no sum.
///
/// One group: the tree of kernels/statistics/statistics.h. Columns: the rows of C elements are summed in order within
/// blocks of 64 rows; slot b % 256 takes block b, in increasing order; then slot j takes j + 128, 64, ..., 1.

namespace cuda {
class SignedStatisticsRunner;
}

/// Computes signed statistics of many runs in one pass over their elements.
class SignedStatisticsPlan {
 public:
  /// @param runs    any runs; empty ones have no groups
  /// @param device  device of the elements
  /// @throws InvalidArgument for a run of columns that does not start at its segment's start or ends inside a row
  explicit SignedStatisticsPlan(std::vector<SignedRun> runs, Device device = Device::cpu());

  std::span<const SignedRun> runs() const { return runs_; }
  /// Total number of groups: one or C per run, in order.
  std::int64_t num_groups() const { return num_groups_; }

  /// Computes the statistics of every group of `tensors`. Bit-equal on every backend, for any alignment, number of
  /// threads and SIMD width, and to those of the elements widened to float32 (the sums of a group with NaN or infinity
  /// are unspecified and may differ). Not thread-safe: the plan owns the workspace. Asynchronous on a GPU.
  /// @param tensors  of any element type, finite or not; read once. Device memory on a GPU
  /// @param out      [num_groups()] out; device memory on a GPU
  /// @throws InvalidArgument if out has another size or the stream is on another device than the plan
  void run(const TensorTable& tensors, std::span<SignedStatistics> out, Stream& stream);

  /// Computes for every group and worker the mean |g| of the negative elements, a-, then of the others, a+, in float64,
  /// rounded to float32 once; 0 if there are none. Limits are those of the sign rules (kernels/statistics/scaler.h): 0
  /// if the side's largest |g| is below kMinScaler; the canonical NaN, for both, if an element is not finite or a mean
  /// exceeds kMaxScaler. Source: Seide et al., "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel
  /// Distributed Training of Speech DNNs", Interspeech 2014, section 3.2 (reconstruction values).
  /// @param out  [workers.size() * 2 * num_groups()] out, worker-major; device memory on a GPU
  /// @throws InvalidArgument as run, and if the workers' element types differ
  void side_means(std::span<const TensorTable> workers, std::span<float> out, Stream& stream);

 private:
  void require_stream(const Stream& stream) const;
  /// A run's groups and parts. Parts are chunks, or blocks of rows.
  struct Place {
    std::int64_t first_group;
    std::int64_t num_groups;
    std::int64_t first_part;  // index over all runs
    std::int64_t num_parts;
    std::int64_t first_partial;  // start of [num_parts][num_groups]
  };

  std::vector<SignedRun> runs_;
  Device device_;
  std::vector<Place> places_;
  std::int64_t num_groups_ = 0;
  std::int64_t num_parts_ = 0;
  Buffer<SignedStatistics> partials_;  // on the CPU
  std::vector<SignedStatistics> groups_;
  std::shared_ptr<cuda::SignedStatisticsRunner> cuda_;
};

namespace cpu {
/// Signed statistics of one chunk, count in [0, 4096].
SignedStatistics signed_chunk_statistics(const float* values, std::int64_t count);
/// Signed statistics of each column of up to 64 rows. @param out  [columns] out
void column_statistics(const float* values, std::int64_t rows, std::int64_t columns, SignedStatistics* out);
}  // namespace cpu

}  // namespace terngrad
