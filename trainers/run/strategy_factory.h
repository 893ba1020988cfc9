// How the gradients of a run in host memory are combined, by the options of terngrad_train.
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

/// What servers hold that update the parameters; nullptr if the workers' replicas do.
std::unique_ptr<ServedParameters> make_served_parameters(const TrainOptions& o, const Net& net,
                                                         const WorkerGroup& workers, const Schedule& schedule);

struct HostStrategy {
  std::unique_ptr<Strategy> strategy;
  std::uint64_t plan_fingerprint = 0;  // of the codec plan, or of the layout where there is none
};

/// What a strategy needs besides options.
struct HostStrategyContext {
  std::uint64_t run_id = 0;
  std::int64_t num_examples = 0;                // of an epoch
  std::shared_ptr<MessageDump> dump = nullptr;  // of the messages of the first steps, where one is asked for
  ShardUpdate* update = nullptr;                // of the shards that servers own
};

/// @throws UsageError for options that a part refuses
HostStrategy make_host_strategy(const TrainOptions& o, const Net& net, const WorkerGroup& workers,
                                const HostStrategyContext& context);

}  // namespace terngrad
