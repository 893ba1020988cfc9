// One tensor by itself: its statistics, and its ternary codes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/runtime/device.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// The elements of a tensor on the CPU, to be read.
struct TensorElements {
  const void* values = nullptr;  // [count], aligned to their size
  std::int64_t count = 0;
  ElementType type = ElementType::kFloat32;
};

/// Of a run of elements g, in float64.
struct TensorSummary {
  std::int64_t count = 0;
  double mean = 0;                // 0 of none; means nothing unless `finite`
  double standard_deviation = 0;  // of the population; NaN unless `finite`
  double max_abs = 0;             // infinite or NaN if an element is
  double l1 = 0;                  // sum |g|; means nothing unless `finite`
  double l2 = 0;                  // Euclidean norm; likewise
  bool finite = true;             // no element is NaN or infinite
};

/// Of each block of elements. Bit-equal for any number of threads (StatisticsPlan).
/// @param block  elements of a block; 0: all are one. A tensor without elements has one block without any
/// @throws InvalidArgument for a negative block
std::vector<TensorSummary> summarize(const TensorElements& tensor, std::int64_t block, Stream& stream);

/// What ternary codes are drawn with: P(code = sign g) = |g| / s.
struct TernarizeKeys {
  double clip_factor = 0;            // c of ScalerRule::kPaper; looked at where there is no scaler
  std::optional<float> scaler = {};  // s; none: local_scaler of the tensor
  std::uint64_t seed = 1;
  std::uint64_t step = 0;
  std::uint32_t worker = 0;
  std::int64_t draw_offset = 0;  // Segment::draw_offset
};

/// The codes -1, 0 and 1 that the codec ternary sends of a tensor (TernarizeTask). Bit-equal as there.
/// @param codes  out: [tensor.count]
/// @returns s
/// @throws InvalidArgument for codes of another size, a clip_factor or scaler that is no number of at least 0, a step
/// or draw offset out of range, and a tensor that holds NaN or infinity
float ternarize_tensor(const TensorElements& tensor, const TernarizeKeys& keys, std::span<std::int8_t> codes,
                       Stream& stream);

}  // namespace terngrad
