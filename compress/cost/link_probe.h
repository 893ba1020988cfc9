// Measures a whole exchange between the ranks of a group, whose time on the link no formula gives.
#pragma once

#include <limits>
#include <memory>
#include <span>
#include <string>

#include "compress/comm/communicator.h"
#include "compress/cost/exchange_cost.h"
#include "compress/cost/link_model.h"
#include "compress/exchange/all_reduce_options.h"

namespace terngrad {

/// Settings of a measurement.
struct LinkProbeOptions {
  std::string codec = "fp32";                // name in the result
  CompressedAllReduceOptions exchange = {};  // with vendor_type: by the MPI library
  int num_workers = 1;                       // over all ranks
  int workers_per_group = 1;                 // each group exchanges as one worker (compress/transport/grouped_peers.h)
  int repetitions = 5;                       // maximum; the result is their median
  double enough_seconds = 10;                // no further exchange begins after this total time
  double beaten_seconds = std::numeric_limits<double>::infinity();  // as in ProbeOptions
};

/// Runs exchanges by CompressedAllReduce and returns their time in the model of exchange_cost.h, for the slowest rank:
///
///   C = measure + encode + decode,   V = w bandwidth,   rounds = 0
///
/// where w is the rest of the time: in the library, or with groups sending and receiving within a group too. V is the
/// number of bytes that this link moves in that time: on this link T is the measured time, and on others w scales with
/// the bandwidth. If the bandwidth is infinite, w is a part of C (check_seconds), and V is moved_bytes: with
/// vendor_type 2 (P - 1) / P times the gradient's bytes, as in an all-reduce by shards, else those that a group
/// exchanges.
///
/// The first exchange is a warm-up, unless it alone took enough_seconds. A collective call; all ranks get the same
/// result.
/// @param gradient  [layout.flat_elements()], the same for each local worker
/// @param link      link between these ranks
/// @throws InvalidArgument for repetitions below 1, a gradient of another size, several groups on a rank, an exchange
/// without groups whose bytes can be counted, and as CompressedAllReduce and grouped_peers do
ExchangeCost probe_link(const std::shared_ptr<Communicator>& communicator, const Layout& layout,
                        std::span<const float> gradient, const LinkModel& link, const LinkProbeOptions& options);

}  // namespace terngrad
