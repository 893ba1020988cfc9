// A data set that is streamed to GPUs, and the batches that a Pipeline makes of a set.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/pipeline.h"
#include "kernels/runtime/errors.h"
#include "tests/support/bits.h"

namespace terngrad::testing {

/// Images that depend on index, element, epoch and seed; available only through read().
class VisitedImages final : public Dataset {
 public:
  VisitedImages(std::int64_t num_examples, int width) : num_examples_(num_examples), width_(width) {}
  const std::string& name() const override { return name_; }
  std::int64_t num_examples() const override { return num_examples_; }
  int height() const override { return 1; }
  int width() const override { return width_; }
  int channels() const override { return 1; }
  int num_classes() const override { return 3; }
  std::int32_t label(std::int64_t index) const override { return static_cast<std::int32_t>(index % 3); }
  void read(std::int64_t index, const ExampleVisit& visit, std::span<float> image) const override {
    ++num_reads;
    if (index == bad_index) throw DataError("example is damaged");
    for (std::size_t i = 0; i < image.size(); ++i) {
      image[i] = static_cast<float>(index * 1000) + static_cast<float>(i) + 0.25f * static_cast<float>(visit.epoch) +
                 0.001f * static_cast<float>(visit.seed);
    }
  }

  std::atomic<std::int64_t> bad_index = -1;
  mutable std::atomic<std::int64_t> num_reads = 0;

 private:
  std::string name_ = "visited";
  std::int64_t num_examples_;
  int width_;
};

struct Batch {
  std::vector<std::uint32_t> images;  // bits
  std::vector<std::int32_t> labels;
  bool operator==(const Batch&) const = default;
};

/// Batches of steps options.first_step to options.first_step + num_steps - 1.
inline std::vector<Batch> expected_batches(const std::shared_ptr<const Dataset>& set, const PipelineOptions& options,
                                           int num_steps) {
  Pipeline pipeline(set, options);
  std::vector<Batch> batches;
  for (int i = 0; i < num_steps; ++i) {
    const PipelineBatch batch = pipeline.next();
    batches.push_back({bits_of(batch.images), {batch.labels.begin(), batch.labels.end()}});
  }
  return batches;
}

}  // namespace terngrad::testing
