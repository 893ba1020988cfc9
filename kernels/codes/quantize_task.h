// QuantizeTask: the common input of all quantizing kernels.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/tensor/element_type.h"

namespace terngrad {

/// One slice to quantize: its elements, scalers and output. Pointers are device memory on a GPU's stream.
struct QuantizeTask {
  const void* gradient = nullptr;  // [count] elements from `first` on, aligned to their size
  std::int64_t first = 0;          // offset in the segment: a multiple of kChunkElements
  std::int64_t count = 0;
  std::int64_t draw_offset = 0;     // the segment's first draw index; a multiple of kDrawAlignment
  std::int64_t block_elements = 0;  // elements per scaler, counted from the segment's start; 0 = one scaler for all
  const float* scalers = nullptr;   // [blocks that the slice touches]
  std::uint8_t* payload = nullptr;  // [payload_bytes(...)] out, 4-byte aligned, lanes 8
  std::uint32_t worker = 0;         // added to the key's worker number
  ElementType type = ElementType::kFloat32;  // the gradient's type, the same in all tasks of a call
};

/// Checks tasks and returns their common element type.
/// @param who  name of the caller, for error messages
/// @throws InvalidArgument for a misaligned `first`, `draw_offset`, `block_elements`, gradient or payload, or tasks
/// with different element types
ElementType check_quantize_tasks(std::span<const QuantizeTask> tasks, std::uintptr_t payload_alignment,
                                 const char* who);

}  // namespace terngrad
