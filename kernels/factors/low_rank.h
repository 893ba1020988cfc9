// Products of a matrix with thin factors, in a fixed order of sums: the arithmetic of low-rank compression.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/runtime/device.h"

namespace terngrad {

/// A matrix M of float32, row-major. Factors are kept transposed, a row for each of their columns: P^T [rank, rows],
/// Q^T [rank, columns].
struct Matrix {
  const float* values = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// The most columns that a factor has.
inline constexpr int kMaxRank = 32;

/// n rows and m columns of a matrix, and of how many columns r' its factors are.
struct FactorSizes {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  int rank = 0;
};
/// Of a tensor of that many elements in whole rows of m = columns > 0: r' = min(rank, n, m).
FactorSizes factor_sizes(std::int64_t num_elements, std::int64_t columns, int rank);

/// A matrix and its factors, of which a call reads some and writes others. Device memory on a GPU's stream.
struct FactorTask {
  Matrix m = {};
  int rank = 0;
  float* p = nullptr;  // P^T [rank][m.rows]
  float* q = nullptr;  // Q^T [rank][m.columns]
};

/// A product of two factors to write. Device memory on a GPU's stream.
struct LowRankTask {
  FactorSizes sizes = {};
  const float* p = nullptr;     // P^T
  const float* q = nullptr;     // Q^T
  const float* from = nullptr;  // set: what the product is subtracted from; may be `out`
  const float* flag = nullptr;  // set, and NaN: `out` is left as it is
  float* out = nullptr;         // [rows * columns] out
};

namespace cuda {
class LowRankRunner;
}

/// Products are of float32 numbers, exact in float64; sums are float64, begin with +0 and are rounded to float32 once.
/// Their order is part of the format (contract B1):
/// - along a row, and of two columns of a factor: lane i % 16 takes element i of a chunk of 4096 in increasing order;
///   lane j takes j + 8, then j + 4, j + 2, j + 1; chunks are added in order;
/// - along a column of M: rows in blocks of 64, which add in order; of the blocks slot b % 256 takes its own in
///   increasing order, then slot j takes j + 128, 64, ..., 1.
///
/// Results have the same bits on every backend, for any number of threads, SIMD width and alignment. On a GPU nothing
/// is allocated or copied from the host, and the host does not wait, if the tasks are those of the last call of the
/// same function: it can then be captured into a CUDA graph. Not safe to use twice at once: the object owns the
/// workspace. Serves one stream.
///
/// All throw InvalidArgument for a rank that is not from 1 to kMaxRank, and for another device's stream.
class LowRankProducts {
 public:
  explicit LowRankProducts(Device device = Device::cpu());

  /// P = M Q of each task.
  void times_columns(std::span<const FactorTask> tasks, Stream& stream);
  /// Q = M^T P of each task.
  void times_rows(std::span<const FactorTask> tasks, Stream& stream);

  /// Makes the columns of each task's P orthonormal, in place: modified Gram-Schmidt, in two passes over the columns in
  /// order. Of a column each earlier one takes c p_i away, c = p_i . p_j in float64, every element rounded to float32
  /// after each; then it is divided by its norm, in float64. A column whose norm falls to 2^-20 of what it was before
  /// the pass, or that is zero or not finite, becomes zeros. Values and Q are not looked at.
  void orthonormalize(std::span<const FactorTask> tasks, Stream& stream);

  /// out = P Q^T of each task, or fl(from - P Q^T): elements as low_rank_elements has them.
  /// @param skip  [1] in the tasks' memory, or null: not 0, and nothing is written
  void write_products(std::span<const LowRankTask> tasks, const std::uint32_t* skip, Stream& stream);

 private:
  void require(std::span<const FactorTask> tasks, const Stream& stream) const;
  void times_columns(const FactorTask& task, const Stream& stream);
  void times_rows(const FactorTask& task, const Stream& stream);

  Device device_;
  std::shared_ptr<cuda::LowRankRunner> cuda_;
  std::vector<double> widened_;             // Q^T, of rows of whole vectors
  std::vector<std::vector<double>> slots_;  // of each thread
};

/// Elements [first, first + out.size()) of P Q^T, in the order of the matrix, in host memory: the sum over j of P[i][j]
/// Q[c][j], in order, by the rule above and with its bits on every SIMD width. Safe to call at once.
/// @param p  P^T [rank][rows]. @param q  Q^T [rank][columns]
void low_rank_elements(const float* p, std::int64_t rows, const float* q, std::int64_t columns, int rank,
                       std::int64_t first, std::span<float> out);

}  // namespace terngrad
