// Averaged residuals of some steps, on any device.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/tensor/averaged_residual.h"
#include "support/cuda_device.h"
#include "support/gradients.h"

namespace terngrad::testing {

/// Encoded gradients and decoded messages of each step.
struct ResidualSteps {
  std::vector<std::vector<float>> encoded, sent;
};

/// Gradients of size 2^exponent. Messages are half of them, but 0 for every third element, and in a single step for
/// all.
inline ResidualSteps residual_steps(std::size_t count, int num_steps, int exponent) {
  ResidualSteps steps;
  for (int step = 0; step < num_steps; ++step) {
    steps.encoded.push_back(gaussian(count, static_cast<std::uint64_t>(2 * step + 1)));
    steps.sent.push_back(std::vector<float>(count));
    for (std::size_t i = 0; i < count; ++i) {
      float& value = steps.encoded.back()[i];
      value = std::ldexp(value, exponent);
      if (num_steps > 1) steps.sent.back()[i] = i % 3 == 0 ? 0.0f : value / 2;
    }
  }
  return steps;
}

/// The words of the state after all steps, which are numbered from average.step on.
inline std::vector<float> residual_after(const ResidualSteps& steps, ResidualAverage average, Stream& stream) {
  const auto count = static_cast<std::int64_t>(steps.encoded[0].size());
  const Buffer<float> state =
      to_device<float>(std::vector<float>(static_cast<std::size_t>(residual_words(count))), stream);
  for (std::size_t step = 0; step < steps.encoded.size(); ++step) {
    const Buffer<float> encoded = to_device<float>(steps.encoded[step], stream);
    const Buffer<float> sent = to_device<float>(steps.sent[step], stream);
    update_residual(
        {.encoded = encoded.data(), .sent = sent.data(), .state = const_cast<float*>(state.data()), .count = count},
        average, stream);
    ++average.step.step;
  }
  return to_host<float>(state.span(), stream);
}

/// The elements of a state, by compensation of zeros.
inline std::vector<float> elements_of(const std::vector<float>& words, std::size_t count, Stream& stream) {
  const Buffer<float> state = to_device<float>(words, stream);
  const Buffer<float> zeros = to_device<float>(std::vector<float>(count), stream);
  Buffer<float> out(static_cast<std::int64_t>(count), stream.device());
  const AveragedCompensateTask task{
      .state = state.data(), .gradient = zeros.data(), .compensated = out.data(), .count = out.num_elements()};
  compensate(task, {}, stream);
  return to_host<float>(out.span(), stream);
}

}  // namespace terngrad::testing
