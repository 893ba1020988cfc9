#include "compress/exchange/low_rank_round.h"

#include <utility>

#include "compress/codec/memory_update.h"
#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/mean_check.h"
#include "compress/exchange/nonfinite.h"
#include "compress/exchange/overflow.h"
#include "compress/exchange/part_clock.h"
#include "compress/exchange/round.h"
#include "compress/transport/exchange_peers.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// Options of a round that exchanges floats only.
CompressedAllReduceOptions of_second_round(CompressedAllReduceOptions options) {
  if (options.algorithm == ExchangeAlgorithm::kIntegerSum) options.algorithm = ExchangeAlgorithm::kAllGather;
  if (options.downlink_codec != DownlinkCodec::kBfloat16) options.downlink_codec = DownlinkCodec::kFloat32;
  return options;
}

CoderSetup setup_of(const Layout& layout, const PartContext& context, const std::vector<int>& numbers) {
  return {.layout = layout, .workers = context.peers.group, .device = context.stream.device(), .numbers = numbers};
}

}  // namespace

LowRankRound::LowRankRound(const Layout& layout, const CodecPlan& plan, const PartContext& context,
                           std::vector<int> numbers)
    : layout_(layout),
      seed_(context.options.seed),
      drops_nonfinite_steps_(context.options.on_nonfinite != OnNonfinite::kZero),
      workers_(context.peers.group),
      factors_(layout, plan, workers_.num_workers, workers_.num_local_workers, context.shared),
      flags_(context.flags),
      mean_check_(std::make_unique<MeanCheck>(setup_of(layout, context, numbers), factors_.rounds().segments,
                                              max_mean(context.options.mean_factor))) {
  const LowRankRounds& rounds = factors_.rounds();
  std::vector<int> second_numbers;
  for (const int segment : rounds.segments) {
    second_numbers.push_back(numbers.empty() ? segment : numbers[static_cast<std::size_t>(segment)]);
  }
  first_ = std::make_unique<Round>(rounds.first, rounds.first_plan, context, std::move(numbers));
  const CompressedAllReduceOptions options = of_second_round(context.options);
  second_ = std::make_unique<Round>(rounds.second, rounds.second_plan,
                                    PartContext{context.peers, options, context.stream, context.flags, context.shared},
                                    std::move(second_numbers));
  if (context.peers.device != nullptr) {
    bytes_ = first_->bytes();
    bytes_.add_part(second_->bytes());
  }
}

LowRankRound::~LowRankRound() = default;

void LowRankRound::commit(Stream& stream) {
  TERNGRAD_REQUIRE(has_run_, "[exchange] no step has run that could be kept");
  factors_.commit(flags_.skip(), stream);
}

void LowRankRound::run(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step,
                       Stream& stream, PartClock& clock) {
  require_tables(gradients, mean, workers_);
  has_run_ = false;
  const std::uint64_t count_before = flags_.count_on_cpu();
  // On the CPU all ranks find the same tensors, so no rank waits for another in the second round.
  const auto is_dropped = [&] { return drops_nonfinite_steps_ && flags_.count_on_cpu() > count_before; };
  clock.start(stream);
  const std::vector<TensorTable> first = factors_.begin(gradients, seed_, step, stream);
  clock.lap(&ExchangeReport::encode_seconds, stream);
  first_->run(first, factors_.first_mean(mean), step, stream, clock);
  bytes_ = first_->bytes();
  if (is_dropped()) return;
  clock.start(stream);
  const std::vector<TensorTable> second = factors_.turn(gradients, stream);
  clock.lap(&ExchangeReport::encode_seconds, stream);
  second_->run(second, factors_.second_mean(), step, stream, clock);
  bytes_.add_part(second_->bytes());
  if (is_dropped()) return;
  clock.start(stream);
  factors_.write_mean(mean, stream);
  mean_check_->submit(
      mean, {.report = flags_.means(), .skip = flags_.skip_flag(), .stop_latched = flags_.stop_latched()}, stream);
  clock.lap(&ExchangeReport::decode_seconds, stream);
  has_run_ = true;
}

float LowRankRound::decode_local(int local_worker, int segment, std::span<float> out, Stream& stream) {
  if (!factors_.has(segment)) return first_->decode_local(local_worker, segment, out, stream);
  require_decodable(layout_, workers_, local_worker, segment, out);
  TERNGRAD_REQUIRE((has_run_ && !flags_.is_dropped(stream)) || out.empty(),
                   "[exchange] the last step sent nothing of tensor ", segment);
  factors_.decode(local_worker, segment, out, stream);
  return 0;
}

void LowRankRound::update_memory(const MemoryUpdate& what, std::span<const TensorTable> encoded,
                                 std::span<const TensorTable> kept, Stream& stream) {
  TERNGRAD_REQUIRE(has_run_, "[exchange] no step has run that could be kept");
  first_->update_memory(what, factors_.first_tables(encoded), factors_.first_kept(kept), stream);
  factors_.update_memory(what, encoded, kept, flags_.skip(), stream);
}

}  // namespace terngrad
