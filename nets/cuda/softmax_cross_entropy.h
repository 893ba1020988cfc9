// Softmax cross-entropy on a GPU, for all workers at once.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"
#include "nets/net.h"
#include "nets/softmax_cross_entropy.h"

namespace terngrad::cuda {

/// softmax_cross_entropy (nets/softmax_cross_entropy.h) of each worker's slice, by the same formulas in double. The
/// order of sums is fixed, but the GPU's std::exp and std::log make results differ from the CPU's in the last bits. A
/// worker's results do not depend on the others. Pointers are device memory. Submits work to the stream and neither
/// allocates nor waits.
/// @param logits          [num_workers, examples_per_worker, num_classes]. NaN or infinity makes the loss and the
///                        gradient nonfinite
/// @param labels          [num_workers, examples_per_worker]. A label outside [0, num_classes) makes its worker's loss
///                        and its example's gradient NaN
/// @param num_classes     at least 1
/// @param gradient        [num_workers, examples_per_worker, num_classes] out: gradient of the worker's weighted mean
///                        loss by the logits; null if not wanted. May be `logits`
/// @param example_losses  [num_workers, examples_per_worker] out: each example's own loss
/// @param losses          [num_workers] out: mean losses and sums of num_correct; for an auxiliary term in and out: the
///                        weighted mean is added to auxiliary_loss
void softmax_cross_entropy(const float* logits, const std::int32_t* labels, int examples_per_worker, int num_workers,
                           int num_classes, float* gradient, WorkerLoss* example_losses, WorkerLoss* losses,
                           const Stream& stream, const LossTerm& term = {});

}  // namespace terngrad::cuda
