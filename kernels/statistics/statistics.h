// Statistics of gradients, from which scalers are computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Kind of sum.
enum class SummedAs : std::uint8_t {
  kValues,      // sum of g: S1
  kMagnitudes,  // sum of |g|: A
};

/// Sum, sum of squares and largest magnitude of a group of elements.
struct Statistics {
  double sum = 0;              // S1 or A (SummedAs)
  double sum_squares = 0;      // S2
  std::uint32_t max_bits = 0;  // bit pattern of max|g|; ordered like the values: NaN > infinity > finite
  std::uint32_t reserved = 0;  // zero, so that equal statistics are equal bytes

  /// True if an element was NaN or infinite; the sums are then unspecified.
  bool is_nonfinite() const { return max_bits >= 0x7f800000u; }
  float max_abs() const;
  friend bool operator==(const Statistics&, const Statistics&) = default;
};

/// Statistics of a followed by b: adds sums, takes the larger maximum.
Statistics combine(const Statistics& a, const Statistics& b);

/// Reduction tree, part of the format (contract B1). A slice is cut into chunks of 4096 elements from its start.
/// Element i of a chunk belongs to row i / 512 and lane i % 16. Accumulators are float64 and start at +0. Order of
/// summation:
/// 1. each (row, lane): its elements in increasing order; g (or |g|) and g * g are exact in float64;
/// 2. rows of a lane: ((0+1)+(2+3)) + ((4+5)+(6+7)); absent elements and rows count as +0;
/// 3. lanes: lane j takes j + 8, then j + 4, j + 2, j + 1;
/// 4. chunks: slot c % 256 takes chunk c, in increasing order, then slot j takes j + 128, 64, ..., 1.
inline constexpr std::size_t kStatisticsRows = 8;
inline constexpr std::size_t kStatisticsLanes = 16;
inline constexpr std::size_t kStatisticsRowElements = std::size_t{kChunkElements} / kStatisticsRows;
inline constexpr std::size_t kStatisticsSlots = 256;

namespace cuda {
class StatisticsRunner;
}

/// Computes statistics of many slices in one pass over their elements.
class StatisticsPlan {
 public:
  /// @param slices  any slices; each gets its own statistics, zeros if it is empty
  /// @param device  device of the elements
  explicit StatisticsPlan(std::vector<Slice> slices, Device device = Device::cpu());

  std::span<const Slice> slices() const { return slices_; }

  /// Computes the statistics of every slice of `tensors`. Bit-equal on every backend, for any alignment, number of
  /// threads and SIMD width, and to those of the elements widened to float32 (the sums of a slice with NaN or infinity
  /// are unspecified and may differ). Not thread-safe: the plan owns the workspace. Asynchronous on a GPU.
  /// @param tensors  of any element type, finite or not; read once. Device memory on a GPU
  /// @param out      [slices().size()] out; device memory on a GPU
  /// @param summed   kind of Statistics::sum
  /// @throws InvalidArgument if out has another size or the stream is on another device than the plan
  void run(const TensorTable& tensors, std::span<Statistics> out, Stream& stream, SummedAs summed = SummedAs::kValues);

  /// Computes Statistics::max_bits alone, on the CPU. @param out  [slices().size()] out
  /// @throws InvalidArgument as run, and for a plan of a GPU
  void largest_bits(const TensorTable& tensors, std::span<std::uint32_t> out, Stream& stream);

  /// The plan's GPU part, for kernels that build on it. @throws InvalidArgument for another device's stream
  cuda::StatisticsRunner& on_cuda(const Stream& stream);

 private:
  void require_device(const Stream& stream) const;
  /// Calls body(values, count) for every chunk and stores what it returns in partials_.
  template <class Body>
  void for_each_chunk(const TensorTable& tensors, Stream& stream, const Body& body);
  std::vector<Slice> slices_;
  Device device_;
  std::vector<std::int64_t> first_chunk_;  // per slice, index over all chunks; then the number of chunks
  Buffer<Statistics> partials_;            // per chunk; on the CPU
  std::shared_ptr<cuda::StatisticsRunner> cuda_;
};

/// Step 4 of the tree: combines the statistics of a slice's chunks, in order.
Statistics combine_chunks(std::span<const Statistics> chunks);

/// Statistics of one contiguous array (as one slice). On a GPU's stream `values` is device memory, and the call waits.
Statistics measure(std::span<const float> values, Stream& stream, SummedAs summed = SummedAs::kValues);

namespace cpu {
/// Statistics of one chunk, count in [0, 4096].
Statistics chunk_statistics(const float* values, std::int64_t count, SummedAs summed = SummedAs::kValues);
/// Statistics::max_bits of any number of elements.
std::uint32_t largest_bits(const float* values, std::int64_t count);
}  // namespace cpu

}  // namespace terngrad
