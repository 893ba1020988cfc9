// Creates the strategy of a run in host memory from the options of terngrad_train.
#pragma once

#include <cstdint>
#include <memory>

#include "compress/comm/communicator.h"
#include "trainers/loop/served_parameters.h"
#include "trainers/loop/strategy.h"

namespace terngrad {

class MessageDump;
class Net;
struct TrainOptions;

/// The served parameters if servers update them; nullptr if the workers' replicas do.
std::unique_ptr<ServedParameters> make_served_parameters(const TrainOptions& o, const Net& net,
                                                         const WorkerGroup& workers, const Schedule& schedule);

/// A strategy and its fingerprint.
struct HostStrategy {
  std::unique_ptr<Strategy> strategy;
  std::uint64_t plan_fingerprint = 0;  // fingerprint of the codec plan, or of the layout without one
};

/// Inputs of make_host_strategy besides options.
struct HostStrategyContext {
  std::uint64_t run_id = 0;
  std::int64_t num_examples = 0;                // examples per epoch
  std::shared_ptr<MessageDump> dump = nullptr;  // dump of the first steps' messages; null for none
  ShardUpdate* update = nullptr;                // update of the shards that servers own; null for none
};

/// @throws UsageError for options that a component refuses
HostStrategy make_host_strategy(const TrainOptions& o, const Net& net, const WorkerGroup& workers,
                                const HostStrategyContext& context);

}  // namespace terngrad
