#include "trainers/loop/training_control.h"

#include "compress/plan/codec_plan.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

std::span<float> TrainingControl::tensor_of(std::span<float> flat, const std::string& tensor) const {
  for (const Segment& segment : layout_.segments()) {
    if (segment.name != tensor) continue;
    return flat.subspan(static_cast<std::size_t>(segment.offset), static_cast<std::size_t>(segment.num_elements));
  }
  TERNGRAD_THROW(InvalidArgument, "[hook] there is no tensor '", tensor, "'");
}

void TrainingControl::set_frozen(const std::string& pattern, bool is_frozen) const {
  bool matches = false;
  for (int segment = 0; segment < layout_.num_segments(); ++segment) {
    if (!matches_pattern(pattern, layout_.segment(segment).name)) continue;
    frozen_[static_cast<std::size_t>(segment)] = is_frozen;
    matches = true;
  }
  if (matches) return;
  std::string names;
  for (const Segment& segment : layout_.segments()) names += (names.empty() ? "" : ", ") + segment.name;
  TERNGRAD_THROW(InvalidArgument, "[freeze] no tensor matches '", pattern, "'; there are: ", names);
}

}  // namespace terngrad
