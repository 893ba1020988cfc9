// Floating epochs: every few epochs, one without compression.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "trainers/loop/strategy.h"

namespace terngrad {

/// True if the 0-based `step` t lies in a floating epoch, the last of every `period` epochs. With joint batch size B
/// and E_n training examples, epoch = floor(t B / E_n), and it is floating if epoch mod period = period - 1. (In the
/// TernGrad authors' program the option --floating_grad_epoch has no effect because of a bug.)
/// @param batch_size, num_examples, period  at least 1
/// @throws InvalidArgument for smaller numbers
bool is_floating_step(std::uint64_t step, std::int64_t batch_size, std::int64_t num_examples, std::int64_t period);

/// A strategy that combines with `floating` in steps for which `is_floating` is true, else with `compressed`, with the
/// same results as the strategy of the step alone. Reports and decode_sent are those of the strategy that combined
/// last; name, memory and factors are those of `compressed`, whose memory does not change in floating steps.
std::unique_ptr<Strategy> make_floating_epochs_strategy(std::unique_ptr<Strategy> compressed,
                                                        std::unique_ptr<Strategy> floating,
                                                        std::function<bool(std::uint64_t step)> is_floating);

}  // namespace terngrad
