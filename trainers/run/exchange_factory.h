// Creates the exchanges of a run from the options of terngrad_train.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compress/comm/communicator.h"
#include "trainers/loop/served_parameters.h"

namespace terngrad {

class CompressedAllReduce;
class Layout;
class MessageDump;
class Net;
class ShardUpdate;
class Stream;
struct ExchangePeers;
struct TrainOptions;
struct TrainerParts;

/// The exchanges of a run, on the CPU or a GPU, by the index of exchange_of_steps: that of compressed steps, then that
/// of floating steps if there are any.
/// @param run_id  equal on all ranks; @param update  update of servers, or null
/// @throws UsageError if the codec would compress no tensor; InvalidArgument, NotSupported as CompressedAllReduce
std::vector<std::unique_ptr<CompressedAllReduce>> make_exchanges(const TrainOptions& o, const Layout& layout,
                                                                 const ExchangePeers& peers, const Stream& stream,
                                                                 std::uint64_t run_id, ShardUpdate* update = nullptr);

/// The served parameters if servers update them; nullptr if the workers' replicas do.
std::unique_ptr<ServedParameters> make_served_parameters(const TrainOptions& o, const Net& net,
                                                         const WorkerGroup& workers, const Schedule& schedule);

/// Inputs of add_host_exchanges besides options.
struct HostExchangeContext {
  std::uint64_t run_id = 0;
  std::int64_t num_examples = 0;                          // examples per epoch
  std::shared_ptr<MessageDump> dump = nullptr;            // dump of the first steps' messages; null for none
  std::shared_ptr<const ExchangePeers> groups = nullptr;  // groups of the workers; null: each exchanges for itself
};

/// Adds to `parts` the exchange of compressed steps, that of floating steps if there are any, and the buckets of each
/// step, between `parts.workers`.
/// @returns the fingerprint of the first codec plan, or of the layout without compression
/// @throws UsageError for options that a component refuses, and for a dump of messages where --exchange auto is
/// integer_sum, which sends none
std::uint64_t add_host_exchanges(const TrainOptions& o, const HostExchangeContext& context, TrainerParts& parts);

}  // namespace terngrad
