// Optimizer: updates parameters from a mean gradient.
#pragma once

#include <cstddef>
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

class GradientTransform;
class TrainedTensors;

/// An update rule w <- w - f(G) over a flat buffer, with its slots. Rules and constants are those of the TernGrad
/// authors' program.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual const std::string& name() const = 0;

  /// Applies one update. Bitwise repeatable, for any number of threads and on any device.
  /// @param parameters     [flat elements] in and out, on the device of the slots
  /// @param gradient       [flat elements] the mean gradient G
  /// @param learning_rate  lr
  /// @param trained        the tensors that are updated, with their slots; nullptr: all
  void apply(std::span<float> parameters, std::span<const float> gradient, float learning_rate, Stream& stream,
             const TrainedTensors* trained = nullptr) {
    update(parameters, gradient, rates(learning_rate, 0), stream, {}, trained);
    count_updates(1);
  }

  // The steps of `apply`, for updates that are captured into a CUDA graph and read their rates when they run.

  /// The rates that `update` takes: the learning rate, or what the rule computes from it.
  /// @param updates_ahead  number of earlier updates that are not counted yet
  virtual UpdateRates rates(float learning_rate, std::uint64_t updates_ahead) const {
    static_cast<void>(updates_ahead);
    return {learning_rate};
  }
  /// Submits one update with `rates`, or with the rates that `scalars` holds in device memory when the update runs.
  void update(std::span<float> parameters, std::span<const float> gradient, const UpdateRates& rates, Stream& stream,
              const StepScalars& scalars, const TrainedTensors* trained = nullptr);
  /// Counts `count` applied updates.
  virtual void count_updates(std::uint64_t count) { static_cast<void>(count); }

  // The messages of workers. Most optimizers want the mean gradient whatever exchange a step uses.

  /// Tells which of a trainer's exchanges the next steps use. @param index  0: that of the codec; else one of fp32
  virtual void use_exchange(std::size_t index, Stream& stream) {
    static_cast<void>(index);
    static_cast<void>(stream);
  }
  /// The transform, after all others, that makes of a worker's gradient what the optimizer wants the mean of; nullptr
  /// if that is the gradient. The optimizer must outlive it.
  virtual std::unique_ptr<GradientTransform> message_transform();

  /// Optimizer state that checkpoints keep: a named flat buffer, on the optimizer's device.
  struct Slot {
    std::string name;
    std::span<float> values;
  };
  virtual std::vector<Slot> slots() { return {}; }

  /// State besides slots: entries for CheckpointState::extra_metadata, under the optimizer's own names.
  virtual std::map<std::string, std::string> state() const { return {}; }
  /// Restores what state() returned. @param entries  may contain other entries too
  /// @throws DataError naming an entry that is missing or invalid; the optimizer is unchanged then
  virtual void restore_state(const std::map<std::string, std::string>& entries) { static_cast<void>(entries); }

 protected:
  /// Updates a part of the buffers. @param first  number of its first element, for part_of
  virtual void update_part(std::span<float> parameters, std::span<const float> gradient, std::int64_t first,
                           const UpdateRates& rates, Stream& stream, const StepScalars& scalars) = 0;
  /// The slot's elements of that part. @throws InvalidArgument if the slot ends before it
  static std::span<float> part_of(Buffer<float>& slot, std::int64_t first, std::span<const float> parameters);
};

/// Options of optimizers that have any.
struct OptimizerOptions {
  double momentum = 0.9;  // for "momentum" and "rmsprop"
  double epsilon = 1e-7;  // for "nadam"
};

/// Names that make_optimizer accepts:
///   gd        w -= lr G
///   momentum  a = m a + G; w -= lr a
///   adam      trainers/optim/adam.h
///   nadam     trainers/optim/nadam.h
///   onebit_adam, zero_one_adam  trainers/optim/onebit_adam.h
///   rmsprop   trainers/optim/rmsprop.h
std::vector<std::string> optimizer_names();
/// Creates an optimizer by name, its slots at their initial values. @param device  memory of the slots
/// @throws InvalidArgument for an unknown name
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, const OptimizerOptions& options,
                                          std::int64_t flat_elements, const Device& device = Device::cpu());

}  // namespace terngrad
