#include "kernels/codes/quantize_task.h"

#include "kernels/codes/ternarize.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/common/gradient_tasks.h"
#include "kernels/tensor/layout.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

ElementType check_quantize_tasks(std::span<const QuantizeTask> tasks, std::uintptr_t payload_alignment,
                                 const char* who) {
  const ElementType type = common::element_type_of(tasks, who);
  for (const QuantizeTask& task : tasks) {
    TERNGRAD_REQUIRE(task.count >= 0, "[", who, "] count must not be negative, got ", task.count);
    TERNGRAD_REQUIRE(task.first % kChunkElements == 0, "[", who, "] first must be a multiple of ", kChunkElements,
                     ", got ", task.first);
    TERNGRAD_REQUIRE(task.draw_offset % kDrawAlignment == 0, "[", who, "] draw_offset must be a multiple of ",
                     kDrawAlignment, ", got ", task.draw_offset);
    TERNGRAD_REQUIRE(task.block_elements % kMinBlockElements == 0, "[", who, "] block_elements must be a multiple of ",
                     kMinBlockElements, ", got ", task.block_elements);
    TERNGRAD_REQUIRE(reinterpret_cast<std::uintptr_t>(task.payload) % payload_alignment == 0, "[", who,
                     "] payload must be ", payload_alignment, "-byte aligned");
  }
  return type;
}

}  // namespace terngrad
