#include "trainers/optim/nadam.h"

#include <cmath>

#include "kernels/optimizer/optimizer.h"
#include "kernels/runtime/errors.h"
#include "trainers/optim/integer_power.h"
#include "trainers/optim/moments.h"

namespace terngrad {
namespace {

constexpr AdamConstants kNadamConstants{};
constexpr double kMomentumDecay = 0.99983672535267528;  // 0.96^0.004

class Nadam final : public MomentsOptimizer {
 public:
  Nadam(double epsilon, std::int64_t flat_elements, const Device& device)
      : MomentsOptimizer("nadam", flat_elements, device), epsilon_(epsilon) {
    TERNGRAD_REQUIRE(epsilon >= 0, "[nadam] epsilon must be at least 0, got ", epsilon);
  }
  void update_part(std::span<float> parameters, std::span<const float> gradient, std::int64_t first,
                   const UpdateRates& rates, Stream& stream, const StepScalars& scalars) override {
    update_nadam(parameters, first_moment(first, parameters), second_moment(first, parameters), gradient, rates,
                 kNadamConstants, stream, scalars);
  }
  UpdateRates rates(float learning_rate, std::uint64_t updates_ahead) const override {
    const std::uint64_t update = num_updates() + updates_ahead + 1;
    // The common factor sqrt(1 - b2^t) is moved from v to the numerator and epsilon.
    const double root = std::sqrt(1.0 - integer_power(double{kNadamConstants.beta2}, update));
    const double momentum = nadam_momentum(update);
    const double next_momentum = nadam_momentum(update + 1);
    const double product = momentum_product(update);
    const double scale = double{learning_rate} * root;
    return {static_cast<float>(scale * next_momentum / (1.0 - product * next_momentum)),
            static_cast<float>(scale * (1.0 - momentum) / (1.0 - product)), static_cast<float>(epsilon_ * root)};
  }

 private:
  /// p_t of update t. Multiplied in order, so a run that goes on has the bits of one that was never interrupted.
  double momentum_product(std::uint64_t update) const {
    if (update < known_update_) {
      known_update_ = 0;
      known_product_ = 1;
    }
    // Below the smallest number it stays 0.
    while (known_update_ < update && known_product_ > 0) known_product_ *= nadam_momentum(++known_update_);
    return known_product_;
  }

  double epsilon_;
  mutable std::uint64_t known_update_ = 0;
  mutable double known_product_ = 1;
};

}  // namespace

double nadam_momentum(std::uint64_t update) {
  return double{kNadamConstants.beta1} * (1.0 - 0.5 * integer_power(kMomentumDecay, update));
}

std::unique_ptr<Optimizer> make_nadam(double epsilon, std::int64_t flat_elements, const Device& device) {
  return std::make_unique<Nadam>(epsilon, flat_elements, device);
}

}  // namespace terngrad
