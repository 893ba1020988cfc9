#include "trainers/run/exchange_factory.h"

#include <span>
#include <string>
#include <utility>

#include "compress/comm/observed_communicator.h"
#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "kernels/runtime/errors.h"
#include "nets/net.h"
#include "trainers/loop/host_trainer.h"
#include "trainers/loop/message_dump.h"
#include "trainers/options/compression_option_checks.h"
#include "trainers/options/gradient_handling.h"
#include "trainers/options/train_options.h"

namespace terngrad {
namespace {

/// The same group with a communicator that dumps all sent messages.
WorkerGroup with_dump(WorkerGroup workers, const std::shared_ptr<MessageDump>& dump) {
  if (dump == nullptr) return workers;
  workers.communicator = std::make_shared<ObservedCommunicator>(
      workers.communicator, [dump](std::span<const std::uint8_t> message) { dump->write(message); });
  return workers;
}

}  // namespace

std::unique_ptr<ServedParameters> make_served_parameters(const TrainOptions& o, const Net& net,
                                                         const WorkerGroup& workers, const Schedule& schedule) {
  if (!o.pulls_parameters()) return nullptr;
  ServedParametersOptions served;
  served.make_optimizer = [name = o.optimizer, momentum = o.momentum](std::int64_t num_elements) {
    return make_optimizer(name, {.momentum = momentum}, num_elements);
  };
  served.schedule = schedule;
  served.mean_factor = o.mean_factor();
  served.is_rounded = o.downlink_codec == DownlinkCodec::kBfloat16;
  served.num_threads = num_threads(o);
  return std::make_unique<ServedParameters>(net.layout(), workers, served);
}

std::vector<std::unique_ptr<CompressedAllReduce>> make_exchanges(const TrainOptions& o, const Layout& layout,
                                                                 const ExchangePeers& peers, const Stream& stream,
                                                                 std::uint64_t run_id, ShardUpdate* update) {
  std::vector<std::unique_ptr<CompressedAllReduce>> exchanges;
  const auto add = [&](CompressedAllReduceOptions options, const std::string& memory) {
    options.update = update;
    exchanges.push_back(std::make_unique<CompressedAllReduce>(layout, peers, options, stream, parse_memory(memory)));
  };
  add(exchange_options(o, run_id, num_threads(o)), o.encodes_gradients() ? memory_spec(o) : "none");
  if (o.encodes_gradients()) check_codec_plan(o, exchanges[0]->plan());
  if (o.has_floating_steps()) add(floating_exchange_options(o, run_id, num_threads(o)), "none");
  return exchanges;
}

std::uint64_t add_host_exchanges(const TrainOptions& o, const HostExchangeContext& context, TrainerParts& parts) {
  const Layout& layout = parts.net->layout();
  const ExchangePeers peers = context.groups != nullptr ? *context.groups : with_dump(parts.workers, context.dump);
  parts.buckets = exchange_buckets(o, layout, parts.net->gradient_order());
  parts.exchange_of = exchange_of_steps(o, context.num_examples);
  try {
    parts.exchanges =
        make_exchanges(o, layout, peers, Stream(Device::cpu(), num_threads(o)), context.run_id, parts.served.get());
    for (const auto& exchange : parts.exchanges) {
      // Now rather than in the first step, for its memory and what it refuses.
      for (const std::vector<int>& bucket : parts.buckets) exchange->part(bucket);
      if (context.dump != nullptr) context.dump->add_layouts(*exchange, parts.buckets);
    }
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
  return o.encodes_gradients() ? parts.exchanges[0]->plan().fingerprint() : layout.fingerprint();
}

}  // namespace terngrad
