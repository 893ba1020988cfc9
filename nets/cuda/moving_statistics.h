// Moving statistics of batch norm on a GPU, for all workers at once.
#pragma once

#include "kernels/runtime/device.h"
#include "nets/worker_buffers.h"

namespace terngrad::cuda {

/// The state of one batch norm (see BatchNormSpec) of each worker.
struct MovingStatistics {
  WorkerBuffers<float> mean;      // [channels]
  WorkerBuffers<float> variance;  // [channels]
  WorkerBuffers<float> weight;    // [1]
};

/// cpu::update_moving_statistics for every worker, with its bits: in double, each result rounded to float once; a
/// worker whose batch has a number that is not finite keeps its state. Work is submitted to the stream; nothing is
/// allocated or waited for.
/// @param decay  in [0, 1)
/// @param batch_mean, batch_variance  [num_workers, channels], device memory
void update_moving_statistics(float decay, const float* batch_mean, const float* batch_variance, int channels,
                              int num_workers, const MovingStatistics& statistics, const Stream& stream);

}  // namespace terngrad::cuda
