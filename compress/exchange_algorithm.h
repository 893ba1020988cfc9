// ExchangeAlgorithm: how messages travel between workers.
#pragma once

#include <string>

#include "compress/codec_plan.h"
#include "compress/return_leg.h"
#include "kernels/layout.h"

namespace terngrad {

/// How messages travel. The mean has the same bits with all of them (contract B2).
enum class ExchangeAlgorithm {
  kAllGather,      // every worker gets every worker's message and aggregates for itself
  kScatterReduce,  // worker j aggregates share j of N and sends the result back to all
  kIntegerSum,     // lanes of codes are added on the way (summable codecs); other tensors go by all-gather
  kAuto,           // the one of the first two that a worker receives fewer bytes with, whatever rank it is on: so that
                   // what a run reports does not depend on how many there are. With return codec sums
                   // scatter_reduce: the one whose return leg can be sums of codes
};

/// "all_gather", "scatter_reduce", "integer_sum", "auto".
std::string to_string(ExchangeAlgorithm algorithm);

/// The algorithm in use where `asked` is asked for: kAuto is resolved, all others stay what they are. With kAuto the
/// bytes that one of N workers receives are compared: (N - 1) whole messages for all_gather; (N - 1) shares and (N - 1)
/// aggregated shares, those of 32 bits an element, for scatter_reduce.
/// @throws InvalidArgument for integer_sum where no tensor has a codec that is summable
ExchangeAlgorithm choose_algorithm(ExchangeAlgorithm asked, ReturnCodec return_codec, const Layout& layout,
                                   const CodecPlan& plan, int num_workers);

}  // namespace terngrad
