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

/// Does what CompressedAllReduce does in a step in a process of `world` with the most workers, except for the messages'
/// way, and times it on this machine with exchange.num_threads threads: measures and encodes a gradient for each of the
/// process's workers, checks and takes apart the messages that all workers would send it, and aggregates them to the
/// mean. Other workers' messages are encoded from the same gradient with their own draws. Memory is that of a process
/// of the run, without its gradients: this one and the mean in fp32, and all messages that it gets.
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
