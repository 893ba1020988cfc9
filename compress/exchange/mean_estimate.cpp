#include "compress/exchange/mean_estimate.h"

#include <cstddef>

#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/bucket_plan.h"
#include "compress/exchange/nonfinite.h"
#include "compress/exchange/overflow.h"
#include "compress/memory/shared_state.h"
#include "compress/transport/exchange_peers.h"
#include "kernels/runtime/copy.h"
#include "kernels/tensor/memory_update.h"

namespace terngrad {

MeanEstimate::MeanEstimate(const Layout& layout, const PartContext& context, const std::vector<int>& numbers)
    : next_(layout.flat_elements(), context.stream.device()),
      flags_(context.flags),
      mean_check_(
          {.layout = layout, .workers = context.peers.group, .device = context.stream.device(), .numbers = numbers},
          whole_bucket(layout)[0], max_mean(context.options.mean_factor)) {
  for (int index = 0; index < layout.num_segments(); ++index) {
    const Segment& tensor = layout.segment(index);
    float* const estimate = context.shared.find(tensor.name);
    if (estimate == nullptr || tensor.num_elements == 0) continue;
    tensors_.push_back(
        {index, estimate,
         next_.span().subspan(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.num_elements))});
  }
}

void MeanEstimate::apply(const TensorTable& mean, Stream& stream) {
  for (const Tensor& tensor : tensors_) {
    float* const values = mean.tensor(tensor.segment);
    compensate({.state = tensor.estimate,
                .gradient = values,
                .compensated = tensor.next.data(),
                .count = static_cast<std::int64_t>(tensor.next.size())},
               1, 1, stream);
    copy<float>(tensor.next, {values, tensor.next.size()}, stream);
  }
  mean_check_.submit(
      mean, {.report = flags_.means(), .skip = flags_.skip_flag(), .stop_latched = flags_.stop_latched()}, stream);
}

void MeanEstimate::commit(Stream& stream) {
  for (const Tensor& tensor : tensors_) {
    update_memory({.encoded = tensor.next.data(),
                   .kept = tensor.estimate,
                   .count = static_cast<std::int64_t>(tensor.next.size()),
                   .skip = flags_.skip()},
                  stream);
  }
}

}  // namespace terngrad
