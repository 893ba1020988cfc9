#include "compress/codec/block_coder.h"

#include "compress/codec/scaled_runs.h"

namespace terngrad {

BlockCoder::BlockCoder(const Codec& codec, const CoderSetup& setup, const std::vector<int>& segments,
                       PayloadSlots& slots, std::int64_t block_elements, ScalerRule rule, double factor)
    : SliceCoder(codec, setup, segments, slots, block_elements),
      rule_(rule),
      factor_(factor),
      plan_(statistics_slices(setup.layout, segments, block_elements), setup.device) {}

void BlockCoder::measure(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) {
  local_scalers(plan_, rotate(gradients, step, stream), factor_, rule_, local_rows(), stream);
  if (block_elements() > 0) flag_whole_tensors(stream);
}

}  // namespace terngrad
