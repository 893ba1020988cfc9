// What asynchronous training is put together from, by the options of terngrad_train.
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

struct AsyncSetupParts {
  std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<Mailbox> mailbox;  // between the ranks; nullptr alone
  std::uint64_t run_id = 0;
  /// Nets of one worker, by its number; the second one computes no gradients.
  std::function<std::unique_ptr<Net>(int worker)> make_worker_net;
  std::function<std::unique_ptr<Net>()> make_evaluation_net;
  std::function<std::vector<std::unique_ptr<GradientTransform>>(const Net&)> make_transforms;
  Schedule schedule;
  TrainerOptions trainer;
  int threads_per_worker = 1;
};

/// One of the two: the chief serves, other ranks have workers. Alone, the chief has all of them.
struct AsyncSetup {
  std::unique_ptr<Trainer> trainer;
  /// Runs this rank's workers until the server says stop. @param asks_to_stop  as AsyncRank::run
  std::function<void(const std::function<bool()>& asks_to_stop)> run_workers;
  std::uint64_t plan_fingerprint = 0;
  std::string note;                         // human-readable: who does what
  std::function<std::string()> conclusion;  // of the chief, human-readable, when the run has ended
};

/// @throws InvalidArgument, UsageError for options that a part refuses
AsyncSetup make_async_setup(const TrainOptions& o, const AsyncSetupParts& parts);

}  // namespace terngrad
