// Measures what the transport library's own all-reduce of a gradient takes, between the ranks of a group.
#pragma once

#include <limits>
#include <memory>
#include <span>
#include <string>

#include "compress/comm/communicator.h"
#include "compress/cost/exchange_cost.h"
#include "compress/cost/link_model.h"

namespace terngrad {

/// What to measure.
struct VendorProbeOptions {
  std::string codec = "fp32";  // of vendor_codec_names()
  int num_workers = 1;         // of all ranks
  int num_threads = 1;         // of this process
  int repetitions = 5;         // at most; what is measured is their median
  double enough_seconds = 10;  // no exchange is begun when those before took this long
  double beaten_seconds = std::numeric_limits<double>::infinity();  // as in ProbeOptions
};

/// Runs exchanges of VendorAllReduce and gives their time as the model of exchange_cost.h has it, by the slowest rank:
///
///   C = encode + decode,   V = w bandwidth,   R = 0
///
/// where w is the time that the library took. How often it moves a byte is its own affair, so V are the bytes that this
/// link moves in that time: on this link T is what was measured, and on others w changes as the bandwidth does. Where
/// the bandwidth is infinite w is a part of C (check_seconds), and V are 2 (P - 1) / P times the gradient's bytes, as
/// an all-reduce by shards has.
///
/// The first exchange does not count, unless it alone took enough_seconds. A collective call; all ranks get the same.
/// @param gradient  [layout.flat_elements()], of each local worker
/// @param link      between these ranks
/// @throws InvalidArgument for an unknown codec, repetitions below 1, or a gradient of another size
ExchangeCost probe_vendor(const std::shared_ptr<Communicator>& communicator, const Layout& layout,
                          std::span<const float> gradient, const LinkModel& link, const VendorProbeOptions& options);

}  // namespace terngrad
