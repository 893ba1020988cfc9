#include "trainers/optim/optimizer.h"

#include <fmt/ranges.h>

#include "kernels/optimizer/optimizer.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/filled.h"
#include "trainers/optim/adam.h"
#include "trainers/optim/gradient_transform.h"
#include "trainers/optim/nadam.h"
#include "trainers/optim/onebit_adam.h"
#include "trainers/optim/rmsprop.h"
#include "trainers/optim/trained_tensors.h"

namespace terngrad {
namespace {

class GradientDescent final : public Optimizer {
 public:
  const std::string& name() const override {
    static const std::string name = "gd";
    return name;
  }
  void update_part(std::span<float> parameters, std::span<const float> gradient, std::int64_t, const UpdateRates& rates,
                   Stream& stream, const StepScalars& scalars) override {
    update_gd(parameters, gradient, rates[0], stream, scalars);
  }
};

class Momentum final : public Optimizer {
 public:
  Momentum(double momentum, std::int64_t flat_elements, const Device& device)
      : momentum_(static_cast<float>(momentum)), accumulator_(make_filled(flat_elements, 0, device)) {}
  const std::string& name() const override {
    static const std::string name = "momentum";
    return name;
  }
  void update_part(std::span<float> parameters, std::span<const float> gradient, std::int64_t first,
                   const UpdateRates& rates, Stream& stream, const StepScalars& scalars) override {
    update_momentum(parameters, part_of(accumulator_, first, parameters), gradient, rates[0], momentum_, stream,
                    scalars);
  }
  std::vector<Slot> slots() override { return {{"momentum", accumulator_.span()}}; }

 private:
  float momentum_;
  Buffer<float> accumulator_;
};

}  // namespace

void Optimizer::update(std::span<float> parameters, std::span<const float> gradient, const UpdateRates& rates,
                       Stream& stream, const StepScalars& scalars, const TrainedTensors* trained) {
  if (trained == nullptr) return update_part(parameters, gradient, 0, rates, stream, scalars);
  for (const FlatRange& range : trained->ranges()) {
    const auto first = static_cast<std::size_t>(range.first);
    const auto count = static_cast<std::size_t>(range.count);
    update_part(parameters.subspan(first, count), gradient.subspan(first, count), range.first, rates, stream, scalars);
  }
}

std::unique_ptr<GradientTransform> Optimizer::message_transform() { return nullptr; }

std::span<float> Optimizer::part_of(Buffer<float>& slot, std::int64_t first, std::span<const float> parameters) {
  const auto count = static_cast<std::int64_t>(parameters.size());
  TERNGRAD_REQUIRE(first + count <= slot.num_elements(), "[optimizer] lengths differ: slots have ", slot.num_elements(),
                   " elements, parameters end at ", first + count);
  return slot.span().subspan(static_cast<std::size_t>(first), parameters.size());
}

std::vector<std::string> optimizer_names() {
  return {"gd", "momentum", "adam", "nadam", "rmsprop", "onebit_adam", "zero_one_adam"};
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, const OptimizerOptions& options,
                                          std::int64_t flat_elements, const Device& device) {
  if (name == "gd") return std::make_unique<GradientDescent>();
  if (name == "momentum") return std::make_unique<Momentum>(options.momentum, flat_elements, device);
  if (name == "adam") return make_adam(flat_elements, device);
  if (name == "nadam") return make_nadam(options.epsilon, flat_elements, device);
  if (name == "rmsprop") return make_rmsprop(options.momentum, flat_elements, device);
  if (name == "onebit_adam" || name == "zero_one_adam") return make_onebit_adam(name, flat_elements, device);
  TERNGRAD_THROW(InvalidArgument, "[optimizer] unknown optimizer '", name,
                 "'; accepted: ", fmt::format("{}", fmt::join(optimizer_names(), ", ")));
}

}  // namespace terngrad
