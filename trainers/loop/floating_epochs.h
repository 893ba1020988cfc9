// Floating epochs: every few epochs, one without compression.
#pragma once

#include <cstdint>

namespace terngrad {

/// True if the 0-based `step` t lies in a floating epoch, the last of every `period` epochs. With joint batch size B
/// and E_n training examples, epoch = floor(t B / E_n), and it is floating if epoch mod period = period - 1. (In the
/// TernGrad authors' program the option --floating_grad_epoch has no effect because of a bug.)
/// @param batch_size, num_examples, period  at least 1
/// @throws InvalidArgument for smaller numbers
bool is_floating_step(std::uint64_t step, std::int64_t batch_size, std::int64_t num_examples, std::int64_t period);

}  // namespace terngrad
