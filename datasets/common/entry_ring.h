// Device memory of resident sets: all examples, and the entries that list each step's examples.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "datasets/batch_order.h"
#include "datasets/cuda/slot_ring.h"
#include "datasets/dataset.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/parallel.h"

namespace terngrad::common {

/// Ring of entries in device memory, one slot per step: the index, epoch and label of each of its examples.
class EntryRing {
 public:
  EntryRing(std::shared_ptr<const Dataset> dataset, const PipelineOptions& options, int max_steps, const Device& device)
      : dataset_(std::move(dataset)),
        order_(dataset_.get(), options),
        staging_(static_cast<std::size_t>(max_steps * order_.local_batch())),
        entries_(max_steps * order_.local_batch(), device) {}

  /// Uploads the entries of steps [first_step, first_step + count) to slots from `first_slot` on.
  void upload(std::uint64_t first_step, int count, std::int64_t first_slot, Stream& stream) {
    const auto batch = static_cast<std::size_t>(order_.local_batch());
    const std::span<cuda::BatchEntry> staging = std::span(staging_).first(static_cast<std::size_t>(count) * batch);
    for (std::size_t i = 0; i < staging.size(); ++i) {
      const OrderedExample example = order_.at(first_step + i / batch, static_cast<std::int64_t>(i % batch));
      staging[i] = {.epoch = example.epoch, .index = example.index, .label = dataset_->label(example.index)};
    }
    copy<cuda::BatchEntry>(
        staging, entries_.span().subspan(static_cast<std::size_t>(first_slot) * batch, staging.size()), stream);
  }

  const cuda::BatchEntry* on_device() const { return entries_.data(); }

 private:
  std::shared_ptr<const Dataset> dataset_;
  BatchOrder order_;
  std::vector<cuda::BatchEntry> staging_;
  Buffer<cuda::BatchEntry> entries_;  // [max_steps, local_batch]
};

inline constexpr std::int64_t kStagingBytes = std::int64_t{64} << 20;  // host memory used while a set is uploaded

/// Uploads [num_examples, example_values]; write(index, values) writes one example to host memory.
template <class T, class Write>
Buffer<T> upload_examples(std::int64_t num_examples, std::int64_t example_values, int num_threads, Stream& stream,
                          const Write& write) {
  Buffer<T> examples(num_examples * example_values, stream.device());
  const std::int64_t example_bytes = example_values * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t at_once = std::clamp(kStagingBytes / example_bytes, std::int64_t{1}, num_examples);
  const auto values = static_cast<std::size_t>(example_values);
  std::vector<T> staging(static_cast<std::size_t>(at_once) * values);
  for (std::int64_t first = 0; first < num_examples; first += at_once) {
    const std::int64_t count = std::min(at_once, num_examples - first);
    parallel_for(num_threads, count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        write(first + i, std::span(staging).subspan(static_cast<std::size_t>(i) * values, values));
      }
    });
    const std::size_t copied = static_cast<std::size_t>(count) * values;
    copy<T>(std::span(staging).first(copied), examples.span().subspan(static_cast<std::size_t>(first) * values, copied),
            stream);
  }
  return examples;
}

}  // namespace terngrad::common
