// Creates the components of asynchronous training from the options of terngrad_train.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compress/comm/mailbox.h"
#include "datasets/dataset.h"
#include "trainers/loop/trainer_options.h"
#include "trainers/optim/schedule.h"

namespace terngrad {

class GradientTransform;
class Net;
class Trainer;
struct TrainOptions;

/// Inputs of make_async_setup besides options.
struct AsyncSetupParts {
  std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<Mailbox> mailbox;  // connects the ranks; nullptr for one process
  std::uint64_t run_id = 0;
  /// Creates the net of a worker by its global number.
  std::function<std::unique_ptr<Net>(int worker)> make_worker_net;
  /// Creates a net that computes no gradients: for the layout, and on the server for evaluation.
  std::function<std::unique_ptr<Net>()> make_evaluation_net;
  std::function<std::vector<std::unique_ptr<GradientTransform>>(const Net&)> make_transforms;
  Schedule schedule;
  TrainerOptions trainer;
  int threads_per_worker = 1;
};

/// Either `trainer` or `run_workers` is set: the chief serves, other ranks have workers. A single process has all
/// workers in its trainer.
struct AsyncSetup {
  std::unique_ptr<Trainer> trainer;
  /// Runs this rank's workers until the server says stop. @param asks_to_stop  see AsyncRank::run
  std::function<void(const std::function<bool()>& asks_to_stop)> run_workers;
  std::uint64_t plan_fingerprint = 0;
  std::string note;                         // human-readable: the tasks of the ranks
  std::function<std::string()> conclusion;  // human-readable summary after the run; set on the chief
};

/// @throws InvalidArgument, UsageError for options that a component refuses
AsyncSetup make_async_setup(const TrainOptions& o, const AsyncSetupParts& parts);

}  // namespace terngrad
