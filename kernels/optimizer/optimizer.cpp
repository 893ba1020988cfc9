#include "kernels/optimizer/optimizer.h"

#include <algorithm>
#include <optional>

#include "kernels/optimizer/cpu/optimizer.h"
#include "kernels/optimizer/cuda/optimizer.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"

namespace terngrad {
namespace {

void require_same(const char* who, std::size_t a, std::size_t b) {
  TERNGRAD_REQUIRE(a == b, "[", who, "] lengths differ: ", a, " and ", b);
}

/// The rate of an update on the CPU, or nothing if the update is skipped.
std::optional<float> rate_of(float by_value, const StepScalars& scalars) {
  if (scalars.skip != nullptr && *scalars.skip != 0) return std::nullopt;
  return scalars.rate != nullptr ? *scalars.rate : by_value;
}

template <class Body>
void split(std::size_t count, const Stream& stream, const Body& body) {
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(count), kElementGrain,
               [&](std::int64_t begin, std::int64_t end) { body(begin, end - begin); });
}

}  // namespace

void update_gd(std::span<float> weights, std::span<const float> gradient, float learning_rate, Stream& stream,
               const StepScalars& scalars) {
  require_same("update_gd", weights.size(), gradient.size());
  if (stream.device().is_cuda()) return cuda::update_gd(weights, gradient, learning_rate, stream, scalars);
  const std::optional<float> rate = rate_of(learning_rate, scalars);
  if (!rate) return;
  split(weights.size(), stream, [&](std::int64_t first, std::int64_t count) {
    cpu::update_gd(weights.data() + first, gradient.data() + first, count, *rate);
  });
}

void update_momentum(std::span<float> weights, std::span<float> accumulator, std::span<const float> gradient,
                     float learning_rate, float momentum, Stream& stream, const StepScalars& scalars) {
  require_same("update_momentum", weights.size(), gradient.size());
  require_same("update_momentum", weights.size(), accumulator.size());
  if (stream.device().is_cuda()) {
    return cuda::update_momentum(weights, accumulator, gradient, learning_rate, momentum, stream, scalars);
  }
  const std::optional<float> rate = rate_of(learning_rate, scalars);
  if (!rate) return;
  split(weights.size(), stream, [&](std::int64_t first, std::int64_t count) {
    cpu::update_momentum(weights.data() + first, accumulator.data() + first, gradient.data() + first, count, *rate,
                         momentum);
  });
}

void update_adam(std::span<float> weights, std::span<float> first_moment, std::span<float> second_moment,
                 std::span<const float> gradient, float step_size, const AdamConstants& constants, Stream& stream,
                 const StepScalars& scalars) {
  require_same("update_adam", weights.size(), gradient.size());
  require_same("update_adam", weights.size(), first_moment.size());
  require_same("update_adam", weights.size(), second_moment.size());
  if (stream.device().is_cuda()) {
    return cuda::update_adam(weights, first_moment, second_moment, gradient, step_size, constants, stream, scalars);
  }
  const std::optional<float> rate = rate_of(step_size, scalars);
  if (!rate) return;
  split(weights.size(), stream, [&](std::int64_t first, std::int64_t count) {
    cpu::update_adam(weights.data() + first, first_moment.data() + first, second_moment.data() + first,
                     gradient.data() + first, count, *rate, constants);
  });
}

void to_adam_direction(std::span<float> gradient, std::span<const float> first_moment,
                       std::span<const float> second_moment, const float* bound, const AdamConstants& constants,
                       Stream& stream) {
  require_same("to_adam_direction", gradient.size(), first_moment.size());
  require_same("to_adam_direction", gradient.size(), second_moment.size());
  if (stream.device().is_cuda()) {
    return cuda::to_adam_direction(gradient, first_moment, second_moment, bound, constants, stream);
  }
  split(gradient.size(), stream, [&](std::int64_t first, std::int64_t count) {
    cpu::to_adam_direction(gradient.data() + first, first_moment.data() + first, second_moment.data() + first, count,
                           *bound, constants);
  });
}

void update_resting_adam(std::span<float> weights, std::span<float> first_moment, std::span<const float> second_moment,
                         std::span<const float> mean_direction, float step_size, const AdamConstants& constants,
                         Stream& stream, const StepScalars& scalars) {
  require_same("update_resting_adam", weights.size(), mean_direction.size());
  require_same("update_resting_adam", weights.size(), first_moment.size());
  require_same("update_resting_adam", weights.size(), second_moment.size());
  if (stream.device().is_cuda()) {
    return cuda::update_resting_adam(weights, first_moment, second_moment, mean_direction, step_size, constants, stream,
                                     scalars);
  }
  const std::optional<float> rate = rate_of(step_size, scalars);
  if (!rate) return;
  split(weights.size(), stream, [&](std::int64_t first, std::int64_t count) {
    cpu::update_resting_adam(weights.data() + first, first_moment.data() + first, second_moment.data() + first,
                             mean_direction.data() + first, count, *rate, constants);
  });
}

void update_nadam(std::span<float> weights, std::span<float> first_moment, std::span<float> second_moment,
                  std::span<const float> gradient, const UpdateRates& rates, const AdamConstants& constants,
                  Stream& stream, const StepScalars& scalars) {
  require_same("update_nadam", weights.size(), gradient.size());
  require_same("update_nadam", weights.size(), first_moment.size());
  require_same("update_nadam", weights.size(), second_moment.size());
  if (stream.device().is_cuda()) {
    return cuda::update_nadam(weights, first_moment, second_moment, gradient, rates, constants, stream, scalars);
  }
  if (!rate_of(0, scalars)) return;
  UpdateRates used = rates;
  if (scalars.rate != nullptr) std::copy_n(scalars.rate, used.size(), used.begin());
  split(weights.size(), stream, [&](std::int64_t first, std::int64_t count) {
    cpu::update_nadam(weights.data() + first, first_moment.data() + first, second_moment.data() + first,
                      gradient.data() + first, count, used, constants);
  });
}

void update_rmsprop(std::span<float> weights, std::span<float> mean_square, std::span<float> update,
                    std::span<const float> gradient, float learning_rate, const RmspropConstants& constants,
                    Stream& stream, const StepScalars& scalars) {
  require_same("update_rmsprop", weights.size(), gradient.size());
  require_same("update_rmsprop", weights.size(), mean_square.size());
  require_same("update_rmsprop", weights.size(), update.size());
  if (stream.device().is_cuda()) {
    return cuda::update_rmsprop(weights, mean_square, update, gradient, learning_rate, constants, stream, scalars);
  }
  const std::optional<float> rate = rate_of(learning_rate, scalars);
  if (!rate) return;
  split(weights.size(), stream, [&](std::int64_t first, std::int64_t count) {
    cpu::update_rmsprop(weights.data() + first, mean_square.data() + first, update.data() + first,
                        gradient.data() + first, count, *rate, constants);
  });
}

void update_ema(std::span<float> shadow, std::span<const float> weights, float decay, Stream& stream,
                const StepScalars& scalars) {
  require_same("update_ema", shadow.size(), weights.size());
  if (stream.device().is_cuda()) return cuda::update_ema(shadow, weights, decay, stream, scalars);
  const std::optional<float> rate = rate_of(decay, scalars);
  if (!rate) return;
  split(weights.size(), stream, [&](std::int64_t first, std::int64_t count) {
    cpu::update_ema(shadow.data() + first, weights.data() + first, count, 1.0f - *rate);
  });
}

void add_weight_decay(std::span<float> gradient, std::span<const float> weights, float decay, Stream& stream,
                      const StepScalars& scalars) {
  require_same("add_weight_decay", gradient.size(), weights.size());
  if (stream.device().is_cuda()) return cuda::add_weight_decay(gradient, weights, decay, stream, scalars);
  const std::optional<float> rate = rate_of(decay, scalars);
  if (!rate) return;
  split(weights.size(), stream, [&](std::int64_t first, std::int64_t count) {
    cpu::add_scaled(gradient.data() + first, weights.data() + first, count, *rate);
  });
}

}  // namespace terngrad
