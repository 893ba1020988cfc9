// WrappedDataset: base class of data sets that change some part of another one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "datasets/dataset.h"

namespace terngrad {

/// Passes every call on to the wrapped set.
class WrappedDataset : public Dataset {
 public:
  explicit WrappedDataset(std::shared_ptr<const Dataset> wrapped) : wrapped_(std::move(wrapped)) {}
  const std::string& name() const override { return wrapped_->name(); }
  std::int64_t num_examples() const override { return wrapped_->num_examples(); }
  int height() const override { return wrapped_->height(); }
  int width() const override { return wrapped_->width(); }
  int channels() const override { return wrapped_->channels(); }
  int num_classes() const override { return wrapped_->num_classes(); }
  std::vector<std::string> class_names() const override { return wrapped_->class_names(); }
  std::int32_t label(std::int64_t index) const override { return wrapped_->label(index); }
  void read(std::int64_t index, const ExampleVisit& visit, std::span<float> image) const override {
    wrapped_->read(index, visit, image);
  }
  void will_read(std::int64_t index) const override { wrapped_->will_read(index); }
  std::vector<std::int64_t> shard_sizes() const override { return wrapped_->shard_sizes(); }
  bool is_augmented() const override { return wrapped_->is_augmented(); }
  std::optional<CropSource> crop_source() const override { return wrapped_->crop_source(); }

 private:
  std::shared_ptr<const Dataset> wrapped_;
};

}  // namespace terngrad
