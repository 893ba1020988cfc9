#include "compress/exchange/low_rank_all_reduce.h"

#include <algorithm>
#include <chrono>

#include "compress/codec/memory_update.h"
#include "compress/exchange/nonfinite.h"
#include "compress/exchange/overflow.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/stopwatch.h"

namespace terngrad {

CompressedAllReduceOptions of_second_round(CompressedAllReduceOptions options) {
  if (options.algorithm == ExchangeAlgorithm::kIntegerSum) options.algorithm = ExchangeAlgorithm::kAllGather;
  if (options.downlink_codec != DownlinkCodec::kBfloat16) options.downlink_codec = DownlinkCodec::kFloat32;
  return options;
}

LowRankAllReduce::LowRankAllReduce(const Layout& layout, const CodecPlan& plan, const WorkerGroup& workers,
                                   const CompressedAllReduceOptions& options, FactorState& factors,
                                   std::vector<int> numbers)
    : layout_(layout),
      options_(options),
      num_local_workers_(workers.num_local_workers),
      factors_(layout, plan, workers.num_workers, workers.num_local_workers, factors),
      stream_(Device::cpu(), options.num_threads) {
  TERNGRAD_REQUIRE(options.update == nullptr, "[low_rank] an update of shards needs a mean that is found in one round");
  const LowRankRounds& rounds = factors_.rounds();
  std::vector<int> second_numbers;
  for (const int segment : rounds.segments) {
    second_numbers.push_back(numbers.empty() ? segment : numbers[static_cast<std::size_t>(segment)]);
  }
  mean_check_ = std::make_unique<MeanCheck>(CoderSetup{.layout = layout, .workers = workers, .numbers = numbers},
                                            rounds.segments, max_mean(options.mean_factor));
  first_ =
      std::make_unique<CompressedAllReduce>(rounds.first, rounds.first_plan, workers, options, std::move(numbers));
  second_ = std::make_unique<CompressedAllReduce>(rounds.second, rounds.second_plan, workers,
                                                  of_second_round(options), std::move(second_numbers));
}

ExchangeReport LowRankAllReduce::exchange_part(std::span<const TensorTable> gradients, const TensorTable& mean,
                                               std::uint64_t step, NonfiniteTensors& found) {
  TERNGRAD_REQUIRE(static_cast<int>(gradients.size()) == num_local_workers_, "[exchange] this process has ",
                   num_local_workers_, " workers, got ", gradients.size(), " gradients");
  has_sent_ = false;
  auto mark = std::chrono::steady_clock::now();
  const std::vector<TensorTable> first = factors_.begin(gradients, options_.seed, {step, nullptr}, stream_);
  double encode_seconds = lap_seconds(mark);
  NonfiniteTensors found_here;
  ExchangeReport report = first_->exchange_part(first, factors_.first_mean(mean), step, found_here);
  const bool drops = options_.on_nonfinite != OnNonfinite::kZero;
  // All ranks find the same tensors, so no rank waits for another in the second round.
  if (!found_here.empty() && drops) {
    found += found_here;
    report.encode_seconds += encode_seconds;
    return report;
  }
  lap_seconds(mark);
  const std::vector<TensorTable> second = factors_.turn(gradients, stream_);
  encode_seconds += lap_seconds(mark);
  report += second_->exchange_part(second, factors_.second_mean(), step, found_here);
  lap_seconds(mark);
  if (found_here.empty() || !drops) write_mean(mean, found_here);
  report.decode_seconds += lap_seconds(mark);
  report.encode_seconds += encode_seconds;
  has_sent_ = found_here.empty() || !drops;
  found += found_here;
  return report;
}

void LowRankAllReduce::write_mean(const TensorTable& mean, NonfiniteTensors& found) {
  factors_.write_mean(mean, stream_);
  mean_check_->submit(mean, {.report = &found.means}, stream_);
}

float LowRankAllReduce::decode_local(int local_worker, int segment, std::span<float> out) {
  if (!factors_.has(segment)) return first_->decode_local(local_worker, segment, out);
  TERNGRAD_REQUIRE(local_worker >= 0 && local_worker < num_local_workers_, "[exchange] no local worker ", local_worker);
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(out.size()) == layout_.segment(segment).num_elements,
                   "[exchange] tensor '", layout_.segment(segment).name, "' has ",
                   layout_.segment(segment).num_elements, " elements, out holds ", out.size());
  TERNGRAD_REQUIRE(has_sent_ || out.empty(), "[exchange] the last step sent nothing of tensor ", segment);
  factors_.decode(local_worker, segment, out, stream_);
  return 0;
}

void LowRankAllReduce::update_memory(MemoryUpdate what, std::span<const TensorTable> encoded,
                                     std::span<const TensorTable> kept) {
  TERNGRAD_REQUIRE(has_sent_, "[exchange] the last step sent nothing that could be kept");
  first_->update_memory(what, factors_.first_tables(encoded), factors_.first_kept(kept));
  factors_.update_memory(what, encoded, kept, nullptr, stream_);
}

void LowRankAllReduce::commit() {
  TERNGRAD_REQUIRE(has_sent_, "[exchange] the last step found no factors");
  factors_.commit(nullptr, stream_);
}

}  // namespace terngrad
