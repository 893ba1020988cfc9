#include "compress/device_all_reduce.h"

#include <array>

#include "kernels/copy.h"
#include "kernels/errors.h"
#include "kernels/scaler.h"

namespace terngrad {
namespace {

DeviceExchangeSetup make_setup(const Layout& layout, const WorkerRange& workers,
                               const CompressedAllReduceOptions& options, const Device& device) {
  return {.layout = layout,
          .workers = workers,
          .seed = options.seed,
          .drops_nonfinite_steps = options.on_nonfinite != OnNonfinite::kZero,
          .device = device};
}

/// The workers of every rank. @throws InvalidArgument if `own` are not those of this one
std::vector<WorkerRange> ranges_of_ranks(const WorkerRange& own, const DeviceCommunicator& communicator) {
  std::vector<WorkerRange> ranks;
  ranks.reserve(static_cast<std::size_t>(communicator.size()));
  for (int rank = 0; rank < communicator.size(); ++rank) {
    ranks.push_back(worker_range(own.num_workers, rank, communicator.size()));
  }
  const WorkerRange& expected = ranks[static_cast<std::size_t>(communicator.rank())];
  TERNGRAD_REQUIRE(own == expected, "[exchange] rank ", communicator.rank(), " of ", communicator.size(), " has ",
                   expected.num_local_workers, " of ", own.num_workers, " workers, from number ",
                   expected.first_local_worker, " on; got ", own.num_local_workers, " from number ",
                   own.first_local_worker, " on");
  return ranks;
}

CodecPlanOptions with_workers(CodecPlanOptions options, int num_workers) {
  options.codec_options.num_workers = num_workers;
  return options;
}

}  // namespace

DeviceAllReduce::DeviceAllReduce(const Layout& layout, const WorkerRange& workers,
                                 const CompressedAllReduceOptions& options, Stream stream,
                                 std::shared_ptr<DeviceCommunicator> communicator)
    : setup_(make_setup(layout, workers, options, stream.device())),
      options_(options),
      plan_(setup_.layout, with_workers(options.codecs, workers.num_workers)),
      stream_(std::move(stream)),
      communicator_(std::move(communicator)),
      reports_(2, setup_.device),
      skip_(1, setup_.device),
      frozen_(1, setup_.device),
      zero_flagged_(FloatPayload::kFloat32, setup_.device),
      round_(FloatPayload::kRoundedBfloat16, setup_.device) {
  const std::vector<WorkerRange> ranks = ranges_of_ranks(workers, *communicator_);
  bool any_summable = false;
  for (const CodecPlan::Group& group : plan_.groups()) {
    const bool summable = group.codec->traits().summable;
    any_summable |= summable;
    const bool as_codes = options.return_codec == ReturnCodec::kSums || options.return_codec == ReturnCodec::kTernary;
    TERNGRAD_REQUIRE(!as_codes || group.codec->sharing() != ScalerSharing::kNone, "[return leg] return codec ",
                     to_string(options.return_codec), " needs a scaler that all workers share; codec ",
                     group.codec->name(), " has scaler_sharing none");
    coders_.push_back(group.codec->make_device_coder(setup_, group.segments));
    scaler_gathers_.push_back(coders_.back()->gather_scalers(ranks));
    payload_gathers_.push_back(coders_.back()->gather_payloads(ranks));
    if (!coders_.back()->can_overflow()) continue;
    for (const int segment : group.segments) {
      if (layout.segment(segment).num_elements > 0) checked_segments_.push_back(segment);
    }
  }
  TERNGRAD_REQUIRE(
      options.algorithm != ExchangeAlgorithm::kIntegerSum || any_summable,
      "[exchange] integer_sum needs a codec whose codes add up as integers for at least one tensor: ternary "
      "with scaler_sharing max or mean");
  std::vector<Slice> slices;
  std::vector<ScalerPlace> places;
  for (const int segment : checked_segments_) {
    slices.push_back({segment, 0, layout.segment(segment).num_elements});
    places.push_back({ScalerCombination::kGreatest, static_cast<std::uint32_t>(segment), 1});
  }
  const auto count = static_cast<std::int64_t>(slices.size());
  mean_plan_ = std::make_unique<StatisticsPlan>(slices, setup_.device);
  mean_places_ = Buffer<ScalerPlace>(count, setup_.device);
  mean_flags_ = Buffer<float>(count, setup_.device);
  mean_scratch_ = Buffer<float>(4 * count, setup_.device);
  copy<ScalerPlace>(places, mean_places_.span(), stream_);
  forget_nonfinite();
  fill_zero(skip_.span(), stream_);
  stream_.synchronize();
}

bool DeviceAllReduce::wants_sums(const DeviceCoder& coder) const {
  return options_.return_codec == ReturnCodec::kTernary && !coder.segments().empty() &&
         plan_.codec_of(coder.segments()[0]).traits().summable;
}

void DeviceAllReduce::submit(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step) {
  submit(gradients, mean, step, nullptr);
}

void DeviceAllReduce::submit(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step,
                             Times* times) {
  TERNGRAD_REQUIRE(static_cast<int>(gradients.size()) == setup_.workers.num_local_workers,
                   "[exchange] this process has ", setup_.workers.num_local_workers, " workers, got ", gradients.size(),
                   " gradients");
  TERNGRAD_REQUIRE(step.step >> 40 == 0, "[exchange] draws are keyed by 40 bits of the step, got ", step.step);
  if (times != nullptr) times->measure.start(stream_);
  // A step that is only skipped says so anew each time. One that stops the run leaves its mark and its report, which
  // later steps leave alone: the host may look only after some of them, none of which is applied.
  const bool stops = options_.on_nonfinite == OnNonfinite::kStop;
  if (stops) {
    copy<std::uint32_t>(skip_.span(), frozen_.span(), stream_);
  } else {
    fill_zero(reports_.span(), stream_);
  }
  if (options_.on_nonfinite == OnNonfinite::kSkip) fill_zero(skip_.span(), stream_);
  std::uint32_t* skip = setup_.drops_nonfinite_steps ? skip_.data() : nullptr;
  for (const auto& coder : coders_) coder->measure(gradients, step, stream_);
  gather(scaler_gathers_, times != nullptr ? &times->scalers : nullptr);
  for (const auto& coder : coders_) coder->share(reports_.data(), skip, frozen_.data(), stream_);
  if (times != nullptr) {
    times->measure.stop(stream_);
    times->encode.start(stream_);
  }
  for (const auto& coder : coders_) coder->encode(gradients, step, stream_);
  if (times != nullptr) times->encode.stop(stream_);
  gather(payload_gathers_, times != nullptr ? &times->payloads : nullptr);
  if (times != nullptr) times->decode.start(stream_);
  for (const auto& coder : coders_) coder->aggregate(mean, wants_sums(*coder), stream_);
  apply_return_leg(mean, step);
  check_mean(mean);
  if (times != nullptr) times->decode.stop(stream_);
}

void DeviceAllReduce::gather(std::span<const DeviceGather> gathers, StreamTimer* timer) {
  if (timer != nullptr) timer->start(stream_);
  communicator_->all_gather(gathers, stream_);
  if (timer != nullptr) timer->stop(stream_);
}

void DeviceAllReduce::apply_return_leg(const TensorTable& mean, const DeviceStep& step) {
  for (const auto& coder : coders_) {
    if (wants_sums(*coder)) coder->return_ternary(mean, step, stream_);
  }
  if (options_.return_codec != ReturnCodec::kBfloat16) return;
  round_tasks_.clear();
  for (int segment = 0; segment < setup_.layout.num_segments(); ++segment) {
    float* values = mean.tensor(segment);
    round_tasks_.push_back({.values = values, .count = setup_.layout.segment(segment).num_elements, .payload = values});
  }
  round_.run(round_tasks_, stream_);
}

void DeviceAllReduce::check_mean(const TensorTable& mean) {
  if (checked_segments_.empty()) return;
  const std::int64_t count = mean_flags_.num_elements();
  nonfinite_flags(*mean_plan_, {&mean, 1}, 0x7f800000u, mean_flags_.span(), stream_);
  share_scalers({.places = mean_places_.data(),
                 .num_scalers = count,
                 .num_workers = 1,
                 .first_local_worker = 0,
                 .num_local_workers = 1,
                 .local = mean_flags_.data(),
                 .own = mean_scratch_.data(),
                 .shared = mean_scratch_.data() + count,
                 .scales = mean_scratch_.data() + 2 * count,
                 .drawn_with = mean_scratch_.data() + 3 * count,
                 .report = reports_.data() + 1,
                 .skip = setup_.drops_nonfinite_steps ? skip_.data() : nullptr,
                 .frozen = frozen_.data()},
                stream_);
  if (setup_.drops_nonfinite_steps) return;
  mean_tasks_.clear();
  for (std::size_t i = 0; i < checked_segments_.size(); ++i) {
    float* values = mean.tensor(checked_segments_[i]);
    mean_tasks_.push_back({.values = values,
                           .count = setup_.layout.segment(checked_segments_[i]).num_elements,
                           .flag = mean_flags_.data() + i,
                           .payload = values});
  }
  zero_flagged_.run(mean_tasks_, stream_);
}

std::string DeviceAllReduce::nonfinite_text(const NonfiniteReport& gradients, const NonfiniteReport& mean,
                                            std::uint64_t step) const {
  const auto more = [](std::uint64_t count) {
    return count > 1 ? " (and " + std::to_string(count - 1) + " more)" : std::string();
  };
  const std::string prefix = "step " + std::to_string(step) + ": ";
  std::string text;
  if (gradients.count > 0) {
    const auto n = static_cast<std::uint64_t>(setup_.workers.num_workers);
    const Segment& segment = setup_.layout.segment(static_cast<int>(gradients.first() / n));
    text = prefix + "tensor '" + segment.name + "' of worker " + std::to_string(gradients.first() % n) +
           " holds NaN or infinity" + more(gradients.count);
    if (setup_.drops_nonfinite_steps) return text;  // the mean of such gradients says no more
  }
  if (mean.count > 0) {
    text += (text.empty() ? prefix : "; ") + "the mean of tensor '" +
            setup_.layout.segment(static_cast<int>(mean.first())).name + "' overflows to infinity" + more(mean.count);
  }
  return text;
}

void DeviceAllReduce::forget_nonfinite() {
  fill_zero(reports_.span(), stream_);
  fill_zero(skip_.span(), stream_);
  fill_zero(frozen_.span(), stream_);
}

ExchangeReport DeviceAllReduce::bytes() const {
  ExchangeReport result;
  if (setup_.workers.num_workers == 1) return result;
  const std::int64_t others = setup_.workers.num_workers - 1;
  for (const auto& coder : coders_) {
    const std::int64_t scaler_bytes = coder->num_scalers() * 4 * setup_.workers.num_local_workers;
    const std::int64_t payload_bytes = coder->payload_bytes() * setup_.workers.num_local_workers;
    result.scalers.sent += scaler_bytes;
    result.scalers.received += scaler_bytes * others;
    result.gradient.sent += payload_bytes;
    result.gradient.received += payload_bytes * others;
  }
  return result;
}

ExchangeReport DeviceAllReduce::report(std::uint64_t step) {
  std::array<NonfiniteReport, 2> reports;
  copy<NonfiniteReport>(reports_.span(), std::span<NonfiniteReport>(reports), stream_);
  stream_.synchronize();
  ExchangeReport result = bytes();
  result.nonfinite = nonfinite_text(reports[0], reports[1], step);
  if (!result.nonfinite.empty() && options_.on_nonfinite == OnNonfinite::kStop) {
    throw NonFiniteError(result.nonfinite);
  }
  result.skipped = !result.nonfinite.empty() && options_.on_nonfinite == OnNonfinite::kSkip;
  return result;
}

ExchangeReport DeviceAllReduce::exchange(std::span<const TensorTable> gradients, const TensorTable& mean,
                                         std::uint64_t step) {
  Times times(setup_.device);
  submit(gradients, mean, {step, nullptr}, &times);
  ExchangeReport result = report(step);
  if (communicator_->size() > 1) result.wire_seconds = times.scalers.seconds() + times.payloads.seconds();
  result.measure_seconds = times.measure.seconds() - times.scalers.seconds();
  result.encode_seconds = times.encode.seconds();
  result.decode_seconds = times.decode.seconds();
  return result;
}

float DeviceAllReduce::decode_local(int local_worker, int segment, std::span<float> out) {
  TERNGRAD_REQUIRE(local_worker >= 0 && local_worker < setup_.workers.num_local_workers, "[exchange] no local worker ",
                   local_worker);
  TERNGRAD_REQUIRE(segment >= 0 && segment < setup_.layout.num_segments(), "[exchange] no tensor ", segment);
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(out.size()) == setup_.layout.segment(segment).num_elements,
                   "[exchange] tensor '", setup_.layout.segment(segment).name, "' has ",
                   setup_.layout.segment(segment).num_elements, " elements, out holds ", out.size());
  if (out.empty()) return 0;
  DeviceCoder& coder = *coders_[static_cast<std::size_t>(plan_.group_of(segment))];
  Buffer<float> decoded(static_cast<std::int64_t>(out.size()), setup_.device);
  coder.decode(local_worker, segment, decoded.span(), stream_);
  copy<float>(decoded.span(), out, stream_);
  stream_.synchronize();
  return coder.greatest_scaler(local_worker, segment, stream_);
}

}  // namespace terngrad
