// Measures the MPI library's own all-reduce of a gradient, between the ranks of a group.
#pragma once

#include <limits>
#include <memory>
#include <span>
#include <string>

#include "compress/comm/communicator.h"
#include "compress/cost/exchange_cost.h"
#include "compress/cost/link_model.h"

namespace terngrad {

/// Settings of a measurement.
struct VendorProbeOptions {
  std::string codec = "fp32";                                       // one of vendor_codec_names()
  int num_workers = 1;                                              // over all ranks
  int num_threads = 1;                                              // threads of this process
  int repetitions = 5;                                              // maximum; the result is their median
  double enough_seconds = 10;                                       // no further exchange begins after this total time
  double beaten_seconds = std::numeric_limits<double>::infinity();  // as in ProbeOptions
};

/// Runs exchanges by VendorRound and returns their time in the model of exchange_cost.h, for the slowest rank:
///
///   C = encode + decode,   V = w bandwidth,   rounds = 0
///
/// where w is the time spent in the library. How many bytes the library moves is unknown, so V is the number of bytes
/// that this link moves in that time: on this link T is the measured time, and on others w scales with the bandwidth.
/// If the bandwidth is infinite, w is a part of C (check_seconds), and V is 2 (P - 1) / P times the gradient's bytes,
/// as in an all-reduce by shards.
///
/// The first exchange is a warm-up, unless it alone took enough_seconds. A collective call; all ranks get the same
/// result.
/// @param gradient  [layout.flat_elements()], the same for each local worker
/// @param link      link between these ranks
/// @throws InvalidArgument for an unknown codec, repetitions below 1, or a gradient of another size
ExchangeCost probe_vendor(const std::shared_ptr<Communicator>& communicator, const Layout& layout,
                          std::span<const float> gradient, const LinkModel& link, const VendorProbeOptions& options);

}  // namespace terngrad
