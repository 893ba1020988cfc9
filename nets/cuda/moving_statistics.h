// Moving statistics of batch norm on a GPU, for all workers at once.
#pragma once

#include "kernels/runtime/device.h"
#include "nets/worker_buffers.h"

namespace terngrad::cuda {

/// Each worker's state of one batch norm (see BatchNormSpec).
struct MovingStatistics {
  WorkerBuffers<float> mean;      // [channels]
  WorkerBuffers<float> variance;  // [channels]
  WorkerBuffers<float> weight;    // [1]
};

/// cpu::update_moving_statistics for every worker, bit-identical: in double, each result rounded to float once; a
/// worker with nonfinite batch statistics keeps its state. Submits work to the stream and neither allocates nor waits.
/// @param decay  in [0, 1)
/// @param batch_mean, batch_variance  [num_workers, channels], device memory
void update_moving_statistics(float decay, const float* batch_mean, const float* batch_variance, int channels,
                              int num_workers, const MovingStatistics& statistics, const Stream& stream);

}  // namespace terngrad::cuda
