#include "compress/exchange/device/device_all_reduce.h"

#include <algorithm>
#include <array>
#include <utility>

#include "compress/exchange/mean_check.h"
#include "compress/exchange/device/device_payloads.h"
#include "compress/exchange/downlink.h"
#include "compress/exchange/downlink_payloads.h"
#include "compress/exchange/overflow.h"
#include "compress/exchange/wire_bytes.h"
#include "compress/plan/low_rank_rounds.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/stream_timer.h"

namespace terngrad {
namespace {

CoderSetup make_setup(const Layout& layout, const WorkerRange& workers, const CompressedAllReduceOptions& options,
                      const Device& device, std::vector<int> numbers) {
  return {.layout = layout,
          .workers = workers,
          .seed = options.seed,
          .drops_nonfinite_steps = options.on_nonfinite != OnNonfinite::kZero,
          .device = device,
          .numbers = std::move(numbers)};
}

/// Worker range of every rank. @throws InvalidArgument if `own` is not the range of this rank
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

}  // namespace

struct DeviceAllReduce::Times {
  StreamTimer measure, encode, decode;
  StreamTimer scalers, payloads;  // transfers between ranks
  StreamTimer max, means;          // likewise, in the downlink
  explicit Times(const Device& device)
      : measure(device),
        encode(device),
        decode(device),
        scalers(device),
        payloads(device),
        max(device),
        means(device) {}
};

DeviceAllReduce::DeviceAllReduce(const Layout& layout, const WorkerRange& workers,
                                 const CompressedAllReduceOptions& options, const Stream& stream,
                                 std::shared_ptr<DeviceCommunicator> communicator)
    : DeviceAllReduce(layout, CodecPlan(layout, with_workers(options.codecs, workers.num_workers)), workers, options,
                      stream, std::move(communicator)) {}

DeviceAllReduce::DeviceAllReduce(const Layout& layout, CodecPlan plan, const WorkerRange& workers,
                                 const CompressedAllReduceOptions& options, const Stream& stream,
                                 std::shared_ptr<DeviceCommunicator> communicator)
    : DeviceAllReduce(layout, std::move(plan), workers, options, stream, std::move(communicator), Part{}) {}

DeviceAllReduce::DeviceAllReduce(const Layout& layout, CodecPlan plan, const WorkerRange& workers,
                                 const CompressedAllReduceOptions& options, const Stream& stream,
                                 std::shared_ptr<DeviceCommunicator> communicator, Part part)
    : setup_(make_setup(layout, workers, options, stream.device(), std::move(part.numbers))),
      options_(options),
      plan_(std::move(plan)),
      whole_(whole_segments(setup_.layout)),
      stream_(stream),
      communicator_(std::move(communicator)),
      ranks_(ranges_of_ranks(workers, *communicator_)),
      algorithm_(choose_algorithm(options.algorithm, options.owners, options.downlink_codec, setup_.layout, plan_,
                                  workers.num_workers)),
      forms_(plan_, options.downlink_codec, workers.num_workers, algorithm_ == ExchangeAlgorithm::kScatterReduce),
      nonfinite_(part.nonfinite != nullptr
                     ? std::move(part.nonfinite)
                     : std::make_shared<NonfiniteFlags>(options.on_nonfinite, stream)) {
  TERNGRAD_REQUIRE(options.update == nullptr, "[exchange] shards of gradients on GPUs cannot be updated by servers");
  TERNGRAD_REQUIRE(
      !has_low_rank(plan_),
      "[exchange] tensors of low rank take two rounds, which DeviceBucketedAllReduce and DeviceExchangeParts have");
  make_payloads();
  for (std::size_t g = 0; g < plan_.groups().size(); ++g) {
    const CodecPlan::Group& group = plan_.groups()[g];
    PayloadSlots* slots = nullptr;
    for (const auto& payloads : payloads_) {
      if (slots == nullptr || !payloads->slots(g).encoded.empty()) slots = &payloads->slots(g);
    }
    coders_.push_back(group.codec->make_coder(setup_, group.segments, *slots));
    scaler_gathers_.push_back(coders_.back()->gather_scalers(ranks_));
  }
  mean_payloads_ = std::make_unique<DownlinkPayloads>(
      setup_.layout, plan_, forms_,
      DownlinkPayloads::Options{.ranks = ranks_, .rank = communicator_->rank(), .owners = options_.owners},
      setup_.device);
  downlink_ =
      std::make_unique<Downlink>(setup_, plan_, coders_, forms_, mean_payloads_->parts(), communicator_->size() > 1);
  mean_check_ = std::make_unique<MeanCheck>(setup_, overflowing_tensors(coders_, options.mean_factor),
                                            max_mean(options.mean_factor));
  stream_.synchronize();
}

DeviceAllReduce::~DeviceAllReduce() = default;

std::vector<std::string> DeviceAllReduce::codecs_through_host() const {
  std::vector<std::string> names;
  for (std::size_t group = 0; group < coders_.size(); ++group) {
    if (coders_[group]->goes_through_host()) names.push_back(plan_.groups()[group].codec->name());
  }
  return names;
}

void DeviceAllReduce::make_payloads() {
  DevicePayloadsSetup setup{.layout = setup_.layout,
                            .plan = plan_,
                            .ranks = ranks_,
                            .rank = communicator_->rank(),
                            .owners = options_.owners,
                            .device = setup_.device};
  if (algorithm_ == ExchangeAlgorithm::kScatterReduce) {
    payloads_.push_back(make_scattered_payloads(setup));
    return;
  }
  if (algorithm_ == ExchangeAlgorithm::kIntegerSum) {
    setup.serves = [](const Codec& codec) { return codec.traits().summable; };
    payloads_.push_back(make_summed_payloads(setup));
    setup.serves = [](const Codec& codec) { return !codec.traits().summable; };
  }
  payloads_.push_back(make_gathered_payloads(setup));
}

void DeviceAllReduce::submit(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step) {
  nonfinite_->begin_step(stream_);
  submit(gradients, mean, step, stream_, nullptr);
}

void DeviceAllReduce::submit_part(std::span<const TensorTable> gradients, const TensorTable& mean,
                                  const DeviceStep& step, Stream& stream) {
  submit(gradients, mean, step, stream, nullptr);
}

void DeviceAllReduce::submit(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step,
                             Stream& stream, Times* times) {
  TERNGRAD_REQUIRE(static_cast<int>(gradients.size()) == setup_.workers.num_local_workers,
                   "[exchange] this process has ", setup_.workers.num_local_workers, " workers, got ", gradients.size(),
                   " gradients");
  TERNGRAD_REQUIRE(step.step >> 40 == 0, "[exchange] draws are keyed by 40 bits of the step, got ", step.step);
  const auto timed = [&](StreamTimer Times::*timer, const auto& part) {
    if (times != nullptr) (times->*timer).start(stream);
    part();
    if (times != nullptr) (times->*timer).stop(stream);
  };
  has_sent_ = true;
  timed(&Times::measure, [&] {
    for (const auto& coder : coders_) coder->measure(gradients, step, stream);
    timed(&Times::scalers, [&] { communicator_->all_gather(scaler_gathers_, stream); });
    for (const auto& coder : coders_)
      coder->combine_scalers(nonfinite_->gradients(), nonfinite_->skip_flag(), nonfinite_->stop_latched(), stream);
  });
  timed(&Times::encode, [&] {
    for (const auto& coder : coders_) coder->encode(gradients, step, stream);
  });
  timed(&Times::payloads, [&] {
    for (const auto& payloads : payloads_) payloads->submit(*communicator_, stream);
  });
  timed(&Times::decode, [&] {
    for (std::size_t group = 0; group < coders_.size(); ++group) {
      coders_[group]->aggregate(mean, forms_.unit(plan_.groups()[group].segments.front()), stream);
    }
    downlink_->measure(mean, stream);
    timed(&Times::max, [&] {
      for (std::size_t group = 0; forms_.travels() && group < coders_.size(); ++group) {
        const std::span<std::uint32_t> maxima = downlink_->maxima(group);
        if (!maxima.empty()) communicator_->all_reduce_max(maxima, stream);
      }
    });
    downlink_->scale(stream);
    downlink_->encode(mean, step, stream);
    timed(&Times::means, [&] { mean_payloads_->gather(*communicator_, stream); });
    downlink_->decode(mean, stream);
    for (const auto& coder : coders_) coder->finish(mean, whole_, step, stream);
    mean_check_->submit(
        mean,
        {.report = nonfinite_->means(), .skip = nonfinite_->skip_flag(), .stop_latched = nonfinite_->stop_latched()},
        stream);
  });
}

void DeviceAllReduce::update_memory(MemoryUpdate what, std::span<const TensorTable> encoded,
                                    std::span<const TensorTable> kept, Stream& stream) {
  TERNGRAD_REQUIRE(has_sent_, "[exchange] no step has run that could be kept");
  for (const auto& coder : coders_) {
    coder->update_memory(what, encoded, kept, nonfinite_->skip(), stream);
  }
}

ExchangeReport DeviceAllReduce::bytes() const {
  ExchangeReport result;
  const WireNodes nodes(setup_.workers, 0, options_.owners);
  nodes.count_nodes(result);
  for (const auto& coder : coders_) {
    const std::int64_t bytes = 4 * coder->num_scalers();
    nodes.add_gathered(
        result, &ExchangeBytes::scalers, [&](int) { return bytes; }, bytes * setup_.workers.num_workers);
  }
  mean_payloads_->add_bytes(result);
  for (std::size_t group = 0; forms_.travels() && group < coders_.size(); ++group) {
    const std::span<std::uint32_t> maxima = downlink_->maxima(group);
    if (!maxima.empty()) {
      nodes.add_all_reduce(result, &ExchangeBytes::mean, static_cast<std::int64_t>(maxima.size_bytes()));
    }
  }
  for (const auto& payloads : payloads_) payloads->add_bytes(result);
  return result;
}

ExchangeReport DeviceAllReduce::report(std::uint64_t step) {
  ExchangeReport result = bytes();
  nonfinite_->found(stream_).apply_policy(options_.on_nonfinite, setup_.layout, setup_.workers.num_workers, step, result);
  return result;
}

ExchangeReport DeviceAllReduce::exchange_part(std::span<const TensorTable> gradients, const TensorTable& mean,
                                              std::uint64_t step) {
  Times times(setup_.device);
  submit(gradients, mean, {step, nullptr}, stream_, &times);
  stream_.synchronize();
  ExchangeReport result = bytes();
  const double means_seconds = times.max.seconds() + times.means.seconds();
  if (communicator_->size() > 1) {
    result.wire_seconds = times.scalers.seconds() + times.payloads.seconds() + means_seconds;
  }
  result.measure_seconds = times.measure.seconds() - times.scalers.seconds();
  result.encode_seconds = times.encode.seconds();
  result.decode_seconds = times.decode.seconds() - means_seconds;
  return result;
}

ExchangeReport DeviceAllReduce::exchange(std::span<const TensorTable> gradients, const TensorTable& mean,
                                         std::uint64_t step) {
  nonfinite_->begin_step(stream_);
  ExchangeReport result = exchange_part(gradients, mean, step);
  nonfinite_->found(stream_).apply_policy(options_.on_nonfinite, setup_.layout, setup_.workers.num_workers, step, result);
  return result;
}

float DeviceAllReduce::decode_local(int local_worker, int segment, std::span<float> out) {
  TERNGRAD_REQUIRE(local_worker >= 0 && local_worker < setup_.workers.num_local_workers, "[exchange] no local worker ",
                   local_worker);
  TERNGRAD_REQUIRE(segment >= 0 && segment < setup_.layout.num_segments(), "[exchange] no tensor ", segment);
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(out.size()) == setup_.layout.segment(segment).num_elements,
                   "[exchange] tensor '", setup_.layout.segment(segment).name, "' has ",
                   setup_.layout.segment(segment).num_elements, " elements, out holds ", out.size());
  std::array<std::uint32_t, 1> skipped = {0};
  if (has_sent_) copy<std::uint32_t>({nonfinite_->skip(), 1}, std::span(skipped), stream_);
  stream_.synchronize();
  TERNGRAD_REQUIRE((has_sent_ && skipped[0] == 0) || out.empty(), "[exchange] the last step sent nothing of tensor ",
                   segment);
  const auto group = static_cast<std::size_t>(plan_.group_of(segment));
  const Coder& coder = *coders_[group];
  const PayloadSlots& slots = coder.slots();
  const Codec& codec = *plan_.groups()[group].codec;
  std::vector<float> row(static_cast<std::size_t>(coder.num_scalers()));
  copy<float>(coder.sent_scalers(setup_.workers.first_local_worker + local_worker), std::span<float>(row), stream_);
  stream_.synchronize();  // needed for an empty tensor, which has no payload to wait for
  const std::optional<StepKey> key = coder.key_of_step(stream_);
  std::vector<std::uint64_t> payload;
  float max = 0;
  for (std::size_t i = 0; i < slots.encoded.size(); ++i) {
    const Slice& slice = slots.encoded[i];
    if (slice.segment != segment) continue;
    const auto bytes = static_cast<std::size_t>(codec.max_payload_bytes(slice, slots.form));
    payload.resize((bytes + 7) / 8);
    const std::span<std::uint8_t> on_host(reinterpret_cast<std::uint8_t*>(payload.data()), bytes);
    const auto n = static_cast<std::size_t>(setup_.workers.num_local_workers);
    copy<std::uint8_t>({slots.outgoing[i * n + static_cast<std::size_t>(local_worker)], bytes}, on_host, stream_);
    stream_.synchronize();
    const auto scalers = std::span<const float>(row).subspan(static_cast<std::size_t>(coder.first_scaler(slice)),
                                                             static_cast<std::size_t>(codec.scaler_range(slice).count));
    const EncodedSlice sent{.slice = slice,
                            .format = codec.record_format(slots.form),
                            .scalers = scalers,
                            .payload = on_host,
                            .key = key,
                            .draw_offset = setup_.layout.segment(segment).draw_offset};
    codec.decode(sent, out.subspan(static_cast<std::size_t>(slice.first), static_cast<std::size_t>(slice.count)));
    for (const float scaler : scalers) max = std::max(max, scaler);
  }
  return max;
}

}  // namespace terngrad
