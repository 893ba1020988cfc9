// Products of a matrix with thin factors, in a fixed order of summation: the arithmetic of low-rank compression
// (PowerSGD).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/runtime/device.h"

namespace terngrad {

/// A float32 matrix M, row-major. Its factors are stored transposed: P^T [rank, rows], Q^T [rank, columns].
struct Matrix {
  const float* values = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// Largest rank of a factorization.
inline constexpr int kMaxRank = 32;

/// Sizes of a factorization: n rows and m columns of the matrix, and the rank r'.
struct FactorSizes {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  int rank = 0;
};
/// Sizes for a tensor of num_elements elements in rows of m = columns > 0: r' = min(rank, n, m).
FactorSizes factor_sizes(std::int64_t num_elements, std::int64_t columns, int rank);

/// A matrix and its factors; each function documents which it reads and writes. Device memory on a GPU's stream.
struct FactorTask {
  Matrix m = {};
  int rank = 0;
  float* p = nullptr;  // P^T [rank][m.rows]
  float* q = nullptr;  // Q^T [rank][m.columns]
};

/// A product P Q^T to write. Device memory on a GPU's stream.
struct LowRankTask {
  FactorSizes sizes = {};
  const float* p = nullptr;     // P^T
  const float* q = nullptr;     // Q^T
  const float* from = nullptr;  // null, or minuend: writes from - P Q^T; may be `out`
  const float* flag = nullptr;  // null, or [1]: NaN leaves `out` unchanged
  float* out = nullptr;         // [rows * columns] out
};

namespace cuda {
class LowRankRunner;
}

/// Matrix products and orthonormalization of factors. Products of float32 numbers are exact in float64; sums are
/// float64, start with +0 and are rounded to float32 once. The order of summation is part of the format (contract B1):
/// - along a row, and for dot products of two columns of a factor: lane i % 16 takes element i of a chunk of 4096, in
///   increasing order; lane j takes j + 8, then j + 4, j + 2, j + 1; chunks are added in order;
/// - along a column of M: rows are added in order within blocks of 64; slot b % 256 takes block b, in increasing order;
///   then slot j takes j + 128, 64, ..., 1.
///
/// Results are bit-identical on every backend, for any number of threads, SIMD width and alignment. On a GPU, a
/// function called with the tasks of its previous call neither allocates, copies from the host nor waits, so it can be
/// captured into a CUDA graph. Not thread-safe: the object owns the workspace. Use each object with one stream only.
///
/// All throw InvalidArgument for a rank outside [1, kMaxRank] and for another device's stream.
class LowRankProducts {
 public:
  explicit LowRankProducts(Device device = Device::cpu());

  /// P = M Q for each task.
  void times_columns(std::span<const FactorTask> tasks, Stream& stream);
  /// Q = M^T P for each task.
  void times_rows(std::span<const FactorTask> tasks, Stream& stream);

  /// Makes the columns of each task's P orthonormal, in place: modified Gram-Schmidt, two passes over the columns in
  /// order. Column p_j is reduced by c p_i for each earlier column, with c = p_i . p_j in float64 and elements rounded
  /// to float32 after each subtraction; then it is divided by its norm, in float64. A column becomes zeros if its norm
  /// falls to 2^-20 of its value before the pass or less, is zero or is not finite. The matrix values and Q are not
  /// used.
  void orthonormalize(std::span<const FactorTask> tasks, Stream& stream);

  /// out = P Q^T for each task, or fl(from - P Q^T), with elements as in low_rank_elements.
  /// @param skip  null, or [1] in the tasks' memory: nonzero writes nothing
  void write_products(std::span<const LowRankTask> tasks, const std::uint32_t* skip, Stream& stream);

 private:
  void require(std::span<const FactorTask> tasks, const Stream& stream) const;
  void times_columns(const FactorTask& task, const Stream& stream);
  void times_rows(const FactorTask& task, const Stream& stream);

  Device device_;
  std::shared_ptr<cuda::LowRankRunner> cuda_;
  std::vector<double> widened_;             // Q^T, in rows padded to whole vectors
  std::vector<std::vector<double>> slots_;  // per thread
};

/// Elements [first, first + out.size()) of P Q^T in the order of the matrix, in host memory: sum over j of P[i][j]
/// Q[c][j], in order, in float64 and rounded once, with the same bits for every SIMD width. Thread-safe.
/// @param p  P^T [rank][rows]
/// @param q  Q^T [rank][columns]
void low_rank_elements(const float* p, std::int64_t rows, const float* q, std::int64_t columns, int rank,
                       std::int64_t first, std::span<float> out);

}  // namespace terngrad
