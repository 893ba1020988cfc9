// Measures what an exchange costs a process, without one.
#pragma once

#include <limits>
#include <string>

#include "compress/cost/exchange_cost.h"
#include "compress/exchange/all_reduce_options.h"

namespace terngrad {

/// What to measure.
struct ProbeOptions {
  std::string codec = {};                    // name in the result
  CompressedAllReduceOptions exchange = {};  // its algorithm is not auto; downlink codec fp32
  ExchangeWorld world = {};
  int repetitions = 5;  // after one that does not count; what is measured is their median
  /// An exchange that on `link` takes longer than this in each of its first samples is not measured any further
  /// (ProbeSamples::are_beaten).
  double beaten_seconds = std::numeric_limits<double>::infinity();
  LinkModel link = kNoLink;
};

/// Runs the steps of CompressedAllReduce in a process of `world` with the most workers, except for the messages' way
/// (compress/cost/recorded_peers.h), and times them on this machine with exchange.num_threads threads: each of the
/// process's workers measures and encodes a gradient; messages that all workers would send are checked, taken apart and
/// aggregated to the mean. Other workers' messages are encoded from the same gradient with their own draws, by running
/// each process of `world` up to what it sends; until then there are the messages of all processes to all others. Of
/// tensors of low rank (compress/exchange/low_rank_all_reduce.h) both exchanges count, bytes and rounds together.
/// @param gradient  [layout.flat_elements()]
/// @throws InvalidArgument for another algorithm or downlink codec, repetitions below 1, or a gradient of another size
ExchangeCost probe_exchange(const Layout& layout, std::span<const float> gradient, const ProbeOptions& options);

/// The same on every rank of a group at the same time, as they work in an exchange; a collective call. All get the
/// times of the slowest rank in each repetition.
ExchangeCost probe_on_all_ranks(Communicator& communicator, const Layout& layout, std::span<const float> gradient,
                                const ProbeOptions& options);

/// What the algorithm of these options is, auto resolved. @throws InvalidArgument as CompressedAllReduce
ExchangeAlgorithm algorithm_in_use(const Layout& layout, int num_workers, const CompressedAllReduceOptions& options);

}  // namespace terngrad
