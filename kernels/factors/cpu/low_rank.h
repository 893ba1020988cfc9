// CPU loops of kernels/factors/low_rank.h.
#pragma once

#include <cstdint>

#include "kernels/factors/sum_order.h"

namespace terngrad::cpu {

inline constexpr std::int64_t kFactorPanelColumns = 256;  // columns summed together: long contiguous runs of every row

/// Computes rows of P = M Q.
/// @param q  Q^T in float64, rows `stride` apart (a multiple of kFactorLanes), padded with 0
/// @param p  P^T out, from the first of these rows on; its rows are `p_stride` apart
void times_columns(const float* values, std::int64_t rows, std::int64_t columns, const double* q, std::int64_t stride,
                   int rank, float* p, std::int64_t p_stride);

/// Sums up to kFactorPanelColumns columns of M^T P over blocks of rows, in tiles of kFactorLanes columns: slot s is the
/// sum over blocks b with b % 256 = s.
/// @param values  first of these columns
/// @param p  P^T
/// @param slots   [min(256, blocks)][tiles][rank][kFactorLanes] out
void add_blocks(const float* values, std::int64_t rows, std::int64_t columns, std::int64_t num_columns, const float* p,
                int rank, double* slots);

/// Computes elements of a row of P Q^T.
/// @param p  elements of this row, `p_stride` apart
/// @param q  from the column of the first element on, rows `q_stride` apart
void low_rank_row(const float* p, std::int64_t p_stride, const float* q, std::int64_t q_stride, int rank, float* out,
                  std::int64_t count);

}  // namespace terngrad::cpu
