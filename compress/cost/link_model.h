// LinkModel: transfer times between the processes of a group.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/cost/spread.h"

namespace terngrad {

/// Link of a process to all others. A round, in which every process sends something to every other one, takes
/// latency + bytes / bandwidth, where `bytes` is the number that a process sends in it.
struct LinkModel {
  double latency_seconds = 0;
  double bytes_per_second = 0;  // > 0; infinite if size makes no difference

  double seconds(int rounds, double bytes) const { return rounds * latency_seconds + bytes / bytes_per_second; }
};

/// Link for exchanges that send nothing.
inline constexpr LinkModel kNoLink{0, std::numeric_limits<double>::infinity()};

/// Timed rounds of one message size.
struct LinkSample {
  double bytes = 0;    // sent by each process
  double seconds = 0;  // median over repetitions
  Spread spread = {};  // middle half of the repetitions; zeros if there was only one
};

/// Weighted least squares: latency a and seconds per byte b that minimize the sum of
/// (a + b bytes_i - seconds_i)^2 / seconds_i, so that short rounds determine the latency and long ones the bandwidth.
/// Short rounds may be several times faster than the link, whose buffers take some kilobytes at once: with errors
/// relative to the time, one such round would weigh as much as the longest one, and could double the bandwidth. A
/// negative latency becomes 0, and b is fitted alone; for b <= 0 the bandwidth is infinite, and a is fitted alone.
/// @throws InvalidArgument for fewer than two sizes, or a time that is not above 0
LinkModel fit_link(std::span<const LinkSample> samples);

/// Results of fit_link with the lower, and with the upper, ends of all spreads: bounds of the measured link.
struct LinkBounds {
  LinkModel fast;
  LinkModel slow;
};
/// Bounds of fit_link. @throws InvalidArgument as fit_link
LinkBounds fit_link_bounds(std::span<const LinkSample> samples);

/// Options of measure_link.
struct LinkMeasureOptions {
  std::int64_t max_bytes = std::int64_t{64} << 20;  // maximum sent by a process in a round
  double enough_seconds = 0.5;                      // stop after a round that takes this long
  int repetitions = 5;                              // per size, after one warm-up
};

/// Times all-gathers of growing size, with equal sizes in all processes: 1 KiB to each other process, then four times
/// more each time, until a round takes `enough_seconds` or would send more than `max_bytes`. A sample is the median
/// over repetitions of the slowest process's time, with the middle half. A collective call; all ranks get the same
/// samples.
/// @throws InvalidArgument for a group of one, or options out of range; CommunicationError
std::vector<LinkSample> measure_link(Communicator& communicator, const LinkMeasureOptions& options = {});

}  // namespace terngrad
