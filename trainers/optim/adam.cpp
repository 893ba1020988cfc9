#include "trainers/optim/adam.h"

#include <cmath>

#include "kernels/optimizer/optimizer.h"
#include "kernels/runtime/errors.h"
#include "trainers/optim/integer_power.h"
#include "trainers/optim/moments.h"

namespace terngrad {
namespace {

constexpr AdamConstants kAdamConstants{};

class Adam final : public MomentsOptimizer {
 public:
  Adam(std::int64_t flat_elements, const Device& device) : MomentsOptimizer("adam", flat_elements, device) {}
  void update_part(std::span<float> parameters, std::span<const float> gradient, std::int64_t first,
                   const UpdateRates& rates, Stream& stream, const StepScalars& scalars) override {
    update_adam(parameters, first_moment(first, parameters), second_moment(first, parameters), gradient, rates[0],
                kAdamConstants, stream, scalars);
  }
  UpdateRates rates(float learning_rate, std::uint64_t updates_ahead) const override {
    const std::uint64_t update = num_updates() + updates_ahead + 1;
    return {adam_step_size(learning_rate, update, update)};
  }
};

}  // namespace

float adam_step_size(float learning_rate, std::uint64_t update, std::uint64_t variance_updates) {
  TERNGRAD_REQUIRE(update >= 1, "[adam] updates count from 1");
  // Powers of the kernel's float constants: then the corrections match the weights that the moments' sums have.
  const double rest1 = 1.0 - integer_power(double{kAdamConstants.beta1}, update);
  const double rest2 = 1.0 - integer_power(double{kAdamConstants.beta2}, variance_updates);
  return static_cast<float>(double{learning_rate} * std::sqrt(rest2) / rest1);
}

std::unique_ptr<Optimizer> make_adam(std::int64_t flat_elements, const Device& device) {
  return std::make_unique<Adam>(flat_elements, device);
}

}  // namespace terngrad
