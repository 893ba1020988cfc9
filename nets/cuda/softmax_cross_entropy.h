// Softmax cross-entropy on a GPU, for all workers at once.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"
#include "nets/net.h"
#include "nets/softmax_cross_entropy.h"

namespace terngrad::cuda {

/// What softmax_cross_entropy (nets/softmax_cross_entropy.h) gives for each worker's slice, by the same formulas in
/// double; sums go in a fixed order, and std::exp and std::log are those of the GPU, so that results differ from the
/// CPU's in last places. A worker's results do not depend on the others. Pointers are device memory; work is submitted
/// to the stream, nothing is allocated or waited for.
/// @param logits          [num_workers, examples_per_worker, num_classes]. NaN or infinity gives a loss and a gradient
///                        that are not finite
/// @param labels          [num_workers, examples_per_worker]. One that is not in [0, num_classes) makes its worker's
///                        loss and its example's gradient NaN
/// @param num_classes     at least 1
/// @param gradient        [num_workers, examples_per_worker, num_classes] out: of the worker's weighted mean loss by
/// the
///                        logits; null if it is not wanted. May be `logits`
/// @param example_losses  [num_workers, examples_per_worker] out: each example's own loss
/// @param losses          [num_workers] out: their means, and sums of num_correct; of an auxiliary term in and out: its
///                        weighted mean is added to auxiliary_loss
void softmax_cross_entropy(const float* logits, const std::int32_t* labels, int examples_per_worker, int num_workers,
                           int num_classes, float* gradient, WorkerLoss* example_losses, WorkerLoss* losses,
                           const Stream& stream, const LossTerm& term = {});

}  // namespace terngrad::cuda
