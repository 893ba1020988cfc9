// ExchangeAlgorithm: how messages travel between workers.
#pragma once

#include <string>

#include "compress/route/downlink_codec.h"
#include "compress/route/shard_owners.h"

namespace terngrad {

class CodecPlan;
class Layout;

/// How messages travel. The mean has the same bits with all of them (contract B2).
enum class ExchangeAlgorithm {
  kAllGather,      // every worker gets every worker's message and aggregates it itself
  kScatterReduce,  // worker j aggregates shard j of N and sends the result to all
  kIntegerSum,     // codes are summed in packed lanes by an all-reduce (summable codecs); other tensors use all_gather
  kAuto,           // fewest bytes over a worker's link (compress/route/route.h), counting each worker as a process,
          // so that a run reports the same for any number of processes. With downlink codec sums: scatter_reduce, whose
          // downlink can be sums of codes
};

/// "all_gather", "scatter_reduce", "integer_sum", "auto".
std::string to_string(ExchangeAlgorithm algorithm);

/// Resolves kAuto; other algorithms are returned as they are. kAuto takes the algorithm with the fewest
/// busiest_worker_bytes; on a tie all_gather, which has the fewest rounds, then scatter_reduce. With t2 and only
/// summable tensors that is all_gather up to N = 3 and integer_sum above; with fp32, all_gather for N = 2 and
/// scatter_reduce above. With servers it is scatter_reduce, the only algorithm that supports them. A function of the
/// arguments alone, so all ranks choose the same.
/// @throws InvalidArgument for integer_sum if no tensor has a summable codec, and for algorithms that servers do not
/// support
ExchangeAlgorithm choose_algorithm(ExchangeAlgorithm asked, ShardOwners owners, DownlinkCodec downlink_codec,
                                   const Layout& layout, const CodecPlan& plan, int num_workers);

/// Algorithm of a part of an exchange if `asked` is requested for the whole. With integer_sum, tensors without summable
/// codes use all_gather, and a part may have only such tensors. @param part  some of the tensors of `whole`
ExchangeAlgorithm algorithm_of_part(ExchangeAlgorithm asked, const CodecPlan& whole, const CodecPlan& part);

}  // namespace terngrad
