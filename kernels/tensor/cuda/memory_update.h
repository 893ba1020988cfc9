// Error feedback, momentum, DGC and EF21 on a GPU, documented in kernels/tensor/memory_update.h.
#pragma once

#include "kernels/tensor/memory_update.h"

namespace terngrad::cuda {

void compensate(const CompensateTask& task, float decay, float weight, const Stream& stream);
void accumulate(const AccumulateTask& task, float momentum, bool nesterov, const Stream& stream);
void update_memory(const MemoryUpdateTask& task, const Stream& stream);

}  // namespace terngrad::cuda
