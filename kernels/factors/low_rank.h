// Products of a matrix with thin factors, in a fixed order of sums: the arithmetic of low-rank compression.
#pragma once

#include <cstdint>
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

/// Products are of float32 numbers, exact in float64; sums are float64, begin with +0 and are rounded to float32 once.
/// Their order is part of the format (contract B1):
/// - along a row, and of two columns of a factor: lane i % 16 takes element i of a chunk of 4096 in increasing order;
///   lane j takes j + 8, then j + 4, j + 2, j + 1; chunks are added in order;
/// - along a column of M: rows in blocks of 64, which add in order; of the blocks slot b % 256 takes its own in
///   increasing order, then slot j takes j + 128, 64, ..., 1.
///
/// Results have the same bits for any number of threads, SIMD width and alignment. Not safe to use twice at once: the
/// object owns the workspace.
class LowRankProducts {
 public:
  /// P = M Q. @param q  Q^T [rank][columns]. @param p  P^T [rank][rows] out
  /// @throws InvalidArgument for a rank that is not from 1 to kMaxRank; NotSupported on a GPU's stream. So do all
  /// others
  void times_columns(const Matrix& m, const float* q, int rank, float* p, Stream& stream);
  /// Q = M^T P. @param p  P^T [rank][rows]. @param q  Q^T [rank][columns] out
  void times_rows(const Matrix& m, const float* p, int rank, float* q, Stream& stream);

  /// Makes the columns of P orthonormal, in place: modified Gram-Schmidt, in two passes over the columns in order. Of a
  /// column each earlier one takes c p_i away, c = p_i . p_j in float64, every element rounded to float32 after each;
  /// then it is divided by its norm, in float64. A column whose norm falls to 2^-20 of what it was before the pass, or
  /// that is zero or not finite, becomes zeros.
  /// @param p  P^T [rank][rows]
  static void orthonormalize(float* p, std::int64_t rows, int rank);

 private:
  std::vector<double> widened_;             // Q^T, of rows of whole vectors
  std::vector<std::vector<double>> slots_;  // of each thread
};

/// Elements [first, first + out.size()) of P Q^T, in the order of the matrix: the sum over j of P[i][j] Q[c][j], in
/// order, by the rule above and with its bits on every SIMD width. Safe to call at once.
/// @param p  P^T [rank][rows]. @param q  Q^T [rank][columns]
void low_rank_elements(const float* p, std::int64_t rows, const float* q, std::int64_t columns, int rank,
                       std::int64_t first, std::span<float> out);

}  // namespace terngrad
