// Creates the components of a run from the options of terngrad_train.
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

class Mailbox;
class MessageDump;
class Trace;
class Trainer;
struct ExchangePeers;
struct GpuPeers;
struct TrainOptions;

/// A run that is ready to start or to be restored from a checkpoint.
struct TrainSetup {
  std::unique_ptr<Trainer> trainer;  // nullptr if run_workers is set
  /// Set with --strategy async on ranks with workers; see AsyncSetup::run_workers.
  std::function<void(const std::function<bool()>& asks_to_stop)> run_workers;
  std::shared_ptr<const Dataset> test_set;  // nullptr in benchmark mode
  TrainDevices devices;                     // devices that compute the run
  std::string data_summary;                 // human-readable; see the function data_summary
  std::vector<std::string> notes;           // human-readable remarks about devices and options
  std::function<std::string()> conclusion;  // human-readable summary after the run; may be empty
  RunIdentity identity;                     // values that a checkpoint must share to be resumed
  CheckpointState state;                    // state of step 0
};

/// The ranks, data and devices of a run.
struct RunContext {
  std::shared_ptr<Communicator> communicator = make_self_communicator();  // connects its ranks
  /// Unique id of the run, equal on all ranks: messages of other runs are refused.
  std::uint64_t run_id = 0;
  Trace* trace = nullptr;                       // trace of its steps; nullptr for none
  std::shared_ptr<MessageDump> dump = nullptr;  // dump of its first steps' messages; null for none
  TrainingData data = {};  // if already opened, such as shards after join_shards; else opened later
  /// Connects its ranks with --strategy async; nullptr for one rank.
  std::shared_ptr<Mailbox> mailbox = nullptr;
  /// Devices of this process, and the connections of its GPUs.
  TrainDevices devices = {};
  std::shared_ptr<const std::vector<GpuPeers>> gpus = nullptr;
  /// The groups of its workers, who exchange in host memory; null without --workers_per_group.
  std::shared_ptr<const ExchangePeers> groups = nullptr;
};

/// Collective: chooses devices, and connects the GPUs of all ranks.
/// @throws UsageError as devices_of, CommunicationError
RunContext make_run_context(const TrainOptions& o, std::shared_ptr<Communicator> communicator, std::uint64_t run_id);

/// Opens the data, and creates net, exchange, optimizer and trainer. Not collective.
/// @throws UsageError for options that these components refuse, and for a run that needs more host memory than there is
/// (require_memory); DataError for missing or damaged files, or a test set whose images or classes do not match the
/// training set; Error "out of memory while ..."
TrainSetup make_train_setup(const TrainOptions& o, const RunContext& context);
/// The same for a run of a single process.
TrainSetup make_train_setup(const TrainOptions& o);

}  // namespace terngrad
