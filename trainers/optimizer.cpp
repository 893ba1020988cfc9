#include "trainers/optimizer.h"

#include "kernels/errors.h"
#include "kernels/optimizer.h"
#include "trainers/adam.h"
#include "trainers/rmsprop.h"

namespace terngrad {
namespace {

class GradientDescent final : public Optimizer {
 public:
  const std::string& name() const override {
    static const std::string name = "gd";
    return name;
  }
  void apply(std::span<float> parameters, std::span<const float> gradient, float learning_rate,
             Stream& stream) override {
    update_gd(parameters, gradient, learning_rate, stream);
  }
};

class Momentum final : public Optimizer {
 public:
  Momentum(double momentum, std::int64_t flat_elements)
      : momentum_(static_cast<float>(momentum)), accumulator_(zeros<float>(flat_elements)) {}
  const std::string& name() const override {
    static const std::string name = "momentum";
    return name;
  }
  void apply(std::span<float> parameters, std::span<const float> gradient, float learning_rate,
             Stream& stream) override {
    update_momentum(parameters, accumulator_.span(), gradient, learning_rate, momentum_, stream);
  }
  std::vector<Slot> slots() override { return {{"momentum", accumulator_.span()}}; }

 private:
  float momentum_;
  Buffer<float> accumulator_;
};

}  // namespace

std::vector<std::string> optimizer_names() { return {"gd", "momentum", "adam", "rmsprop"}; }

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, const OptimizerOptions& options,
                                          std::int64_t flat_elements) {
  if (name == "gd") return std::make_unique<GradientDescent>();
  if (name == "momentum") return std::make_unique<Momentum>(options.momentum, flat_elements);
  if (name == "adam") return make_adam(flat_elements);
  if (name == "rmsprop") return make_rmsprop(options.momentum, flat_elements);
  TERNGRAD_THROW(InvalidArgument, "[optimizer] unknown optimizer '", name, "'; accepted: gd, momentum, adam, rmsprop");
}

}  // namespace terngrad
