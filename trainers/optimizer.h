// Optimizers: from a mean gradient to new parameters.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/device.h"

namespace terngrad {

/// A rule w <- w - f(G) over a flat buffer, with its slots. The rules and constants are those of the original.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual const std::string& name() const = 0;

  /// Applies one update. Bitwise repeatable, for any number of threads.
  /// @param parameters     [flat elements] in and out
  /// @param gradient       [flat elements] the mean gradient G
  /// @param learning_rate  lr
  virtual void apply(std::span<float> parameters, std::span<const float> gradient, float learning_rate,
                     Stream& stream) = 0;

  /// State that a checkpoint keeps: name and flat buffer of each slot.
  struct Slot {
    std::string name;
    std::span<float> values;
  };
  virtual std::vector<Slot> slots() { return {}; }

  /// What a checkpoint keeps besides slots: entries for CheckpointState::more, with names of the optimizer's own.
  virtual std::map<std::string, std::string> state() const { return {}; }
  /// Goes on from what state() gave. @param entries  may hold others too
  /// @throws DataError naming an entry that is missing or cannot be read; nothing has changed then
  virtual void restore_state(const std::map<std::string, std::string>& entries) { static_cast<void>(entries); }
};

struct OptimizerOptions {
  double momentum = 0.9;  // of "momentum" and "rmsprop"
};

/// Names that make_optimizer accepts:
///   gd        w -= lr G
///   momentum  a = m a + G; w -= lr a
///   adam      trainers/adam.h
///   rmsprop   trainers/rmsprop.h
std::vector<std::string> optimizer_names();
/// @throws InvalidArgument for an unknown name
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, const OptimizerOptions& options,
                                          std::int64_t flat_elements);

}  // namespace terngrad
