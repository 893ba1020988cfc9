#include "compress/cost/link_model.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>

#include "compress/comm/all_gather_doubles.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr std::int64_t kFirstBytes = 1024;  // to each other process
constexpr std::int64_t kGrowth = 4;

/// Seconds of one all-gather on the slowest rank; the same on all ranks.
double time_round(Communicator& communicator, std::span<const std::uint8_t> bytes, Parcels& mine, Parcels& all) {
  mine.clear();
  mine.append(bytes);
  communicator.barrier();
  const auto begin = std::chrono::steady_clock::now();
  communicator.all_gather(mine, all);
  const std::array own = {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
  return max_over_ranks(communicator, own)[0];
}

}  // namespace

LinkModel fit_link(std::span<const LinkSample> samples) {
  // Weighted sums with w = 1 / t of powers of bytes (b) and seconds (t).
  double w = 0, wb = 0, wbb = 0, wt = 0, wbt = 0;
  for (const LinkSample& sample : samples) {
    TERNGRAD_REQUIRE(sample.seconds > 0 && sample.bytes >= 0, "[fit_link] a round of ", sample.bytes, " bytes took ",
                     sample.seconds, " seconds");
    const double weight = 1 / sample.seconds;
    w += weight;
    wb += weight * sample.bytes;
    wbb += weight * sample.bytes * sample.bytes;
    wt += weight * sample.seconds;
    wbt += weight * sample.bytes * sample.seconds;
  }
  const auto differs = [&](const LinkSample& sample) { return sample.bytes != samples[0].bytes; };
  TERNGRAD_REQUIRE(std::ranges::any_of(samples, differs), "[fit_link] needs rounds of at least two sizes");
  const double determinant = w * wbb - wb * wb;  // > 0, since sizes differ
  const double seconds_per_byte = (w * wbt - wb * wt) / determinant;
  if (!(seconds_per_byte > 0)) return {wt / w, std::numeric_limits<double>::infinity()};
  const double latency = (wt - seconds_per_byte * wb) / w;
  if (latency < 0) return {0, wbb / wbt};
  return {latency, 1 / seconds_per_byte};
}

LinkBounds fit_link_bounds(std::span<const LinkSample> samples) {
  std::vector<LinkSample> fast(samples.begin(), samples.end());
  std::vector<LinkSample> slow = fast;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Spread& spread = samples[i].spread;
    if (spread == Spread{}) continue;
    fast[i].seconds = spread.low;
    slow[i].seconds = spread.high;
  }
  return {fit_link(fast), fit_link(slow)};
}

std::vector<LinkSample> measure_link(Communicator& communicator, const LinkMeasureOptions& options) {
  TERNGRAD_REQUIRE(communicator.size() > 1, "[measure_link] a process alone has no link");
  TERNGRAD_REQUIRE(options.repetitions >= 1 && options.enough_seconds > 0,
                   "[measure_link] needs a repetition or more and some time, got ", options.repetitions, " and ",
                   options.enough_seconds, " seconds");
  const std::int64_t num_others = communicator.size() - 1;
  TERNGRAD_REQUIRE(options.max_bytes >= kFirstBytes * kGrowth * num_others, "[measure_link] needs ",
                   kFirstBytes * kGrowth * num_others, " bytes for two sizes, got ", options.max_bytes);
  std::vector<LinkSample> samples;
  std::vector<std::uint8_t> bytes;
  Parcels mine;
  Parcels all;
  for (std::int64_t size = kFirstBytes; size * num_others <= options.max_bytes; size *= kGrowth) {
    bytes.resize(static_cast<std::size_t>(size));
    const double first = time_round(communicator, bytes, mine, all);
    std::vector<double> seconds(static_cast<std::size_t>(options.repetitions));
    for (double& each : seconds) each = time_round(communicator, bytes, mine, all);
    const double middle = median_of(seconds);
    samples.push_back({static_cast<double>(size * num_others), middle, {}});
    if (seconds.size() > 1) samples.back().spread = middle_half(seconds);
    // All ranks have the same times, so all stop here.
    if (samples.size() >= 2 && std::max(first, middle) * kGrowth > options.enough_seconds) break;
  }
  return samples;
}

}  // namespace terngrad
