#include "datasets/sets/first_examples.h"

#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

class FirstExamples final : public Dataset {
 public:
  FirstExamples(std::unique_ptr<Dataset> whole, std::int64_t count) : whole_(std::move(whole)), count_(count) {}
  const std::string& name() const override { return whole_->name(); }
  std::int64_t num_examples() const override { return count_; }
  int height() const override { return whole_->height(); }
  int width() const override { return whole_->width(); }
  int channels() const override { return whole_->channels(); }
  int num_classes() const override { return whole_->num_classes(); }
  std::vector<std::string> class_names() const override { return whole_->class_names(); }
  std::int32_t label(std::int64_t index) const override { return whole_->label(index); }
  void read(std::int64_t index, const ExampleVisit& visit, std::span<float> image) const override {
    whole_->read(index, visit, image);
  }
  bool is_augmented() const override { return whole_->is_augmented(); }
  std::optional<CropSource> crop_source() const override { return whole_->crop_source(); }

 private:
  std::unique_ptr<Dataset> whole_;
  std::int64_t count_;
};

}  // namespace

std::unique_ptr<Dataset> first_examples(std::unique_ptr<Dataset> dataset, std::int64_t count) {
  TERNGRAD_REQUIRE(count >= 1 && count <= dataset->num_examples(), "[first_examples] ", dataset->name(), " has ",
                   dataset->num_examples(), " examples, asked for ", count);
  return std::make_unique<FirstExamples>(std::move(dataset), count);
}

}  // namespace terngrad
