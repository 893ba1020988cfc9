#include "compress/exchange_cost.h"

#include <algorithm>
#include <numeric>

#include "kernels/errors.h"

namespace terngrad {

namespace {

/// What a process sends and receives in a round.
struct RoundBytes {
  std::int64_t sent = 0;
  std::int64_t received = 0;
};

/// B: the most that of_process(range of its workers) gives over processes, in either direction.
template <class OfProcess>
double busiest(const ExchangeWorld& world, const OfProcess& of_process) {
  std::int64_t most = 0;
  for (int process = 0; process < world.num_processes; ++process) {
    const RoundBytes bytes = of_process(worker_range(world.num_workers, process, world.num_processes));
    most = std::max({most, bytes.sent, bytes.received});
  }
  return static_cast<double>(most);
}

/// A round of messages of one size, each worker's to all other processes.
double gather_bytes(const ExchangeWorld& world, std::int64_t message) {
  return busiest(world, [&](const WorkerRange& range) -> RoundBytes {
    return {.sent = message * range.num_local_workers * (world.num_processes - 1),
            .received = message * (range.num_workers - range.num_local_workers)};
  });
}

std::int64_t own_bytes(const std::vector<std::int64_t>& shares, const WorkerRange& range) {
  const auto first = shares.begin() + range.first_local_worker;
  return std::accumulate(first, first + range.num_local_workers, std::int64_t{0});
}

double scatter_bytes(const ExchangeWorld& world, const std::vector<std::int64_t>& shares) {
  const std::int64_t all = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  return busiest(world, [&](const WorkerRange& range) -> RoundBytes {
    const std::int64_t own = own_bytes(shares, range);
    return {.sent = range.num_local_workers * (all - own),
            .received = (range.num_workers - range.num_local_workers) * own};
  });
}

double mean_bytes(const ExchangeWorld& world, const std::vector<std::int64_t>& shares) {
  const std::int64_t all = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  return busiest(world, [&](const WorkerRange& range) -> RoundBytes {
    const std::int64_t own = own_bytes(shares, range);
    return {.sent = (world.num_processes - 1) * own, .received = all - own};
  });
}

}  // namespace

WireVolume wire_volume(ExchangeAlgorithm algorithm, const ExchangeWorld& world, const MessageSizes& sizes) {
  TERNGRAD_REQUIRE(world.num_processes >= 1 && world.num_processes <= world.num_workers, "[wire_volume] ",
                   world.num_processes, " processes of ", world.num_workers, " workers");
  const double scalers = gather_bytes(world, sizes.scalers);
  if (algorithm == ExchangeAlgorithm::kAllGather) {
    return {.bytes = scalers + gather_bytes(world, sizes.gradient), .rounds = 2};
  }
  TERNGRAD_REQUIRE(algorithm == ExchangeAlgorithm::kScatterReduce,
                   "[wire_volume] is known for all_gather and scatter_reduce, not for ", to_string(algorithm));
  const auto num_shares = static_cast<std::size_t>(world.num_workers);
  TERNGRAD_REQUIRE(sizes.shares.size() == num_shares && sizes.mean_shares.size() == num_shares,
                   "[wire_volume] needs a share for each of ", num_shares, " workers, got ", sizes.shares.size(),
                   " of the gradient and ", sizes.mean_shares.size(), " of the mean");
  return {.bytes = scalers + scatter_bytes(world, sizes.shares) + mean_bytes(world, sizes.mean_shares), .rounds = 3};
}

BreakEven break_even(const ExchangeCost& codec, const ExchangeCost& baseline, double latency_seconds) {
  const double saved_bytes = baseline.wire.bytes - codec.wire.bytes;
  const double more_seconds = codec.processor_seconds() - baseline.processor_seconds() +
                              (codec.wire.rounds - baseline.wire.rounds) * latency_seconds;
  if (saved_bytes > 0 && more_seconds > 0) return {BreakEven::Pays::kBelow, saved_bytes / more_seconds};
  if (saved_bytes < 0 && more_seconds < 0) return {BreakEven::Pays::kAbove, saved_bytes / more_seconds};
  const bool is_better = saved_bytes > 0 || more_seconds < 0;  // in one, and not worse in the other
  if (saved_bytes >= 0 && more_seconds <= 0 && is_better) return {BreakEven::Pays::kAlways, 0};
  return {BreakEven::Pays::kNever, 0};
}

std::size_t recommend(std::span<const ExchangeCost> costs, std::size_t baseline, const LinkModel& link) {
  TERNGRAD_REQUIRE(baseline < costs.size(), "[recommend] there are ", costs.size(), " exchanges, none is number ",
                   baseline);
  std::size_t best = baseline;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    if (costs[i].seconds(link) < costs[best].seconds(link)) best = i;
  }
  return costs[best].seconds(link) < kWorthwhile * costs[baseline].seconds(link) ? best : baseline;
}

}  // namespace terngrad
