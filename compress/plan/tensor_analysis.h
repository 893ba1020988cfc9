// Statistics and ternary codes of a single tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/runtime/device.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// Read-only view of a tensor's elements in CPU memory.
struct TensorElements {
  const void* values = nullptr;  // [count], aligned to their size
  std::int64_t count = 0;
  ElementType type = ElementType::kFloat32;
};

/// Statistics of a run of elements g, in float64.
struct TensorSummary {
  std::int64_t count = 0;
  double mean = 0;                // 0 for an empty run; meaningless unless `finite`
  double standard_deviation = 0;  // population standard deviation; NaN unless `finite`
  double max_abs = 0;             // infinite or NaN if an element is
  double l1 = 0;                  // sum |g|; meaningless unless `finite`
  double l2 = 0;                  // Euclidean norm; likewise
  bool finite = true;             // no element is NaN or infinite
};

/// Summarizes each block of elements. Bit-equal for any number of threads (StatisticsPlan).
/// @param block  elements per block; 0: a single block. An empty tensor has one empty block
/// @throws InvalidArgument for a negative block
std::vector<TensorSummary> summarize(const TensorElements& tensor, std::int64_t block, Stream& stream);

/// Scaler and random key of ternary codes: P(code = sign g) = |g| / s.
struct TernarizeKeys {
  double clip_factor = 0;            // c of ScalerRule::kPaper; used if there is no scaler
  std::optional<float> scaler = {};  // s; none: local_scaler of the tensor is used
  std::uint64_t seed = 1;
  std::uint64_t step = 0;
  std::uint32_t worker = 0;
  std::int64_t draw_offset = 0;  // Segment::draw_offset
};

/// Draws the codes -1, 0 and 1 that codec ternary sends for a tensor, with the same bits (TernarizeTask).
/// @param codes  out: [tensor.count]
/// @returns s
/// @throws InvalidArgument for codes of another size, a clip_factor or scaler that is negative, NaN or too large, a
/// step or draw offset out of range, and a tensor that holds NaN or infinity
float ternarize_tensor(const TensorElements& tensor, const TernarizeKeys& keys, std::span<std::int8_t> codes,
                       Stream& stream);

}  // namespace terngrad
