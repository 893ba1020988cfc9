// The runs of elements that have a scaler each: whole tensors, or blocks of them.
#pragma once

#include <cstdint>
#include <vector>

#include "compress/codec/codec.h"
#include "kernels/tensor/layout.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Longest block: far beyond any tensor, and short enough that sums of positions and blocks fit 64 bits.
inline constexpr std::int64_t kMaxBlockElements = std::int64_t{1} << 50;

/// The runs of elements of tensors that have statistics, and so scalers, of their own: whole tensors, or blocks of
/// `block_elements` where it is not 0.
std::vector<Slice> statistics_slices(const Layout& layout, const std::vector<int>& segments,
                                     std::int64_t block_elements);

/// @param codec  named by the message. @throws InvalidArgument unless block_elements is 0 or a multiple of 64
void require_block_elements(std::int64_t block_elements, const char* codec);

/// Codec::num_scalers and Codec::scaler_range of a codec with a scaler for each of these runs.
std::int64_t num_block_scalers(std::int64_t num_elements, std::int64_t block_elements);
Codec::ScalerRange block_scaler_range(const Slice& slice, std::int64_t block_elements);

}  // namespace terngrad
