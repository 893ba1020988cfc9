#include "compress/memory/factor_state.h"

#include "compress/plan/codec_plan.h"
#include "compress/plan/low_rank_rounds.h"
#include "kernels/runtime/copy.h"

namespace terngrad {

FactorState::FactorState(const Layout& layout, const CodecPlan& plan, const Device& device) : device_(device) {
  for (int index = 0; index < layout.num_segments(); ++index) {
    const auto form = plan.codec_of(index).low_rank();
    if (!form || !form->warm_start) continue;
    const Segment& tensor = layout.segment(index);
    const FactorSizes sizes = factor_sizes(tensor, form->rank);
    factors_.add(tensor.name, {sizes.rank, sizes.columns});
  }
  values_ = Buffer<float>(factors_.flat_elements(), device);
  Stream stream(device);
  fill_zero(values_.span(), stream);
  stream.synchronize();
}

float* FactorState::find(const std::string& tensor) {
  const int index = factors_.find(tensor);
  return index < 0 ? nullptr : values_.data() + factors_.segment(index).offset;
}

}  // namespace terngrad
