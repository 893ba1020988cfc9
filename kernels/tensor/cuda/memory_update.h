// Error feedback, momentum and DGC on a GPU: kernels/tensor/memory_update.h documents them.
#pragma once

#include "kernels/tensor/memory_update.h"

namespace terngrad::cuda {

void compensate(const CompensateTask& task, float decay, float weight, const Stream& stream);
void accumulate(const AccumulateTask& task, float momentum, bool nesterov, const Stream& stream);
void update_memory(const MemoryUpdateTask& task, const Stream& stream);

}  // namespace terngrad::cuda
