#include "trainers/optim/onebit_adam.h"

#include <cmath>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "kernels/optimizer/optimizer.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/filled.h"
#include "trainers/optim/adam.h"
#include "trainers/optim/flat_range.h"
#include "trainers/optim/gradient_transform.h"
#include "trainers/optim/integer_power.h"
#include "trainers/optim/moments.h"
#include "trainers/optim/worker_gradients.h"

namespace terngrad {
namespace {

constexpr AdamConstants kConstants{};

/// The limit of |m| / sqrt(v) while v rests: 7.27 / sqrt(1 - b2^s). 7.27 or (1 - b1) / sqrt((1 - b2) (1 - b1^2 / b2))
/// is Adam's largest |m| / sqrt(v), by Cauchy and Schwarz over its two sums; the root makes up for the correction of v.
/// @param variance_updates  s
float largest_direction(std::uint64_t variance_updates) {
  const double b1 = double{kConstants.beta1};
  const double b2 = double{kConstants.beta2};
  const double largest = (1.0 - b1) / std::sqrt((1.0 - b2) * (1.0 - b1 * b1 / b2));
  return static_cast<float>(largest / std::sqrt(1.0 - integer_power(b2, variance_updates)));
}

class OnebitAdam final : public MomentsOptimizer {
 public:
  OnebitAdam(std::string name, std::int64_t flat_elements, const Device& device)
      : MomentsOptimizer(std::move(name), flat_elements, device), bound_(make_filled(1, 0, device)) {}

  void use_exchange(std::size_t index, Stream& stream) override {
    sends_directions_ = index == 0;
    if (!sends_directions_) return;
    // Captured steps read the bound from memory: it changes with v, between two runs of their graph.
    const float bound = largest_direction(num_variance_updates_);
    if (bound == host_bound_) return;
    host_bound_ = bound;
    copy<float>({&host_bound_, 1}, bound_.span(), stream);
  }
  std::unique_ptr<GradientTransform> message_transform() override { return std::make_unique<Directions>(*this); }

  UpdateRates rates(float learning_rate, std::uint64_t updates_ahead) const override {
    const std::uint64_t of_variance = num_variance_updates_ + (sends_directions_ ? 0 : updates_ahead + 1);
    return {adam_step_size(learning_rate, num_updates() + updates_ahead + 1, of_variance)};
  }
  void count_updates(std::uint64_t count) override {
    MomentsOptimizer::count_updates(count);
    if (!sends_directions_) num_variance_updates_ += count;
  }

  std::map<std::string, std::string> state() const override {
    std::map<std::string, std::string> entries = MomentsOptimizer::state();
    entries[variance_key()] = std::to_string(num_variance_updates_);
    return entries;
  }
  void restore_state(const std::map<std::string, std::string>& entries) override {
    const std::uint64_t of_variance = count_of(entries, variance_key());
    MomentsOptimizer::restore_state(entries);
    num_variance_updates_ = of_variance;
  }

 protected:
  void update_part(std::span<float> parameters, std::span<const float> gradient, std::int64_t first,
                   const UpdateRates& rates, Stream& stream, const StepScalars& scalars) override {
    const std::span<float> m = first_moment(first, parameters);
    const std::span<float> v = second_moment(first, parameters);
    if (sends_directions_) {
      update_resting_adam(parameters, m, v, gradient, rates[0], kConstants, stream, scalars);
    } else {
      update_adam(parameters, m, v, gradient, rates[0], kConstants, stream, scalars);
    }
  }

 private:
  /// Makes directions of gradients in steps that compress.
  class Directions final : public GradientTransform {
   public:
    explicit Directions(OnebitAdam& optimizer) : optimizer_(optimizer) {}
    std::string name() const override { return optimizer_.name(); }
    bool is_per_tensor() const override { return true; }
    void submit(const float*, const WorkerGradients& gradients, const FlatRange& range, TransformCounts*,
                Stream& stream) override {
      if (!optimizer_.sends_directions_) return;
      const auto count = static_cast<std::size_t>(range.count);
      for (int worker = 0; worker < gradients.num_workers; ++worker) {
        const std::span<float> gradient(gradients.buffers.of(worker) + range.first, count);
        to_adam_direction(gradient, optimizer_.first_moment(range.first, gradient),
                          optimizer_.second_moment(range.first, gradient), optimizer_.bound_.data(), kConstants,
                          stream);
      }
    }

   private:
    OnebitAdam& optimizer_;
  };

  std::string variance_key() const { return name() + "_variance_updates"; }

  Buffer<float> bound_;  // [1] of directions that workers send
  float host_bound_ = 0;
  bool sends_directions_ = false;
  std::uint64_t num_variance_updates_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> make_onebit_adam(const std::string& name, std::int64_t flat_elements, const Device& device) {
  return std::make_unique<OnebitAdam>(name, flat_elements, device);
}

bool is_variance_step(std::uint64_t step, std::uint64_t scaler) {
  TERNGRAD_REQUIRE(scaler >= 1, "[zero_one_adam] the scaler of intervals must be at least 1");
  // Intervals of length 2^i begin at scaler (2^i - 1).
  std::uint64_t first = 0;
  std::uint64_t interval = 1;
  while ((step - first) / scaler >= interval) {  // without the product, which could overflow
    first += scaler * interval;
    interval *= 2;
  }
  return (step - first) % interval == 0;
}

}  // namespace terngrad
