#include "trainers/run/strategy_factory.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "compress/comm/observed_communicator.h"
#include "compress/exchange/bucketed_all_reduce.h"
#include "compress/exchange/vendor_all_reduce.h"
#include "kernels/runtime/errors.h"
#include "nets/net.h"
#include "trainers/loop/floating_epochs.h"
#include "trainers/loop/message_dump.h"
#include "trainers/options/compression_option_checks.h"
#include "trainers/options/train_options.h"

namespace terngrad {
namespace {

/// The same workers, whose messages are written as they send them.
WorkerGroup with_dump(WorkerGroup workers, const std::shared_ptr<MessageDump>& dump) {
  if (dump == nullptr) return workers;
  workers.communicator = std::make_shared<ObservedCommunicator>(
      workers.communicator, [dump](std::span<const std::uint8_t> message) { dump->write(message); });
  return workers;
}

/// Tells the dump what the exchange's messages are of.
/// @throws UsageError where --exchange auto has chosen to add codes on their way, without messages
void describe_messages(const BucketedAllReduce& exchange, MessageDump& dump) {
  for (std::size_t bucket = 0; bucket < exchange.buckets().size(); ++bucket) {
    const CompressedAllReduce& part = exchange.exchange_of(bucket);
    if (part.algorithm() == ExchangeAlgorithm::kIntegerSum) {
      throw UsageError(
          "--dump_messages: --exchange auto is integer_sum here, which adds codes on their way, without messages; "
          "accepted with it: --exchange all_gather, scatter_reduce");
    }
    dump.add_layout(part.fingerprint(), part.layout(), part.plan());
  }
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
  served.is_rounded = o.downlink_codec == "bf16";
  served.num_threads = num_threads(o);
  return std::make_unique<ServedParameters>(net.layout(), workers, served);
}

HostStrategy make_host_strategy(const TrainOptions& o, const Net& net, const WorkerGroup& workers,
                                const HostStrategyContext& context) {
  const Layout& layout = net.layout();
  if (o.strategy_name() == "simple") return {make_simple_strategy(layout, on_nonfinite_of(o)), layout.fingerprint()};
  if (o.exchange == "vendor") {
    VendorAllReduceOptions vendor;
    vendor.type = vendor_element_type(o.codec_name());
    vendor.on_nonfinite = on_nonfinite_of(o);
    vendor.mean_factor = o.mean_factor();
    vendor.num_threads = num_threads(o);
    return {make_replicated_strategy(layout, std::make_unique<VendorAllReduce>(layout, workers, vendor)),
            layout.fingerprint()};
  }
  try {
    const Buckets buckets = exchange_buckets(o, layout, net.gradient_order());
    const auto in_buckets = [&](CompressedAllReduceOptions options) {
      options.update = context.update;
      auto exchange = std::make_unique<BucketedAllReduce>(layout, with_dump(workers, context.dump), options, buckets);
      if (context.dump != nullptr) describe_messages(*exchange, *context.dump);
      return exchange;
    };
    auto exchange = in_buckets(exchange_options(o, context.run_id, num_threads(o)));
    check_codec_plan(o, exchange->plan());
    const std::uint64_t plan_fingerprint = exchange->plan().fingerprint();
    auto compressed = make_replicated_strategy(layout, std::move(exchange));
    if (o.floating_grad_epoch == 0) return {std::move(compressed), plan_fingerprint};
    auto floating =
        make_replicated_strategy(layout, in_buckets(floating_exchange_options(o, context.run_id, num_threads(o))));
    auto both = make_floating_epochs_strategy(
        std::move(compressed), std::move(floating),
        [batch_size = o.batch_size, num_examples = context.num_examples, period = o.floating_grad_epoch](
            std::uint64_t step) { return is_floating_step(step, batch_size, num_examples, period); });
    return {std::move(both), plan_fingerprint};
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
}

}  // namespace terngrad
