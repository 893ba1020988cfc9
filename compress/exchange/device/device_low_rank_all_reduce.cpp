#include "compress/exchange/device/device_low_rank_all_reduce.h"

#include <array>
#include <utility>

#include "compress/codec/coder.h"
#include "compress/exchange/low_rank_all_reduce.h"
#include "compress/exchange/overflow.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/stream_timer.h"

namespace terngrad {

DeviceLowRankAllReduce::DeviceLowRankAllReduce(const Layout& layout, const CodecPlan& plan,
                                               const DevicePartContext& context, std::vector<int> numbers)
    : layout_(layout),
      seed_(context.options.seed),
      num_local_workers_(context.workers.num_local_workers),
      stream_(context.stream),
      nonfinite_(context.nonfinite),
      factors_(layout, plan, context.workers.num_workers, context.workers.num_local_workers, context.factors) {
  const LowRankRounds& rounds = factors_.rounds();
  std::vector<int> second_numbers;
  for (const int segment : rounds.segments) {
    second_numbers.push_back(numbers.empty() ? segment : numbers[static_cast<std::size_t>(segment)]);
  }
  const CoderSetup setup{
      .layout = layout, .workers = context.workers, .seed = seed_, .device = stream_.device(), .numbers = numbers};
  mean_check_ = std::make_unique<MeanCheck>(setup, rounds.segments, max_mean(context.options.mean_factor));
  first_ = std::make_unique<DeviceAllReduce>(
      rounds.first, rounds.first_plan, context.workers, context.options, stream_, context.communicator,
      DeviceAllReduce::Part{.numbers = std::move(numbers), .nonfinite = nonfinite_});
  second_ = std::make_unique<DeviceAllReduce>(
      rounds.second, rounds.second_plan, context.workers, of_second_round(context.options), stream_,
      context.communicator, DeviceAllReduce::Part{.numbers = std::move(second_numbers), .nonfinite = nonfinite_});
}

void DeviceLowRankAllReduce::submit_part(std::span<const TensorTable> gradients, const TensorTable& mean,
                                         const DeviceStep& step, Stream& stream) {
  TERNGRAD_REQUIRE(static_cast<int>(gradients.size()) == num_local_workers_, "[exchange] this process has ",
                   num_local_workers_, " workers, got ", gradients.size(), " gradients");
  has_sent_ = true;
  const std::vector<TensorTable> first = factors_.begin(gradients, seed_, step, stream);
  first_->submit_part(first, factors_.first_mean(mean), step, stream);
  const std::vector<TensorTable> second = factors_.turn(gradients, stream);
  second_->submit_part(second, factors_.second_mean(), step, stream);
  write_mean(mean, stream);
}

void DeviceLowRankAllReduce::write_mean(const TensorTable& mean, Stream& stream) {
  factors_.write_mean(mean, stream);
  mean_check_->submit(
      mean,
      {.report = nonfinite_->means(), .skip = nonfinite_->skip_flag(), .stop_latched = nonfinite_->stop_latched()},
      stream);
}

ExchangeReport DeviceLowRankAllReduce::exchange_part(std::span<const TensorTable> gradients, const TensorTable& mean,
                                                     std::uint64_t step) {
  TERNGRAD_REQUIRE(static_cast<int>(gradients.size()) == num_local_workers_, "[exchange] this process has ",
                   num_local_workers_, " workers, got ", gradients.size(), " gradients");
  has_sent_ = true;
  StreamTimer begin(stream_.device());
  StreamTimer turn(stream_.device());
  StreamTimer end(stream_.device());
  const DeviceStep number{step, nullptr};
  begin.start(stream_);
  const std::vector<TensorTable> first = factors_.begin(gradients, seed_, number, stream_);
  begin.stop(stream_);
  ExchangeReport report = first_->exchange_part(first, factors_.first_mean(mean), step);
  turn.start(stream_);
  const std::vector<TensorTable> second = factors_.turn(gradients, stream_);
  turn.stop(stream_);
  report += second_->exchange_part(second, factors_.second_mean(), step);
  end.start(stream_);
  write_mean(mean, stream_);
  end.stop(stream_);
  stream_.synchronize();
  report.encode_seconds += begin.seconds() + turn.seconds();
  report.decode_seconds += end.seconds();
  return report;
}

void DeviceLowRankAllReduce::update_memory(MemoryUpdate what, std::span<const TensorTable> encoded,
                                           std::span<const TensorTable> kept, Stream& stream) {
  TERNGRAD_REQUIRE(has_sent_, "[exchange] no step has run that could be kept");
  first_->update_memory(what, factors_.first_tables(encoded), factors_.first_kept(kept), stream);
  factors_.update_memory(what, encoded, kept, nonfinite_->skip(), stream);
}

ExchangeReport DeviceLowRankAllReduce::bytes() const {
  ExchangeReport sum = first_->bytes();
  sum += second_->bytes();
  return sum;
}

float DeviceLowRankAllReduce::decode_local(int local_worker, int segment, std::span<float> out) {
  if (!factors_.has(segment)) return first_->decode_local(local_worker, segment, out);
  TERNGRAD_REQUIRE(local_worker >= 0 && local_worker < num_local_workers_, "[exchange] no local worker ", local_worker);
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(out.size()) == layout_.segment(segment).num_elements,
                   "[exchange] tensor '", layout_.segment(segment).name, "' has ",
                   layout_.segment(segment).num_elements, " elements, out holds ", out.size());
  std::array<std::uint32_t, 1> skipped = {0};
  if (has_sent_) copy<std::uint32_t>({nonfinite_->skip(), 1}, std::span(skipped), stream_);
  stream_.synchronize();
  TERNGRAD_REQUIRE((has_sent_ && skipped[0] == 0) || out.empty(), "[exchange] the last step sent nothing of tensor ",
                   segment);
  factors_.decode(local_worker, segment, out, stream_);
  return 0;
}

}  // namespace terngrad
