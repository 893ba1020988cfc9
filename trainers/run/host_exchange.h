// The exchange of gradients in host memory, with what workers keep and where its messages are dumped.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "compress/comm/communicator.h"
#include "compress/exchange/bucket_plan.h"

namespace terngrad {

class GradientExchange;
class Layout;
class MessageDump;
struct CompressedAllReduceOptions;

struct HostExchange {
  std::unique_ptr<GradientExchange> exchange;
  std::uint64_t plan_fingerprint = 0;  // of its codec plan
};

/// @param memory  what workers keep from step to step: a spec, as parse_memory takes it
/// @param dump    null, or where messages are written; outlived by the exchange
/// @throws InvalidArgument as the exchange does; UsageError where --exchange auto has chosen to add codes on their way,
/// without messages to dump
HostExchange make_host_exchange(const Layout& layout, const WorkerGroup& workers,
                                const CompressedAllReduceOptions& options, const Buckets& buckets,
                                const std::string& memory, const std::shared_ptr<MessageDump>& dump);

}  // namespace terngrad
