// Statistics of the two sides of gradients, positive and negative: what a scaler for each side is made of.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Sums and maxima of |g| of a group of elements, by the sign bit of each: -0 is on the negative side.
struct SignedStatistics {
  double sum_positive = 0;
  double sum_negative = 0;
  std::uint64_t num_negative = 0;
  std::uint32_t max_positive = 0;  // bit patterns: NaN > infinity > finite
  std::uint32_t max_negative = 0;

  /// Whether an element was NaN or infinite. The sums mean nothing then.
  bool is_nonfinite() const { return max_positive >= 0x7f800000u || max_negative >= 0x7f800000u; }
  friend bool operator==(const SignedStatistics&, const SignedStatistics&) = default;
};

/// A run of elements of one segment, as one group or as one for each column.
struct SignedRun {
  Slice slice = {};
  std::int64_t columns = 0;  // 0: one group; else C: a group of the elements of each position mod C. The slice is whole
};

/// Rows of a matrix that column sums add in one go.
inline constexpr std::int64_t kColumnBlockRows = 64;

/// Signed statistics, the sums of which have a fixed order, which is part of the format (contract B1). All accumulators
/// are float64 and start at +0; an element of the other side adds +0, which changes no sum.
///
/// One group: the tree of kernels/statistics/statistics.h.
/// Columns: rows of C elements in blocks of 64, which add in order; of the blocks slot b % 256 takes its own in
/// increasing order, then slot j takes j + 128, 64, ..., 1.

namespace cuda {
class SignedStatisticsRunner;
}

/// Signed statistics of many runs in one pass over their elements.
class SignedStatisticsPlan {
 public:
  /// @param runs    any runs; empty ones have no groups
  /// @param device  where the elements will be
  /// @throws InvalidArgument for a run of columns that does not begin its segment, or ends inside a row
  explicit SignedStatisticsPlan(std::vector<SignedRun> runs, Device device = Device::cpu());

  std::span<const SignedRun> runs() const { return runs_; }
  /// Groups of all runs: one, or C, for each, in order.
  std::int64_t num_groups() const { return num_groups_; }

  /// Measures every group of `tensors`.
  /// @param tensors  of any element type, finite or not; read once. Device memory on a GPU
  /// @param out      [num_groups()] out; device memory on a GPU
  /// @throws InvalidArgument if out has another size or the stream is another device's than the plan's
  /// Bit-equal on every backend, for any alignment, number of threads and SIMD width, and to those of the elements
  /// widened to float32 (the sums of a group with NaN or infinity in it mean nothing and may differ). Not safe to run
  /// twice at once on one plan: the plan owns the workspace. On a GPU the host does not wait.
  void run(const TensorTable& tensors, std::span<SignedStatistics> out, Stream& stream);

  /// The means of the two sides of every group, for the gradients of several workers: the mean |g| of its negative
  /// elements, a-, then that of its others, a+, in float64, rounded to float32 once; 0 where there are none. Their
  /// limits are those of signs (kernels/statistics/scaler.h): 0 where the side's largest |g| is below kMinScaler, the
  /// canonical NaN, for both, where an element is not finite or a scaler is above kMaxScaler.
  /// @param out  [workers.size() * 2 * num_groups()] out, worker after worker; device memory on a GPU
  /// @throws InvalidArgument as run, and for workers of different element types
  /// Seide et al., "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel Distributed Training of
  /// Speech DNNs", Interspeech 2014, section 3.2 (reconstruction values).
  void side_means(std::span<const TensorTable> workers, std::span<float> out, Stream& stream);

 private:
  void require_stream(const Stream& stream) const;
  /// A run's groups and parts: chunks, or blocks of rows.
  struct Place {
    std::int64_t first_group;
    std::int64_t num_groups;
    std::int64_t first_part;  // in the joint numbering of parts
    std::int64_t num_parts;
    std::int64_t first_partial;  // [num_parts][num_groups]
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
/// Of one chunk, count in [0, 4096].
SignedStatistics signed_chunk_statistics(const float* values, std::int64_t count);
/// Of each column of up to 64 rows. @param out  [columns] out
void column_statistics(const float* values, std::int64_t rows, std::int64_t columns, SignedStatistics* out);
}  // namespace cpu

}  // namespace terngrad
