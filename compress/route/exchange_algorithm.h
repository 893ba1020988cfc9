// The choice of an ExchangeAlgorithm.
#pragma once

#include "compress/plan/exchange_choices.h"
#include "compress/route/shard_owners.h"

namespace terngrad {

class CodecPlan;
class Layout;

/// Resolves kAuto; other algorithms are returned as they are. kAuto takes the algorithm with the fewest
/// busiest_worker_bytes; on a tie all_gather, which has the fewest rounds, then scatter_reduce. With t2 and only
/// summable tensors that is all_gather up to N = 3 and integer_sum above; with fp32, all_gather for N = 2 and
/// scatter_reduce above. With servers it is scatter_reduce, the only algorithm that supports them. A function of the
/// arguments alone, so all ranks choose the same.
/// @throws InvalidArgument as require_combination, for an algorithm that codecs or servers do not support
ExchangeAlgorithm choose_algorithm(ExchangeAlgorithm asked, ShardOwners owners, DownlinkCodec downlink_codec,
                                   const Layout& layout, const CodecPlan& plan, int num_workers);

/// Algorithm of a part of an exchange if `asked` is requested for the whole. With integer_sum, tensors without summable
/// codes use all_gather, and a part may have only such tensors. @param part  some of the tensors of `whole`
ExchangeAlgorithm algorithm_of_part(ExchangeAlgorithm asked, const CodecPlan& whole, const CodecPlan& part);

}  // namespace terngrad
