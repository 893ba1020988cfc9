#include "datasets/sets/first_examples.h"

#include <utility>

#include "datasets/sets/wrapped_dataset.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

class FirstExamples final : public WrappedDataset {
 public:
  FirstExamples(std::shared_ptr<const Dataset> whole, std::int64_t count)
      : WrappedDataset(std::move(whole)), count_(count) {}
  std::int64_t num_examples() const override { return count_; }
  std::vector<std::int64_t> shard_sizes() const override { return {}; }

 private:
  std::int64_t count_;
};

}  // namespace

std::unique_ptr<Dataset> first_examples(std::unique_ptr<Dataset> dataset, std::int64_t count) {
  TERNGRAD_REQUIRE(count >= 1 && count <= dataset->num_examples(), "[first_examples] ", dataset->name(), " has ",
                   dataset->num_examples(), " examples, asked for ", count);
  return std::make_unique<FirstExamples>(std::move(dataset), count);
}

}  // namespace terngrad
