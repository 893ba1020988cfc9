// ExchangeAlgorithm: how messages travel between workers.
#pragma once

#include <string>

#include "compress/exchange/downlink_codec.h"
#include "compress/exchange/shard_owners.h"

namespace terngrad {

class CodecPlan;
class Layout;

/// How messages travel. The mean has the same bits with all of them (contract B2).
enum class ExchangeAlgorithm {
  kAllGather,      // every worker gets every worker's message and aggregates for itself
  kScatterReduce,  // worker j aggregates shard j of N and sends the result back to all
  kIntegerSum,     // lanes of codes are added on the way (summable codecs); other tensors go by all-gather
  kAuto,  // the one that moves the fewest bytes over a worker's link (compress/exchange/exchange_bytes.h), each worker
          // taken as its own process: so that what a run reports does not depend on how many there are.
          // With downlink codec sums scatter_reduce: the one whose downlink can be sums of codes
};

/// "all_gather", "scatter_reduce", "integer_sum", "auto".
std::string to_string(ExchangeAlgorithm algorithm);

/// The algorithm in use where `asked` is asked for: kAuto is resolved, all others stay what they are. With kAuto that
/// of the least busiest_worker_bytes; of equals all_gather, which has the fewest rounds, then scatter_reduce. With t2
/// and every tensor summable that is all_gather up to N = 3 and integer_sum above; with fp32, all_gather of two workers
/// and scatter_reduce above. A function of its arguments alone, so all ranks choose the same.
/// With servers scatter_reduce, the only one that they can do.
/// @throws InvalidArgument for integer_sum where no tensor has a codec that is summable, and for what servers cannot do
ExchangeAlgorithm choose_algorithm(ExchangeAlgorithm asked, ShardOwners owners, DownlinkCodec downlink_codec,
                                   const Layout& layout, const CodecPlan& plan, int num_workers);

/// What a part of an exchange does of the algorithm that was asked for: with integer_sum, tensors that do not add up as
/// integers go by all-gather, and a part may have no others. @param part  some of the tensors of `whole`
ExchangeAlgorithm algorithm_of_part(ExchangeAlgorithm asked, const CodecPlan& whole, const CodecPlan& part);

}  // namespace terngrad
