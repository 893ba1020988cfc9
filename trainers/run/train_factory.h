// What terngrad_train is put together from, by its options.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compress/comm/communicator.h"
#include "trainers/checkpoint/checkpoint.h"
#include "trainers/loop/training_data.h"
#include "trainers/options/train_devices.h"

namespace terngrad {

class DeviceCommunicator;
class Mailbox;
class MessageDump;
class Trace;
class Trainer;
struct TrainOptions;

/// A run that is ready to start or to be restored.
struct TrainSetup {
  std::unique_ptr<Trainer> trainer;  // nullptr where run_workers is set
  /// Of --strategy async, on ranks with workers: as AsyncSetup::run_workers.
  std::function<void(const std::function<bool()>& asks_to_stop)> run_workers;
  std::shared_ptr<const Dataset> test_set;  // nullptr in benchmark mode
  TrainDevices devices;                     // where it computes
  std::string data_summary;                 // human-readable: see data_summary
  std::vector<std::string> notes;           // human-readable: what was found out about the devices
  std::function<std::string()> conclusion;  // human-readable, when the run has ended; may be empty
  RunIdentity identity;                     // what a checkpoint must agree in to be resumed from
  CheckpointState state;                    // of step 0
};

/// What a run is connected to: ranks, data, devices.
struct RunContext {
  std::shared_ptr<Communicator> communicator = make_self_communicator();  // between its ranks
  /// Of this run alone, the same on all ranks: messages of another one are refused. Those of one process reach no
  /// other.
  std::uint64_t run_id = 0;
  Trace* trace = nullptr;                       // of its steps, where one is kept
  std::shared_ptr<MessageDump> dump = nullptr;  // of the messages of its first steps, where one is asked for
  TrainingData data = {};  // opened before, where a shard of it has to be agreed on; else it is opened
  /// Between its ranks, with --strategy async; nullptr for one rank.
  std::shared_ptr<Mailbox> mailbox = nullptr;
  /// Where it computes, and of GPUs their places among those of all ranks.
  TrainDevices devices = {};
  std::vector<std::shared_ptr<DeviceCommunicator>> gpu_communicators = {};
};

/// Chooses devices, and connects GPUs with those of all ranks; a collective call.
/// @throws UsageError as devices_of, CommunicationError
RunContext make_run_context(const TrainOptions& o, std::shared_ptr<Communicator> communicator, std::uint64_t run_id);

/// Opens the data, and makes net, exchange, optimizer and trainer. Waits for no other rank.
/// @throws UsageError for options that these parts refuse, and for a run in host memory that needs more of it than
/// there is (require_memory); DataError for missing or damaged files, and for a test set whose images or classes are
/// not those of the training set; Error that says what there was no memory for
TrainSetup make_train_setup(const TrainOptions& o, const RunContext& context);
/// The same for a run of this process alone.
TrainSetup make_train_setup(const TrainOptions& o);

}  // namespace terngrad
