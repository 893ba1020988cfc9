// Floating epochs: compression that pauses for whole epochs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "trainers/loop/strategy.h"

namespace terngrad {

/// Whether the 0-based `step` lies in a floating epoch: the last of every `period`. With t the step, B the batch of all
/// workers together and E_n the examples of the training set, epoch = floor(t B / E_n), and it is floating if
/// epoch mod period = period - 1. (The original has the option --floating_grad_epoch, without effect by a mistake.)
/// @param period  at least 1; @param batch_size, num_examples  at least 1
/// @throws InvalidArgument for others
bool is_floating_step(std::uint64_t step, std::int64_t batch_size, std::int64_t num_examples, std::int64_t period);

/// Combines with `floating` in the steps for which `is_floating` holds and with `compressed` in the others: reports and
/// what decode_sent gives are those of the one that combined last. Name and memory are those of `compressed`. A step's
/// result is the very one that its strategy alone would give. What workers keep from step to step rests in the steps of
/// the other; `floating` keeps nothing.
std::unique_ptr<Strategy> make_floating_epochs_strategy(std::unique_ptr<Strategy> compressed,
                                                        std::unique_ptr<Strategy> floating,
                                                        std::function<bool(std::uint64_t step)> is_floating);

}  // namespace terngrad
