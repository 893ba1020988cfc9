// Contents of sparse messages, found in another way: by the k-th of all magnitudes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sparse/sparse_payload.h"

namespace terngrad::bench {

/// The elements that a message of `values` keeps, of each block by itself if there are blocks; 0 in place of the
/// others.
std::vector<float> kept_elements(const SparseShape& shape, std::span<const float> values);

/// True if a payload, which may have room behind its end, is that of these elements. As many as the shape keeps are not
/// 0.
bool holds(const SparseShape& shape, std::span<const std::uint8_t> payload, std::span<const float> expected);

/// Shape of a slice of n elements. @param block  elements chosen among by themselves; 0: all
SparseShape sparse_shape(std::int64_t n, double density, std::int64_t block);

}  // namespace terngrad::bench
