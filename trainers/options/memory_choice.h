// What workers keep from step to step, as the options of terngrad_train ask for it.
#pragma once

#include <string>

namespace terngrad {

struct TrainOptions;

/// What workers keep from step to step, with all values (canonical_memory): as --codec_memory or --error_feedback say,
/// else as the preset of --codec does, else what its codec is made for; "none" beside --codec fp16.
/// @throws UsageError that names the options, for a spec that parse_memory refuses, options that contradict each other,
/// and a --codec_for that names a preset with a memory, which is for all tensors
std::string memory_spec(const TrainOptions& o);

}  // namespace terngrad
