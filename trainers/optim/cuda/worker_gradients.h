// Kernels of gradient transforms, for the gradients of all workers of a GPU in one launch.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"
#include "nets/worker_buffers.h"
#include "trainers/optim/transform_counts.h"

namespace terngrad {
struct Statistics;
}

namespace terngrad::cuda {

// Documented in trainers/optim/worker_gradients.h.
void zero_nonfinite(WorkerBuffers<float> gradients, int num_workers, std::int64_t count, TransformCounts* counts,
                    const Stream& stream);
void add_weight_decay(WorkerBuffers<float> gradients, int num_workers, const float* parameters, float decay,
                      const std::uint8_t* is_decayed, std::int64_t count, const Stream& stream);
void clip_factors(const Statistics* statistics, int num_workers, int num_tensors, double max_norm,
                  bool zeroes_nonfinite, float* factors, TransformCounts* counts, const Stream& stream);
void scale_workers(WorkerBuffers<float> gradients, int num_workers, const float* factors, std::int64_t count,
                   const Stream& stream);

}  // namespace terngrad::cuda
