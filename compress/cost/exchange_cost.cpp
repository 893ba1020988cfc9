#include "compress/cost/exchange_cost.h"

#include <algorithm>
#include <numeric>

#include "compress/route/wire_bytes.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/worker_tree.h"

namespace terngrad {

namespace {

/// Bytes that a process sends and receives in a round.
struct RoundBytes {
  std::int64_t sent = 0;
  std::int64_t received = 0;
};

/// The workers of a process, and their number of subtrees.
struct ProcessWorkers {
  WorkerRange range;
  std::int64_t num_subtrees = 0;

  ProcessWorkers(const ExchangeWorld& world, int process)
      : range(worker_range(world.num_workers, process, world.num_processes)),
        num_subtrees(static_cast<std::int64_t>(
            subtrees_within(range.num_workers, range.first_local_worker, range.num_local_workers).size())) {}
  /// Bytes that this process's workers send to one other process, with messages of these sizes.
  std::int64_t bytes(const GradientSizes& sizes) const {
    return range.num_local_workers * sizes.of_worker + num_subtrees * sizes.of_sum;
  }
};

/// B: the maximum of of_process(workers) over processes and directions.
template <class OfProcess>
double busiest(const ExchangeWorld& world, const OfProcess& of_process) {
  std::int64_t most = 0;
  for (int process = 0; process < world.num_processes; ++process) {
    const RoundBytes bytes = of_process(ProcessWorkers(world, process));
    most = std::max({most, bytes.sent, bytes.received});
  }
  return static_cast<double>(most);
}

/// Bytes of all processes' messages of these sizes.
std::int64_t bytes_of_all(const ExchangeWorld& world, const GradientSizes& sizes) {
  std::int64_t all = 0;
  for (int process = 0; process < world.num_processes; ++process) all += ProcessWorkers(world, process).bytes(sizes);
  return all;
}

/// Bytes of a round of messages with these sizes, each sent to all other processes.
double gather_bytes(const ExchangeWorld& world, const GradientSizes& sizes) {
  const std::int64_t all = bytes_of_all(world, sizes);
  return busiest(world, [&](const ProcessWorkers& workers) -> RoundBytes {
    const std::int64_t own = workers.bytes(sizes);
    return {.sent = own * (world.num_processes - 1), .received = all - own};
  });
}

template <class Size>
Size sum_over(const std::vector<Size>& shards, const WorkerRange& range) {
  const auto first = shards.begin() + range.first_local_worker;
  return std::accumulate(first, first + range.num_local_workers, Size{});
}

double scatter_bytes(const ExchangeWorld& world, const std::vector<GradientSizes>& shards) {
  const GradientSizes all = sum_over(shards, worker_range(world.num_workers, 0, 1));
  return busiest(world, [&](const ProcessWorkers& workers) -> RoundBytes {
    const GradientSizes own = sum_over(shards, workers.range);
    const GradientSizes others{all.of_worker - own.of_worker, all.of_sum - own.of_sum};
    return {.sent = workers.bytes(others), .received = bytes_of_all(world, own) - workers.bytes(own)};
  });
}

double mean_bytes(const ExchangeWorld& world, const std::vector<std::int64_t>& shards) {
  const std::int64_t all = sum_over(shards, worker_range(world.num_workers, 0, 1));
  return busiest(world, [&](const ProcessWorkers& workers) -> RoundBytes {
    const std::int64_t own = sum_over(shards, workers.range);
    return {.sent = (world.num_processes - 1) * own, .received = all - own};
  });
}

}  // namespace

WireVolume wire_volume(ExchangeAlgorithm algorithm, const ExchangeWorld& world, const MessageSizes& sizes) {
  TERNGRAD_REQUIRE(world.num_processes >= 1 && world.num_processes <= world.num_workers, "[wire_volume] ",
                   world.num_processes, " processes of ", world.num_workers, " workers");
  const double scalers = gather_bytes(world, {sizes.scalers, 0});
  const bool is_alone = world.num_processes == 1;
  if (algorithm == ExchangeAlgorithm::kAllGather) {
    return {.bytes = scalers + gather_bytes(world, sizes.gradient), .rounds = is_alone ? 0 : 2};
  }
  if (algorithm == ExchangeAlgorithm::kIntegerSum) {
    const double lanes = static_cast<double>(all_reduce_bytes(sizes.lanes, world.num_processes));
    const double gathered = gather_bytes(world, sizes.gradient);
    const bool gathers = sizes.gradient.of_worker + sizes.gradient.of_sum > 0;
    return {.bytes = scalers + gathered + lanes, .rounds = is_alone ? 0 : gathers ? 4 : 3};
  }
  TERNGRAD_REQUIRE(algorithm == ExchangeAlgorithm::kScatterReduce, "[wire_volume] is that of an algorithm, got ",
                   word_of(algorithm));
  const auto num_shards = static_cast<std::size_t>(world.num_workers);
  TERNGRAD_REQUIRE(sizes.shards.size() == num_shards && sizes.downlink_payloads.size() == num_shards,
                   "[wire_volume] needs a shard for each of ", num_shards, " workers, got ", sizes.shards.size(),
                   " of the gradient and ", sizes.downlink_payloads.size(), " of the mean");
  return {.bytes = scalers + scatter_bytes(world, sizes.shards) + mean_bytes(world, sizes.downlink_payloads),
          .rounds = is_alone ? 0 : 3};
}

std::optional<Spread> ExchangeCost::spread(const LinkModel& link, const LinkBounds& bounds) const {
  if (samples.size() < 2) return std::nullopt;
  Spread spread = middle_half(samples);
  if (!is_timed_whole()) {
    spread.low += std::min(link_seconds(bounds.fast), link_seconds(link));
    spread.high += std::max(link_seconds(bounds.slow), link_seconds(link));
  }
  // The sum of the parts' medians may lie outside of the samples' middle half.
  return Spread{std::min(spread.low, seconds(link)), std::max(spread.high, seconds(link))};
}

BreakEven break_even(const ExchangeCost& codec, const ExchangeCost& baseline, double latency_seconds) {
  const double saved_bytes = baseline.wire.bytes - codec.wire.bytes;
  const double more_seconds = codec.processor_seconds() - baseline.processor_seconds() +
                              (codec.wire.rounds - baseline.wire.rounds) * latency_seconds;
  if (saved_bytes > 0 && more_seconds > 0) return {BreakEven::Pays::kBelow, saved_bytes / more_seconds};
  if (saved_bytes < 0 && more_seconds < 0) return {BreakEven::Pays::kAbove, saved_bytes / more_seconds};
  const bool is_better = saved_bytes > 0 || more_seconds < 0;  // one is better, and the other is not worse
  if (saved_bytes >= 0 && more_seconds <= 0 && is_better) return {BreakEven::Pays::kAlways, 0};
  return {BreakEven::Pays::kNever, 0};
}

std::size_t recommend(std::span<const ExchangeCost> costs, std::size_t baseline, const LinkModel& link,
                      double rest_seconds) {
  TERNGRAD_REQUIRE(baseline < costs.size(), "[recommend] there are ", costs.size(), " exchanges, none is number ",
                   baseline);
  std::size_t best = baseline;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    if (costs[i].seconds(link) < costs[best].seconds(link)) best = i;
  }
  const double of_baseline = rest_seconds + costs[baseline].seconds(link);
  return rest_seconds + costs[best].seconds(link) < kWorthwhile * of_baseline ? best : baseline;
}

}  // namespace terngrad
