// The gradient transforms that the options of a run ask for.
#pragma once

#include <memory>
#include <vector>

#include "kernels/runtime/device.h"
#include "trainers/optim/gradient_transform.h"

namespace terngrad {

struct TrainOptions;

/// In the order in which they are applied: NaN to zero, weight decay, clipping by the global norm.
/// @param num_workers  whose gradients are changed together
/// @param device       in whose memory they are
std::vector<std::unique_ptr<GradientTransform>> make_transforms(const TrainOptions& o, const Net& net, int num_workers,
                                                                const Device& device);

}  // namespace terngrad
