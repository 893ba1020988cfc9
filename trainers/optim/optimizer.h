// Optimizers: from a mean gradient to new parameters.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/optimizer/optimizer.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"

namespace terngrad {

/// A rule w <- w - f(G) over a flat buffer, with its slots. The rules and constants are those of the original.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual const std::string& name() const = 0;

  /// Applies one update. Bitwise repeatable, for any number of threads and on any device.
  /// @param parameters     [flat elements] in and out, on the device of the slots
  /// @param gradient       [flat elements] the mean gradient G
  /// @param learning_rate  lr
  void apply(std::span<float> parameters, std::span<const float> gradient, float learning_rate, Stream& stream) {
    update(parameters, gradient, rate(learning_rate, 0), stream, {});
    count_updates(1);
  }

  // The same in parts, for updates that are captured into a CUDA graph and told their rate when they run.

  /// What `update` multiplies by: the learning rate, or what the rule makes of it.
  /// @param updates_ahead  updates not counted yet that come before this one
  virtual float rate(float learning_rate, std::uint64_t updates_ahead) const {
    static_cast<void>(updates_ahead);
    return learning_rate;
  }
  /// Submits one update, by `rate` or by what `scalars` says when it runs.
  virtual void update(std::span<float> parameters, std::span<const float> gradient, float rate, Stream& stream,
                      const StepScalars& scalars) = 0;
  /// Says that `count` updates have been applied.
  virtual void count_updates(std::uint64_t count) { static_cast<void>(count); }

  /// State that a checkpoint keeps: name and flat buffer of each slot, on the device it was made for.
  struct Slot {
    std::string name;
    std::span<float> values;
  };
  virtual std::vector<Slot> slots() { return {}; }

  /// What a checkpoint keeps besides slots: entries for CheckpointState::more, with names of the optimizer's own.
  virtual std::map<std::string, std::string> state() const { return {}; }
  /// Continues from what state() gave. @param entries  may hold others too
  /// @throws DataError naming an entry that is missing or cannot be read; nothing has changed then
  virtual void restore_state(const std::map<std::string, std::string>& entries) { static_cast<void>(entries); }
};

struct OptimizerOptions {
  double momentum = 0.9;  // of "momentum" and "rmsprop"
};

/// Names that make_optimizer accepts:
///   gd        w -= lr G
///   momentum  a = m a + G; w -= lr a
///   adam      trainers/optim/adam.h
///   rmsprop   trainers/optim/rmsprop.h
std::vector<std::string> optimizer_names();
/// @param device  where slots are; @throws InvalidArgument for an unknown name
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, const OptimizerOptions& options,
                                          std::int64_t flat_elements, const Device& device = Device::cpu());

}  // namespace terngrad
