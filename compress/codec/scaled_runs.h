// Runs of elements that have one scaler each: whole tensors, or blocks of them.
#pragma once

#include <cstdint>
#include <vector>

#include "compress/codec/codec.h"
#include "kernels/tensor/layout.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Maximum block size: larger than any tensor, and small enough that position plus block size fits 64 bits.
inline constexpr std::int64_t kMaxBlockElements = std::int64_t{1} << 50;

/// Runs of elements with separate statistics and scalers: whole tensors, or blocks of `block_elements` if nonzero.
std::vector<Slice> statistics_slices(const Layout& layout, const std::vector<int>& segments,
                                     std::int64_t block_elements);

/// @param codec  name for the error message. @throws InvalidArgument unless block_elements is 0 or a multiple of 64
void require_block_elements(std::int64_t block_elements, const char* codec);

/// Codec::num_scalers and Codec::scaler_range for a codec with one scaler per run.
std::int64_t num_block_scalers(std::int64_t num_elements, std::int64_t block_elements);
Codec::ScalerRange block_scaler_range(const Slice& slice, std::int64_t block_elements);

}  // namespace terngrad
