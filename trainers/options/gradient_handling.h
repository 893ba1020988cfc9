// What workers' gradients go through before they are encoded, as the options of terngrad_train ask for it: transforms,
// and what workers keep from step to step.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace terngrad {

class Device;
class GradientTransform;
class Net;
struct TrainOptions;

/// In the order in which they are applied: NaN to zero, weight decay, clipping by the global norm.
/// @param num_workers  whose gradients are changed together
/// @param device       in whose memory they are
std::vector<std::unique_ptr<GradientTransform>> make_transforms(const TrainOptions& o, const Net& net, int num_workers,
                                                                const Device& device);

/// What workers keep from step to step, with all values (canonical_memory): as --codec_memory or --error_feedback say,
/// else as the preset of --codec does, else what its codec is made for; "none" beside --codec fp16.
/// @throws UsageError that names the options, for a spec that parse_memory refuses, options that contradict each other,
/// and a --codec_for that names a preset with a memory, which is for all tensors
std::string memory_spec(const TrainOptions& o);

}  // namespace terngrad
