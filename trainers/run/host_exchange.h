// Creates the exchange of gradients in host memory, with the workers' memory and a message dump.
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

/// An exchange and the fingerprint of its codec plan.
struct HostExchange {
  std::unique_ptr<GradientExchange> exchange;
  std::uint64_t plan_fingerprint = 0;  // fingerprint of its codec plan
};

/// @param memory  spec of the workers' memory, for parse_memory
/// @param dump    writes the messages; null for none
/// @throws InvalidArgument as the exchange does; UsageError if there are no messages to dump, as auto chose integer_sum
HostExchange make_host_exchange(const Layout& layout, const WorkerGroup& workers,
                                const CompressedAllReduceOptions& options, const Buckets& buckets,
                                const std::string& memory, const std::shared_ptr<MessageDump>& dump);

}  // namespace terngrad
