#include "datasets/batch_order.h"

#include <cstddef>

#include "datasets/shuffle.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

BatchOrder::BatchOrder(const Dataset* dataset, const PipelineOptions& options) {
  check_pipeline_options(dataset, options);
  num_examples_ = static_cast<std::uint64_t>(dataset->num_examples());
  batch_size_ = static_cast<std::uint64_t>(options.batch_size);
  const std::int64_t per_worker = options.batch_size / options.num_workers;
  local_batch_ = per_worker * options.num_local_workers;
  local_begin_ = static_cast<std::uint64_t>(per_worker * options.first_local_worker);
  seed_ = options.seed;
  shuffle_ = options.shuffle;
  if (shuffle_.kind == ShuffleOptions::Kind::kWindow) shard_sizes_ = dataset->shard_sizes();
}

std::uint64_t BatchOrder::epoch(std::uint64_t step) const { return step * batch_size_ / num_examples_; }

OrderedExample BatchOrder::at(std::uint64_t step, std::int64_t place) {
  const std::uint64_t joint_place = local_begin_ + static_cast<std::uint64_t>(place);
  const std::uint64_t position = step * batch_size_ + joint_place;
  const std::uint64_t epoch = position / num_examples_;
  if (shuffle_.example_at) {
    const std::int64_t index = shuffle_.example_at(step, static_cast<std::int64_t>(joint_place));
    TERNGRAD_REQUIRE(index >= 0 && static_cast<std::uint64_t>(index) < num_examples_,
                     "[ShuffleOptions] example_at(step ", step, ", place ", joint_place, ") must be in [0, ",
                     num_examples_, "), is ", index);
    return {.index = static_cast<std::uint32_t>(index), .epoch = epoch};
  }
  if (permutation_.empty() || epoch != permuted_epoch_) {
    if (shuffle_.kind == ShuffleOptions::Kind::kWindow) {
      window_permutation(seed_, epoch, shard_sizes_, shuffle_.num_readers, shuffle_.window, permutation_);
    } else {
      epoch_permutation(seed_, epoch, static_cast<std::int64_t>(num_examples_), permutation_);
    }
    permuted_epoch_ = epoch;
  }
  return {.index = permutation_[static_cast<std::size_t>(position % num_examples_)], .epoch = epoch};
}

}  // namespace terngrad
