#include "trainers/optim/ema.h"

#include <algorithm>

#include "kernels/optimizer/optimizer.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

Ema::Ema(double decay, std::span<const float> initial)
    : decay_(decay), shadow_(static_cast<std::int64_t>(initial.size())) {
  TERNGRAD_REQUIRE(decay >= 0 && decay < 1, "[ema] decay must be in [0, 1), got ", decay);
  std::copy(initial.begin(), initial.end(), shadow_.data());
}

double Ema::decay_at(double decay, std::uint64_t step) {
  const auto t = static_cast<double>(step);
  return std::min(decay, (1 + t) / (10 + t));
}

void Ema::update(std::span<const float> parameters, std::uint64_t step, Stream& stream) {
  update_ema(shadow_.span(), parameters, static_cast<float>(decay_at(decay_, step)), stream);
}

}  // namespace terngrad
