#include "trainers/rmsprop.h"

#include <algorithm>

#include "kernels/optimizer.h"

namespace terngrad {
namespace {

class Rmsprop final : public Optimizer {
 public:
  Rmsprop(double momentum, std::int64_t flat_elements)
      : constants_{.momentum = static_cast<float>(momentum)},
        mean_square_(flat_elements),
        update_(zeros<float>(flat_elements)) {
    std::ranges::fill(mean_square_.span(), 1.0f);
  }
  const std::string& name() const override {
    static const std::string name = "rmsprop";
    return name;
  }
  void apply(std::span<float> parameters, std::span<const float> gradient, float learning_rate,
             Stream& stream) override {
    update_rmsprop(parameters, mean_square_.span(), update_.span(), gradient, learning_rate, constants_, stream);
  }
  std::vector<Slot> slots() override { return {{"ms", mean_square_.span()}, {"mom", update_.span()}}; }

 private:
  RmspropConstants constants_;
  Buffer<float> mean_square_;
  Buffer<float> update_;
};

}  // namespace

std::unique_ptr<Optimizer> make_rmsprop(double momentum, std::int64_t flat_elements) {
  return std::make_unique<Rmsprop>(momentum, flat_elements);
}

}  // namespace terngrad
