// Gradient transforms and workers' memory, as the options of terngrad_train select them.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace terngrad {

class Device;
class GradientTransform;
class Net;
struct TrainOptions;

/// The transforms in the order of application: NaN to zero, weight decay, clipping by the global norm.
/// @param num_workers  number of workers whose gradients are transformed together
/// @param device       device of the gradients
std::vector<std::unique_ptr<GradientTransform>> make_transforms(const TrainOptions& o, const Net& net, int num_workers,
                                                                const Device& device);

/// The complete spec of the workers' memory (canonical_memory): from --codec_memory or --error_feedback, else from the
/// preset of --codec, else error feedback if the codec wants it (CodecTraits), else "none"; "none" with --codec fp16.
/// @throws UsageError naming the options, for a spec that parse_memory refuses, contradicting options, or a --codec_for
/// with a preset that has a memory, as a memory applies to all tensors
std::string memory_spec(const TrainOptions& o);

}  // namespace terngrad
