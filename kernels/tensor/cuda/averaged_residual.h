// Averaged residuals on a GPU, documented in kernels/tensor/averaged_residual.h.
#pragma once

#include "kernels/tensor/averaged_residual.h"

namespace terngrad::cuda {

void compensate(const AveragedCompensateTask& task, const ResidualAverage& average, const Stream& stream);
void update_residual(const AveragedResidualTask& task, const ResidualAverage& average, const Stream& stream);

}  // namespace terngrad::cuda
