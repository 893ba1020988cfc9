// Optimizer updates on a GPU, each one fused pass over its buffers. The arithmetic of an element is that of
// kernels/optimizer/cpu/optimizer.cpp, operation by operation; division and square root are correctly rounded.
#include "kernels/optimizer/cuda/optimizer.h"

#include <cuda_runtime.h>

#include "kernels/tensor/cuda/elementwise.cuh"

namespace terngrad::cuda {
namespace {

using In = Input<float>;
using InOut = InputOutput<float>;

/// An update by a rate. Whether it is skipped, and by which rate, may be in the device's memory.
struct Update {
  float rate;
  StepScalars scalars;

  __device__ bool begin() {
    if (scalars.skip != nullptr && *scalars.skip != 0) return false;
    if (scalars.rate != nullptr) rate = *scalars.rate;
    return true;
  }
  __device__ void end() {}
};

struct Gd : Update {
  __device__ void operator()(float& weight, float gradient) const { weight -= rate * gradient; }
};

struct Momentum : Update {
  float momentum;
  __device__ void operator()(float& weight, float& accumulator, float gradient) const {
    accumulator = momentum * accumulator + gradient;
    weight -= rate * accumulator;
  }
};

struct Adam : Update {
  AdamConstants constants;
  __device__ void operator()(float& weight, float& first, float& second, float gradient) const {
    first = constants.beta1 * first + (1.0f - constants.beta1) * gradient;
    second = constants.beta2 * second + (1.0f - constants.beta2) * (gradient * gradient);
    weight -= __fdiv_rn(rate * first, __fsqrt_rn(second) + constants.epsilon);
  }
};

struct Rmsprop : Update {
  RmspropConstants constants;
  __device__ void operator()(float& weight, float& mean_square, float& update, float gradient) const {
    mean_square = constants.decay * mean_square + (1.0f - constants.decay) * (gradient * gradient);
    const float scaled = __fdiv_rn(rate * gradient, __fsqrt_rn(mean_square + constants.epsilon));
    update = constants.momentum * update + scaled;
    weight -= update;
  }
};

/// The rate is the decay.
struct Ema : Update {
  __device__ void operator()(float& shadow, float weight) const { shadow -= (1.0f - rate) * (shadow - weight); }
};

/// The rate is the decay.
struct WeightDecay : Update {
  __device__ void operator()(float& gradient, float weight) const { gradient += rate * weight; }
};

}  // namespace

void update_gd(std::span<float> weights, std::span<const float> gradient, float learning_rate, const Stream& stream,
               const StepScalars& scalars) {
  launch_elementwise(weights.size(), stream, Gd{{learning_rate, scalars}}, InOut{weights.data()}, In{gradient.data()});
}

void update_momentum(std::span<float> weights, std::span<float> accumulator, std::span<const float> gradient,
                     float learning_rate, float momentum, const Stream& stream, const StepScalars& scalars) {
  launch_elementwise(weights.size(), stream, Momentum{{learning_rate, scalars}, momentum}, InOut{weights.data()},
                     InOut{accumulator.data()}, In{gradient.data()});
}

void update_adam(std::span<float> weights, std::span<float> first_moment, std::span<float> second_moment,
                 std::span<const float> gradient, float step_size, const AdamConstants& constants, const Stream& stream,
                 const StepScalars& scalars) {
  launch_elementwise(weights.size(), stream, Adam{{step_size, scalars}, constants}, InOut{weights.data()},
                     InOut{first_moment.data()}, InOut{second_moment.data()}, In{gradient.data()});
}

void update_rmsprop(std::span<float> weights, std::span<float> mean_square, std::span<float> update,
                    std::span<const float> gradient, float learning_rate, const RmspropConstants& constants,
                    const Stream& stream, const StepScalars& scalars) {
  launch_elementwise(weights.size(), stream, Rmsprop{{learning_rate, scalars}, constants}, InOut{weights.data()},
                     InOut{mean_square.data()}, InOut{update.data()}, In{gradient.data()});
}

void update_ema(std::span<float> shadow, std::span<const float> weights, float decay, const Stream& stream,
                const StepScalars& scalars) {
  launch_elementwise(shadow.size(), stream, Ema{{decay, scalars}}, InOut{shadow.data()}, In{weights.data()});
}

void add_weight_decay(std::span<float> gradient, std::span<const float> weights, float decay, const Stream& stream,
                      const StepScalars& scalars) {
  launch_elementwise(gradient.size(), stream, WeightDecay{{decay, scalars}}, InOut{gradient.data()},
                     In{weights.data()});
}

}  // namespace terngrad::cuda
