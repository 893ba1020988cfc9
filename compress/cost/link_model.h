// LinkModel: how long messages between the processes of a group take.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/cost/spread.h"

namespace terngrad {

/// A process's way to all others: a round, in which every process sends something to every other one, takes
/// latency + bytes / bandwidth, where `bytes` are those that a process sends in it.
struct LinkModel {
  double latency_seconds = 0;
  double bytes_per_second = 0;  // above 0; infinite where size makes no difference

  double seconds(int rounds, double bytes) const { return rounds * latency_seconds + bytes / bytes_per_second; }
};

/// Where nothing is sent.
inline constexpr LinkModel kNoLink{0, std::numeric_limits<double>::infinity()};

/// Timed rounds of one size.
struct LinkSample {
  double bytes = 0;  // that a process sent
  double seconds = 0;
  Spread spread = {};  // of the repetitions whose median `seconds` is; zeros if there was one only
};

/// Weighted least squares: latency a and seconds per byte b that minimize the sum of
/// (a + b bytes_i - seconds_i)^2 / seconds_i, so that short rounds tell the latency and long ones the bandwidth. Short
/// rounds may be several times as fast as the link, which lets some kilobytes pass at once: if errors counted relative
/// to the time, one such round would weigh as much as the longest, and double the bandwidth. A negative latency becomes
/// 0, and b is fitted alone; b <= 0 is an infinite bandwidth, and a is fitted alone.
/// @throws InvalidArgument for fewer than two sizes, or a time that is not above 0
LinkModel fit_link(std::span<const LinkSample> samples);

/// What fit_link gives where every round takes the lower, and the upper, end of its spread: between these links the
/// measured one lies.
struct LinkBounds {
  LinkModel fast;
  LinkModel slow;
};
/// @throws InvalidArgument as fit_link
LinkBounds fit_link_bounds(std::span<const LinkSample> samples);

struct LinkMeasureOptions {
  std::int64_t max_bytes = std::int64_t{64} << 20;  // that a process sends in a round
  double enough_seconds = 0.5;                      // no longer round is tried
  int repetitions = 5;                              // of each size, after one that does not count
};

/// Times all-gathers of growing size, each process sending the same: 1 KiB to each other one, then four times more each
/// time until a round takes `enough_seconds` or sends more than `max_bytes`. A sample is the median over the
/// repetitions of the time of the slowest process, with their middle half. A collective call; all ranks get the same
/// samples.
/// @throws InvalidArgument for a group of one, or options out of range; CommunicationError
std::vector<LinkSample> measure_link(Communicator& communicator, const LinkMeasureOptions& options = {});

}  // namespace terngrad
