#include "compress/exchange/device/device_downlink.h"

#include <algorithm>

#include "compress/exchange/codec_shards.h"
#include "compress/exchange/wire_bytes.h"
#include "kernels/codes/ternary.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler.h"
#include "kernels/tensor/transform.h"

namespace terngrad {

void require_device_downlink(DownlinkCodec codec) {
  TERNGRAD_REQUIRE(codec != DownlinkCodec::kSparse,
                   "[downlink] sparse has no kernels for GPUs; accepted for gradients in their memory: fp32, bf16, and "
                   "with codes that add up sums, ternary");
}

DeviceDownlink::DeviceDownlink(const CoderSetup& setup, const CodecPlan& plan,
                               std::span<const std::unique_ptr<Coder>> coders, const Options& options)
    : setup_(setup),
      plan_(plan),
      options_(options),
      forms_(plan, options.codec, setup.workers.num_workers, options.travels),
      float32_(FloatPayload::kFloat32, setup.device),
      bfloat16_(FloatPayload::kBfloat16, setup.device),
      rounded_(FloatPayload::kRoundedBfloat16, setup.device),
      floats_(setup.device),
      codes_(setup.device) {
  require_device_downlink(options.codec);
  for (std::size_t group = 0; group < plan.groups().size(); ++group) {
    sums_.push_back(nullptr);
    if (forms_.unit(plan.groups()[group].segments.front()) != AggregateUnit::kSums) continue;
    sums_.back().reset(new Sums{plan.groups()[group].codec->sum_form(), *coders[group]});
  }
  const std::vector<std::vector<Slice>> whole = {whole_segments(setup_.layout)};
  const int num_shards = options_.owners == ShardOwners::kWorkers ? setup_.workers.num_workers : 1;
  shards_ = std::make_unique<DownlinkPayloads>(
      options_.travels ? shards_by_codec(setup_.layout, plan, num_shards) : whole,
      DownlinkPayloads::Options{.ranks = options_.ranks,
                                .rank = options_.rank,
                                .owners = options_.owners,
                                .travels = options_.travels,
                                .bytes_of = [this](const Slice& slice) { return bytes_of(slice); }},
      setup_.device);
  for (const MeanPart& part : shards_->parts()) pointers_.push_back(part.payload);
  for (std::size_t group = 0; group < sums_.size(); ++group) {
    if (sums_[group] == nullptr) continue;
    if (options.codec == DownlinkCodec::kTernary) {
      sums_[group]->ternarizer = std::make_unique<Ternarizer>(setup.device);
      plan_pieces(*sums_[group], group);
    } else if (sums_[group]->form.votes) {
      plan_votes(*sums_[group]);
    } else {
      const int lane_levels = forms_.lane_levels(plan.groups()[group].segments.front());
      sums_[group]->packer = std::make_unique<SumPacker>(setup.workers.num_workers, lane_levels, setup.device);
    }
  }
}

std::int64_t DeviceDownlink::bytes_of(const Slice& slice) const {
  // A mean that does not travel needs no payload, except for codes, which are drawn into it.
  const bool has_payload = options_.travels || forms_.form(slice.segment) == MeanForm::kCodes;
  return has_payload ? forms_.max_bytes(slice) : 0;
}

void DeviceDownlink::plan_pieces(Sums& sums, std::size_t group) {
  const std::int64_t block = sums.form.block_elements;
  std::vector<Slice> pieces;
  for (const MeanPart& part : shards_->parts()) {
    if (!part.is_own || group_of(part.slice) != group) continue;
    const std::int64_t end = part.slice.first + part.slice.count;
    for (std::int64_t at = part.slice.first; at < end;) {
      const std::int64_t piece_end = block == 0 ? end : std::min(end, (at / block + 1) * block);
      // A rank's shards are adjacent, so elements with the same scaler form one run.
      const bool continues =
          !pieces.empty() && pieces.back().segment == part.slice.segment && (block == 0 || at % block != 0);
      if (continues) {
        pieces.back().count += piece_end - at;
      } else {
        pieces.push_back({part.slice.segment, at, piece_end - at});
      }
      at = piece_end;
    }
  }
  if (!pieces.empty()) sums.first_piece = static_cast<std::size_t>(sums.coder.first_scaler(pieces.front()));
  sums.pieces = std::make_unique<StatisticsPlan>(pieces, setup_.device);
  sums.max = Buffer<float>(sums.coder.num_scalers(), setup_.device);
  sums.factors = Buffer<float>(sums.coder.num_scalers(), setup_.device);
}

void DeviceDownlink::plan_votes(Sums& sums) {
  Stream stream(setup_.device);
  sums.ternarizer = std::make_unique<Ternarizer>(setup_.device);
  sums.max = Buffer<float>(sums.coder.num_scalers(), setup_.device);
  copy<float>(std::vector<float>(sums.max.span().size(), 1.0f), sums.max.span(), stream);
  stream.synchronize();
}

void DeviceDownlink::submit(const TensorTable& mean, const DeviceStep& step, DeviceCommunicator& communicator,
                            Stream& stream, Times* times) {
  measure(mean, communicator, stream, times != nullptr ? &times->max : nullptr);
  encode(mean, step, stream);
  if (times != nullptr) times->means.start(stream);
  shards_->gather(communicator, stream);
  if (times != nullptr) times->means.stop(stream);
  decode(mean, stream);
  if (options_.codec == DownlinkCodec::kBfloat16 && !options_.travels) round_all(mean, stream);
}

void DeviceDownlink::add_bytes(ExchangeBytes& report) const {
  shards_->add_bytes(report);
  if (!options_.travels) return;
  const WireNodes nodes(setup_.workers, 0, options_.owners);
  for (const auto& sums : sums_) {
    if (sums == nullptr || sums->pieces == nullptr) continue;
    const auto bytes = static_cast<std::int64_t>(sums->max.span().size_bytes());
    nodes.add_all_reduce(report, &ExchangeBytes::mean, bytes);
  }
}

void DeviceDownlink::measure(const TensorTable& mean, DeviceCommunicator& communicator, Stream& stream,
                             StreamTimer* timer) {
  const auto for_each_measured = [&](const auto& body) {
    for (const auto& sums : sums_) {
      if (sums != nullptr && sums->pieces != nullptr) body(*sums);
    }
  };
  for_each_measured([&](Sums& sums) {
    fill_zero(sums.max.span(), stream);
    // Without clipping, the local scaler is the largest |sum|; sums are small integers.
    local_scalers(*sums.pieces, {&mean, 1}, 0, ScalerRule::kPaper,
                  sums.max.span().subspan(sums.first_piece, sums.pieces->slices().size()), stream);
  });
  if (timer != nullptr) timer->start(stream);
  for_each_measured([&](Sums& sums) {
    if (!options_.travels) return;
    // Bit patterns of nonnegative floats have the same order as the floats.
    auto* const bits = reinterpret_cast<std::uint32_t*>(sums.max.data());
    communicator.all_reduce_max({bits, sums.max.span().size()}, stream);
  });
  if (timer != nullptr) timer->stop(stream);
  for_each_measured([&](Sums& sums) { multiply(sums.coder.scales(), sums.max.span(), sums.factors.span(), stream); });
}

TernarizeTask DeviceDownlink::draw_task(const MeanPart& part, const TensorTable& mean) const {
  const Sums& sums = *sums_[group_of(part.slice)];
  return {.gradient = mean.slice(part.slice),
          .first = part.slice.first,
          .count = part.slice.count,
          .draw_offset = setup_.layout.segment(part.slice.segment).draw_offset,
          .block_elements = sums.form.block_elements,
          .scalers = sums.max.data() + sums.coder.first_scaler(part.slice),
          .payload = part.payload};
}

void DeviceDownlink::encode(const TensorTable& mean, const DeviceStep& step, Stream& stream) {
  float32_tasks_.clear();
  bfloat16_tasks_.clear();
  for (const auto& sums : sums_) {
    if (sums == nullptr) continue;
    sums->pack_tasks.clear();
    sums->draw_tasks.clear();
  }
  for (const MeanPart& part : shards_->parts()) {
    if (!part.is_own) continue;
    const FloatPayloadTask numbers{
        .values = mean.slice(part.slice), .count = part.slice.count, .payload = part.payload};
    switch (forms_.form(part.slice.segment)) {
      case MeanForm::kFloat32:
        // With a single rank, the values are used in place.
        if (options_.ranks.size() > 1) float32_tasks_.push_back(numbers);
        break;
      case MeanForm::kBfloat16:
        bfloat16_tasks_.push_back(numbers);
        break;
      case MeanForm::kLanes:
        sums_[group_of(part.slice)]->pack_tasks.push_back(
            {.sums = mean.slice(part.slice), .count = numbers.count, .payload = part.payload});
        break;
      case MeanForm::kCodes:
        sums_[group_of(part.slice)]->draw_tasks.push_back(draw_task(part, mean));
        break;
      case MeanForm::kSparse:
        break;  // refused by the constructor
    }
  }
  if (!float32_tasks_.empty()) float32_.run(float32_tasks_, stream);
  if (!bfloat16_tasks_.empty()) bfloat16_.run(bfloat16_tasks_, stream);
  const DrawKey key{setup_.seed, step.step, 0, DrawPurpose::kDownlink};
  for (const auto& sums : sums_) {
    if (sums == nullptr) continue;
    if (!sums->pack_tasks.empty()) sums->packer->run(sums->pack_tasks, stream);
    if (sums->draw_tasks.empty()) continue;
    const TernarizeOptions draws{.format = sums->form.drawn,
                                 .num_workers = 1,
                                 .refine_purpose = DrawPurpose::kDownlinkRefine,
                                 .rounding = sums->form.votes ? Rounding::kNearest : Rounding::kStochastic};
    bytes_.resize(sums->draw_tasks.size());
    sums->ternarizer->run(sums->draw_tasks, draws, key, bytes_, stream, step.on_device);
  }
}

CodeSumTask DeviceDownlink::code_task(std::size_t index, const TensorTable& mean) const {
  const MeanPart& part = shards_->parts()[index];
  const Sums& sums = *sums_[group_of(part.slice)];
  const bool is_lanes = forms_.form(part.slice.segment) == MeanForm::kLanes;
  const bool is_scaled = is_lanes || sums.form.votes;  // with the coder's scales
  const std::span<const float> scales = is_scaled ? sums.coder.scales() : std::span<const float>(sums.factors.span());
  return {.format = forms_.code_format(part.slice.segment),
          .payloads = {&pointers_[index], 1},
          .payload_bytes = {&part.bytes, 1},
          .num_workers = is_lanes ? setup_.workers.num_workers : 1,
          .first = part.slice.first,
          .count = part.slice.count,
          .block_elements = sums.form.block_elements,
          .scales = scales.data() + sums.coder.first_scaler(part.slice),
          .out = mean.slice(part.slice),
          .lane_levels = forms_.lane_levels(part.slice.segment)};
}

void DeviceDownlink::decode(const TensorTable& mean, Stream& stream) {
  const std::span<const MeanPart> parts = shards_->parts();
  leaves_.resize(parts.size());
  mean_tasks_.clear();
  sum_tasks_.clear();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const MeanPart& part = parts[i];
    const MeanForm form = forms_.form(part.slice.segment);
    if (form == MeanForm::kLanes || form == MeanForm::kCodes) {
      sum_tasks_.push_back(code_task(i, mean));
      continue;
    }
    if (part.is_own && form == MeanForm::kFloat32) continue;  // already in place
    leaves_[i] = {.payload = {part.payload, static_cast<std::size_t>(part.bytes)}};
    mean_tasks_.push_back({.format = form == MeanForm::kFloat32 ? LeafFormat::kFloat32 : LeafFormat::kBfloat16,
                           .workers = {&leaves_[i], 1},
                           .first = part.slice.first,
                           .count = part.slice.count,
                           .out = mean.slice(part.slice)});
  }
  if (!mean_tasks_.empty()) floats_.run(mean_tasks_, stream);
  if (!sum_tasks_.empty()) codes_.run(sum_tasks_, stream);
}

void DeviceDownlink::round_all(const TensorTable& mean, Stream& stream) {
  float32_tasks_.clear();
  for (int segment = 0; segment < setup_.layout.num_segments(); ++segment) {
    float* values = mean.tensor(segment);
    const std::int64_t count = setup_.layout.segment(segment).num_elements;
    float32_tasks_.push_back({.values = values, .count = count, .payload = values});
  }
  rounded_.run(float32_tasks_, stream);
}

}  // namespace terngrad
