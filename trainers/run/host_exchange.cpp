#include "trainers/run/host_exchange.h"

#include <cstddef>
#include <span>

#include "compress/comm/observed_communicator.h"
#include "compress/exchange/memory_all_reduce.h"
#include "compress/exchange/round.h"
#include "kernels/runtime/errors.h"
#include "trainers/loop/message_dump.h"

namespace terngrad {
namespace {

/// The same group with a communicator that dumps all sent messages.
WorkerGroup with_dump(WorkerGroup workers, const std::shared_ptr<MessageDump>& dump) {
  if (dump == nullptr) return workers;
  workers.communicator = std::make_shared<ObservedCommunicator>(
      workers.communicator, [dump](std::span<const std::uint8_t> message) { dump->write(message); });
  return workers;
}

/// Registers the layouts of the exchange's messages with the dump.
/// @throws UsageError if --exchange auto chose integer_sum, which sends no messages
void describe_messages(const BucketedAllReduce& exchange, MessageDump& dump) {
  for (std::size_t bucket = 0; bucket < exchange.buckets().size(); ++bucket) {
    for (const Round* round : exchange.exchange_of(bucket).rounds()) {
      if (!round->route().lanes.empty()) {
        throw UsageError(
            "--dump_messages: --exchange auto is integer_sum here, which adds codes on their way, without messages; "
            "accepted with it: --exchange all_gather, scatter_reduce");
      }
      dump.add_layout(round->fingerprint(), round->layout(), round->plan());
    }
  }
}

}  // namespace

HostExchange make_host_exchange(const Layout& layout, const WorkerGroup& workers,
                                const CompressedAllReduceOptions& options, const Buckets& buckets,
                                const std::string& memory, const std::shared_ptr<MessageDump>& dump) {
  HostExchange made;
  const auto describe = [&](const BucketedAllReduce& exchange) {
    if (dump != nullptr) describe_messages(exchange, *dump);
    made.plan_fingerprint = exchange.plan().fingerprint();
  };
  const WorkerGroup group = with_dump(workers, dump);
  const MemoryOptions kept = parse_memory(memory);
  if (kept.kind == MemoryKind::kNone) {
    auto exchange = std::make_unique<BucketedAllReduce>(layout, group, options, buckets);
    describe(*exchange);
    made.exchange = std::move(exchange);
  } else {
    auto exchange = std::make_unique<MemoryAllReduce>(layout, group, options, buckets, kept);
    describe(exchange->all_reduce());
    made.exchange = std::move(exchange);
  }
  return made;
}

}  // namespace terngrad
