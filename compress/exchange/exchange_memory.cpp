#include "compress/exchange/exchange_memory.h"

#include <algorithm>
#include <vector>

#include "compress/exchange/bucketed_layout.h"
#include "compress/exchange/codec_shards.h"
#include "compress/exchange/downlink.h"
#include "compress/exchange/exchange_algorithm.h"
#include "compress/exchange/exchange_bytes.h"
#include "compress/exchange/low_rank_all_reduce.h"
#include "compress/exchange/shard_owners.h"
#include "compress/plan/codec_plan.h"
#include "compress/plan/low_rank_rounds.h"
#include "compress/wire/gradient_transport.h"
#include "compress/wire/wire_format.h"

namespace terngrad {
namespace {

/// The messages of one bucket.
class BucketMemory {
 public:
  BucketMemory(const Layout& layout, const CodecPlan& plan, const CompressedAllReduceOptions& options,
               const WorkerGroup& workers)
      : layout_(layout),
        plan_(plan),
        options_(options),
        workers_(workers),
        transport_(layout, plan, ranks_of(workers), workers.communicator->rank()) {}

  std::int64_t bytes(ExchangeAlgorithm algorithm) const {
    if (algorithm == ExchangeAlgorithm::kScatterReduce) return scattered();
    // Alone, lanes are not made unless they are asked for by name.
    if (algorithm == ExchangeAlgorithm::kIntegerSum &&
        !(is_alone() && options_.algorithm == ExchangeAlgorithm::kAuto)) {
      return summed();
    }
    return gathered(whole_segments(layout_)) + rounded_mean();
  }

 private:
  bool is_alone() const { return workers_.communicator->is_alone(); }
  int rank() const { return workers_.communicator->rank(); }
  std::int64_t message(const std::vector<Slice>& slices) const {
    return slices.empty() ? 0 : gradient_message_bytes(plan_, slices, PayloadForm::kNatural);
  }

  /// The payloads of all of this process's workers.
  std::int64_t rows(const std::vector<Slice>& slices, PayloadForm form = PayloadForm::kNatural) const {
    return workers_.num_local_workers * row(slices, form);
  }
  std::int64_t row(const std::vector<Slice>& slices, PayloadForm form) const {
    std::int64_t bytes = 0;
    for (const Slice& slice : slices) {
      const std::int64_t payload = plan_.codec_of(slice.segment).max_payload_bytes(slice, form);
      bytes += parcel_bytes(static_cast<std::uint64_t>(payload));
    }
    return bytes;
  }

  /// What a process sends of a part.
  std::int64_t sent(const std::vector<Slice>& slices, int of_rank) const {
    const GradientTransport::Counts counts = transport_.counts(slices, of_rank);
    if (counts.of_sums == 0) return counts.of_workers * message(slices);
    std::vector<Slice> rest;
    std::int64_t num_added = 0;
    for (const Slice& slice : slices) {
      if (plan_.codec_of(slice.segment).traits().sums_as_float) {
        num_added += slice.count;
      } else {
        rest.push_back(slice);
      }
    }
    const std::int64_t sum = max_message_bytes(slices.size() - rest.size(), 0, num_added * 4);
    return counts.of_workers * message(rest) + counts.of_sums * sum;
  }

  std::int64_t sent_by_all(const std::vector<Slice>& slices) const {
    std::int64_t bytes = 0;
    for (int rank = 0; rank < workers_.communicator->size(); ++rank) bytes += sent(slices, rank);
    return bytes;
  }

  std::int64_t gathered(const std::vector<Slice>& slices) const {
    return rows(slices) + (is_alone() ? 0 : sent(slices, rank()) + sent_by_all(slices));
  }

  /// The message that a ternary downlink goes through where every process has the whole mean.
  std::int64_t rounded_mean() const {
    if (options_.downlink_codec != DownlinkCodec::kTernary) return 0;
    return downlink({whole_segments(layout_)}).max_message_bytes(0);
  }

  Downlink downlink(const std::vector<std::vector<Slice>>& parts) const {
    return {layout_, plan_, parts, {.codec = options_.downlink_codec, .num_workers = workers_.num_workers}};
  }

  std::int64_t scattered() const {
    const int count = num_shards(workers_, options_.owners);
    const std::vector<std::vector<Slice>> shards = shards_by_codec(layout_, plan_, count);
    const ShardRange own = shards_of(workers_, options_.owners, rank());
    const Downlink mean = downlink(shards);
    std::int64_t written = 0;
    std::int64_t all_sent = 0;
    std::int64_t received = 0;
    std::int64_t all_means = 0;
    std::int64_t own_means = 0;
    std::int64_t largest_mean = 0;
    for (std::size_t shard = 0; shard < shards.size(); ++shard) {
      written += rows(shards[shard]);
      all_sent += sent(shards[shard], rank());
      const std::int64_t mean_bytes = mean.max_message_bytes(shard);
      all_means += mean_bytes;
      if (!own.has(shard)) continue;
      received += sent_by_all(shards[shard]);
      own_means += mean_bytes;
      largest_mean = std::max(largest_mean, mean_bytes);
    }
    if (is_alone() && !mean.forms().has_fixed_size()) return written + all_means + largest_mean;
    if (is_alone()) return written + (options_.downlink_codec == DownlinkCodec::kTernary ? largest_mean : 0);
    return written + all_sent + std::max(received, all_means) + own_means + largest_mean;
  }

  std::int64_t summed() const {
    const std::vector<Slice> lanes = select_summable(layout_, plan_, true);
    return gathered(select_summable(layout_, plan_, false)) + rounded_mean() + rows(lanes, PayloadForm::kLanes) +
           row(lanes, PayloadForm::kLanes);
  }

  const Layout& layout_;
  const CodecPlan& plan_;
  const CompressedAllReduceOptions& options_;
  const WorkerGroup& workers_;
  GradientTransport transport_;
};

std::int64_t part_memory(const Layout& layout, const CodecPlan& plan, const CompressedAllReduceOptions& options,
                         const WorkerGroup& workers) {
  const ExchangeAlgorithm algorithm =
      choose_algorithm(options.algorithm, options.owners, options.downlink_codec, layout, plan, workers.num_workers);
  return BucketMemory(layout, plan, options, workers).bytes(algorithm);
}

/// Both factors of each worker and of the mean, Q as a step begins, and room for what a rounding codec keeps of P.
std::int64_t factor_memory(const LowRankRounds& rounds, int num_local_workers) {
  std::int64_t num_p = 0;
  for (const int segment : rounds.segments) num_p += rounds.first.segment(segment).num_elements;
  const std::int64_t num_q = rounds.second.num_elements();
  const bool are_rounded = std::ranges::any_of(
      rounds.segments, [&](int segment) { return !rounds.first_plan.codec_of(segment).traits().is_exact; });
  const std::int64_t num_kept = are_rounded ? num_local_workers * num_p : 0;
  return 4 * ((num_local_workers + 1) * (num_p + num_q) + num_q + num_kept);
}

}  // namespace

std::int64_t exchange_memory(const Layout& layout, const CompressedAllReduceOptions& options, const Buckets& buckets,
                             const WorkerGroup& workers) {
  const BucketedLayout parts(layout, options.codecs, workers.num_workers, buckets);
  std::int64_t bytes = 0;
  for (std::size_t bucket = 0; bucket < parts.num_buckets(); ++bucket) {
    const CodecPlan plan = parts.plan_of(bucket);
    const Layout& part = parts.layout_of(bucket);
    CompressedAllReduceOptions own = options;
    own.algorithm = parts.algorithm_of(bucket, options.algorithm);
    if (!has_low_rank(plan)) {
      bytes += part_memory(part, plan, own, workers);
      continue;
    }
    const LowRankRounds rounds = low_rank_rounds(part, plan, workers.num_workers);
    bytes += part_memory(rounds.first, rounds.first_plan, own, workers) +
             part_memory(rounds.second, rounds.second_plan, of_second_round(own), workers) +
             factor_memory(rounds, workers.num_local_workers);
  }
  return bytes;
}

}  // namespace terngrad
