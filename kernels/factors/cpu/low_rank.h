// The loops of kernels/factors/low_rank.h on CPUs.
#pragma once

#include <cstdint>

#include "kernels/factors/sum_order.h"

namespace terngrad::cpu {

inline constexpr std::int64_t kFactorPanelColumns = 256;  // that are summed at a time: long runs of every row

/// Rows of M Q. @param q  Q^T in float64, rows of `stride` numbers, a multiple of kFactorLanes: 0 behind the columns
/// @param p  P^T out, beginning with the first of these rows; its rows are `p_stride` apart
void times_columns(const float* values, std::int64_t rows, std::int64_t columns, const double* q, std::int64_t stride,
                   int rank, float* p, std::int64_t p_stride);

/// Sums over blocks of rows of up to kFactorPanelColumns columns, in tiles of kFactorLanes: slot b % 256 is the sum of
/// its blocks b.
/// @param values  the first of these columns. @param p  P^T
/// @param slots   [min(256, blocks)][tiles][rank][kFactorLanes] out
void add_blocks(const float* values, std::int64_t rows, std::int64_t columns, std::int64_t num_columns, const float* p,
                int rank, double* slots);

/// Elements of a row of P Q^T. @param p  of this row, `p_stride` apart. @param q  of the first element, rows
/// `q_stride` apart
void low_rank_row(const float* p, std::int64_t p_stride, const float* q, std::int64_t q_stride, int rank, float* out,
                  std::int64_t count);

}  // namespace terngrad::cpu
