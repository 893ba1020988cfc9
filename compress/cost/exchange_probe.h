// Measures the cost of an exchange for one process, without communication.
#pragma once

#include <limits>
#include <string>

#include "compress/cost/exchange_cost.h"
#include "compress/exchange/all_reduce_options.h"

namespace terngrad {

/// Settings of a measurement.
struct ProbeOptions {
  std::string codec = {};                    // name in the result
  CompressedAllReduceOptions exchange = {};  // algorithm must not be auto; downlink codec must be fp32
  ExchangeWorld world = {};
  int repetitions = 5;  // after one warm-up; the result is their median
  /// Measuring stops early if each of the first samples, on `link`, takes longer than this (ProbeSamples::are_beaten).
  double beaten_seconds = std::numeric_limits<double>::infinity();
  LinkModel link = kNoLink;
};

/// Runs and times the steps of CompressedAllReduce for a process of `world` with the most workers, without the transfer
/// of messages (compress/cost/recorded_peers.h), on this machine with exchange.num_threads threads. Each of the
/// process's workers measures and encodes a gradient; the messages of all workers are checked, parsed and aggregated to
/// the mean. Other workers' messages are encoded from the same gradient with their own draws, by running each process
/// of `world` up to its sends; while this is done, the messages between all processes are in memory. For low-rank
/// tensors (compress/exchange/low_rank_round.h) bytes and rounds of both exchanges are added.
/// @param gradient  [layout.flat_elements()]
/// @throws InvalidArgument for another algorithm or downlink codec, repetitions < 1, or a gradient of another size
ExchangeCost probe_exchange(const Layout& layout, std::span<const float> gradient, const ProbeOptions& options);

/// Measures on every rank of a group at the same time, as in a real exchange; a collective call. All ranks get the
/// times of the slowest rank per repetition.
ExchangeCost probe_on_all_ranks(Communicator& communicator, const Layout& layout, std::span<const float> gradient,
                                const ProbeOptions& options);

/// The algorithm of these options, with auto resolved. @throws InvalidArgument as CompressedAllReduce
ExchangeAlgorithm algorithm_in_use(const Layout& layout, int num_workers, const CompressedAllReduceOptions& options);

}  // namespace terngrad
