// Statistics of gradients: what scalers are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// What a sum of elements adds up.
enum class SummedAs : std::uint8_t {
  kValues,      // g: S1
  kMagnitudes,  // |g|: A
};

/// Sum, sum of squares and largest magnitude of a run of elements.
struct Statistics {
  double sum = 0;              // S1, or A (SummedAs)
  double sum_squares = 0;      // S2
  std::uint32_t max_bits = 0;  // bit pattern of max|g|: NaN > infinity > finite. Order of bits is order of values
  std::uint32_t reserved = 0;  // zero, so that equal statistics are equal bytes

  /// Whether an element was NaN or infinite. The sums mean nothing then.
  bool is_nonfinite() const { return max_bits >= 0x7f800000u; }
  float max_abs() const;
  friend bool operator==(const Statistics&, const Statistics&) = default;
};

/// a followed by b: sums added, largest magnitudes compared.
Statistics combine(const Statistics& a, const Statistics& b);

/// The reduction tree, which is part of the format (contract B1). A slice is cut into chunks of 4096 elements from its
/// start. Element i of a chunk belongs to row i / 512 and lane i % 16. Accumulators are float64, start at +0, and take
/// 1. each (row, lane): its elements in increasing order; g (or |g|) and g * g are exact in float64;
/// 2. rows of a lane: ((0+1)+(2+3)) + ((4+5)+(6+7)); absent elements and rows count as +0;
/// 3. lanes: lane j takes j + 8, then j + 4, j + 2, j + 1;
/// 4. chunks: slot c % 256 takes its chunks in increasing order, then slot j takes j + 128, 64, ..., 1.
inline constexpr std::size_t kStatisticsRows = 8;
inline constexpr std::size_t kStatisticsLanes = 16;
inline constexpr std::size_t kStatisticsRowElements = std::size_t{kChunkElements} / kStatisticsRows;
inline constexpr std::size_t kStatisticsSlots = 256;

namespace cuda {
class StatisticsRunner;
}

/// Statistics of many slices in one pass over their elements.
class StatisticsPlan {
 public:
  /// @param slices  any slices; each gets statistics of its own. Empty slices give zeros
  /// @param device  where the elements will be
  explicit StatisticsPlan(std::vector<Slice> slices, Device device = Device::cpu());

  std::span<const Slice> slices() const { return slices_; }

  /// Measures every slice of `tensors`.
  /// @param tensors  of any element type, finite or not; read once. Device memory on a GPU
  /// @param out      [slices().size()] out; device memory on a GPU
  /// @param summed   what Statistics::sum is the sum of
  /// @throws InvalidArgument if out has another size or the stream is another device's than the plan's
  /// Bit-equal on every backend, for any alignment, number of threads and SIMD width, and to those of the elements
  /// widened to float32 (the sums of a slice with NaN or infinity in it mean nothing and may differ). Not safe to run
  /// twice at once on one plan: the plan owns the workspace. On a GPU the host does not wait.
  void run(const TensorTable& tensors, std::span<Statistics> out, Stream& stream, SummedAs summed = SummedAs::kValues);

  /// The part of a plan on a GPU, for kernels that continue from it. @throws InvalidArgument for another device's
  /// stream
  cuda::StatisticsRunner& on_cuda(const Stream& stream);

 private:
  void require_device(const Stream& stream) const;
  std::vector<Slice> slices_;
  Device device_;
  std::vector<std::int64_t>
      first_chunk_;              // of each slice, in the joint numbering of chunks; one past the last at the end
  Buffer<Statistics> partials_;  // one per chunk; on the CPU
  std::shared_ptr<cuda::StatisticsRunner> cuda_;
};

/// Step 4 of the tree: a slice's statistics from those of its chunks, in order.
Statistics combine_chunks(std::span<const Statistics> chunks);

/// Statistics of one contiguous run (as one slice); of device memory on a GPU's stream, for which the host waits.
Statistics measure(std::span<const float> values, Stream& stream, SummedAs summed = SummedAs::kValues);

namespace cpu {
/// Statistics of one chunk, count in [0, 4096].
Statistics chunk_statistics(const float* values, std::int64_t count, SummedAs summed = SummedAs::kValues);
}  // namespace cpu

}  // namespace terngrad
