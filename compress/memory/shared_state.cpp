#include "compress/memory/shared_state.h"

#include "compress/plan/codec_plan.h"
#include "compress/plan/low_rank_rounds.h"
#include "kernels/runtime/copy.h"

namespace terngrad {

SharedState::SharedState(const Layout& layout, const CodecPlan& plan, MemoryKind memory, const Device& device)
    : device_(device) {
  for (int index = 0; index < layout.num_segments(); ++index) {
    const Codec& codec = plan.codec_of(index);
    const Segment& tensor = layout.segment(index);
    if (const auto form = codec.low_rank(); form && form->warm_start) {
      const FactorSizes sizes = factor_sizes(tensor, form->rank);
      layout_.add(tensor.name, {sizes.rank, sizes.columns});
    } else if (memory == MemoryKind::kEf21 && !codec.traits().is_exact) {
      layout_.add(tensor.name, tensor.shape);
    }
  }
  values_ = Buffer<float>(layout_.flat_elements(), device);
  Stream stream(device);
  fill_zero(values_.span(), stream);
  stream.synchronize();
}

float* SharedState::find(const std::string& tensor) {
  const int index = layout_.find(tensor);
  return index < 0 ? nullptr : values_.data() + layout_.segment(index).offset;
}

}  // namespace terngrad
