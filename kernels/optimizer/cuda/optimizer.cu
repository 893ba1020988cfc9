// Optimizer updates on a GPU, each a single fused pass. The arithmetic per element is that of
// kernels/optimizer/cpu/optimizer.cpp, operation by operation; division and square root are correctly rounded.
#include "kernels/optimizer/cuda/optimizer.h"

#include <cuda_runtime.h>

#include <cfloat>

#include "kernels/tensor/cuda/elementwise.cuh"

namespace terngrad::cuda {
namespace {

using Two = thrust::tuple<float, float>;
using Three = thrust::tuple<float, float, float>;

/// Base of updates with a rate. Rate and skip flag may be in device memory.
struct Update {
  float rate_of_host;
  StepScalars scalars;

  __device__ bool is_skipped() const { return scalars.skip != nullptr && __ldg(scalars.skip) != 0; }
  __device__ float rate() const { return scalars.rate != nullptr ? __ldg(scalars.rate) : rate_of_host; }
};

struct Gd : Update {
  __device__ float operator()(float weight, float gradient) const {
    return is_skipped() ? weight : weight - rate() * gradient;
  }
};

struct Momentum : Update {
  float momentum;
  __device__ Two operator()(float weight, float accumulator, float gradient) const {
    if (is_skipped()) return {weight, accumulator};
    accumulator = momentum * accumulator + gradient;
    return {weight - rate() * accumulator, accumulator};
  }
};

struct Adam : Update {
  AdamConstants constants;
  __device__ Three operator()(float weight, float first, float second, float gradient) const {
    if (is_skipped()) return {weight, first, second};
    first = constants.beta1 * first + (1.0f - constants.beta1) * gradient;
    second = constants.beta2 * second + (1.0f - constants.beta2) * (gradient * gradient);
    return {weight - __fdiv_rn(rate() * first, __fsqrt_rn(second) + constants.epsilon), first, second};
  }
};

struct ToAdamDirection {
  const float* bound;
  AdamConstants constants;
  __device__ float operator()(float gradient, float first, float second) const {
    first = constants.beta1 * first + (1.0f - constants.beta1) * gradient;
    const float direction = __fdiv_rn(first, __fsqrt_rn(second) + constants.epsilon);
    if (!(fabsf(direction) <= FLT_MAX)) return direction;
    if (second == 0.0f) return 0.0f;
    const float limit = __ldg(bound);
    return fabsf(direction) > limit ? copysignf(limit, direction) : direction;
  }
};

struct RestingAdam : Update {
  AdamConstants constants;
  __device__ Two operator()(float weight, float first, float second, float mean_direction) const {
    if (is_skipped()) return {weight, first};
    if (second == 0.0f || fabsf(second) > FLT_MAX) return {weight - rate() * 0.0f, 0.0f};
    return {weight - rate() * mean_direction, mean_direction * (__fsqrt_rn(second) + constants.epsilon)};
  }
};

/// rate() is that of the first moment.
struct Nadam : Update {
  float gradient_rate_of_host;
  float epsilon_of_host;
  AdamConstants constants;
  __device__ Three operator()(float weight, float first, float second, float gradient) const {
    if (is_skipped()) return {weight, first, second};
    const float gradient_rate = scalars.rate != nullptr ? __ldg(scalars.rate + 1) : gradient_rate_of_host;
    const float epsilon = scalars.rate != nullptr ? __ldg(scalars.rate + 2) : epsilon_of_host;
    first = constants.beta1 * first + (1.0f - constants.beta1) * gradient;
    second = constants.beta2 * second + (1.0f - constants.beta2) * (gradient * gradient);
    const float direction = rate() * first + gradient_rate * gradient;
    return {weight - __fdiv_rn(direction, __fsqrt_rn(second) + epsilon), first, second};
  }
};

struct Rmsprop : Update {
  RmspropConstants constants;
  __device__ Three operator()(float weight, float mean_square, float update, float gradient) const {
    if (is_skipped()) return {weight, mean_square, update};
    mean_square = constants.decay * mean_square + (1.0f - constants.decay) * (gradient * gradient);
    const float scaled = __fdiv_rn(rate() * gradient, __fsqrt_rn(mean_square + constants.epsilon));
    update = constants.momentum * update + scaled;
    return {weight - update, mean_square, update};
  }
};

/// The rate is the decay.
struct Ema : Update {
  __device__ float operator()(float shadow, float weight) const {
    return is_skipped() ? shadow : shadow - (1.0f - rate()) * (shadow - weight);
  }
};

/// The rate is the decay.
struct WeightDecay : Update {
  __device__ float operator()(float gradient, float weight) const {
    return is_skipped() ? gradient : gradient + rate() * weight;
  }
};

/// Applies op to the elements of the changed arrays and of the read array, and stores the results in the changed
/// arrays.
template <class Op, class... Changed>
void update(const Stream& stream, const Op& op, std::span<const float> read, std::span<Changed>... changed) {
  if constexpr (sizeof...(Changed) == 1) {
    transform(read.size(), stream, op, changed.data()..., static_cast<const float*>(changed.data())..., read.data());
  } else {
    transform(read.size(), stream, op, zipped(changed.data()...), static_cast<const float*>(changed.data())...,
              read.data());
  }
}

}  // namespace

void update_gd(std::span<float> weights, std::span<const float> gradient, float learning_rate, const Stream& stream,
               const StepScalars& scalars) {
  update(stream, Gd{{learning_rate, scalars}}, gradient, weights);
}

void update_momentum(std::span<float> weights, std::span<float> accumulator, std::span<const float> gradient,
                     float learning_rate, float momentum, const Stream& stream, const StepScalars& scalars) {
  update(stream, Momentum{{learning_rate, scalars}, momentum}, gradient, weights, accumulator);
}

void update_adam(std::span<float> weights, std::span<float> first_moment, std::span<float> second_moment,
                 std::span<const float> gradient, float step_size, const AdamConstants& constants, const Stream& stream,
                 const StepScalars& scalars) {
  update(stream, Adam{{step_size, scalars}, constants}, gradient, weights, first_moment, second_moment);
}

void to_adam_direction(std::span<float> gradient, std::span<const float> first_moment,
                       std::span<const float> second_moment, const float* bound, const AdamConstants& constants,
                       const Stream& stream) {
  transform(gradient.size(), stream, ToAdamDirection{bound, constants}, gradient.data(),
            static_cast<const float*>(gradient.data()), first_moment.data(), second_moment.data());
}

void update_resting_adam(std::span<float> weights, std::span<float> first_moment, std::span<const float> second_moment,
                         std::span<const float> mean_direction, float step_size, const AdamConstants& constants,
                         const Stream& stream, const StepScalars& scalars) {
  transform(weights.size(), stream, RestingAdam{{step_size, scalars}, constants},
            zipped(weights.data(), first_moment.data()), static_cast<const float*>(weights.data()),
            static_cast<const float*>(first_moment.data()), second_moment.data(), mean_direction.data());
}

void update_nadam(std::span<float> weights, std::span<float> first_moment, std::span<float> second_moment,
                  std::span<const float> gradient, const UpdateRates& rates, const AdamConstants& constants,
                  const Stream& stream, const StepScalars& scalars) {
  update(stream, Nadam{{rates[0], scalars}, rates[1], rates[2], constants}, gradient, weights, first_moment,
         second_moment);
}

void update_rmsprop(std::span<float> weights, std::span<float> mean_square, std::span<float> update_of_weights,
                    std::span<const float> gradient, float learning_rate, const RmspropConstants& constants,
                    const Stream& stream, const StepScalars& scalars) {
  update(stream, Rmsprop{{learning_rate, scalars}, constants}, gradient, weights, mean_square, update_of_weights);
}

void update_ema(std::span<float> shadow, std::span<const float> weights, float decay, const Stream& stream,
                const StepScalars& scalars) {
  update(stream, Ema{{decay, scalars}}, weights, shadow);
}

void add_weight_decay(std::span<float> gradient, std::span<const float> weights, float decay, const Stream& stream,
                      const StepScalars& scalars) {
  update(stream, WeightDecay{{decay, scalars}}, weights, gradient);
}

}  // namespace terngrad::cuda
