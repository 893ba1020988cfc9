#include "compress/transport/downlink.h"

#include <algorithm>

#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "kernels/sparse/nonzeros.h"
#include "kernels/statistics/scaler.h"
#include "kernels/tensor/transform.h"

namespace terngrad {

Downlink::Downlink(const CoderSetup& setup, const CodecPlan& plan, std::span<const std::unique_ptr<Coder>> coders,
                   const DownlinkForms& forms, std::span<MeanPart> parts, bool others_read)
    : setup_(setup),
      plan_(plan),
      forms_(forms),
      parts_(parts),
      others_read_(others_read),
      float32_(FloatPayload::kFloat32, setup.device),
      bfloat16_(FloatPayload::kBfloat16, setup.device),
      rounded_(FloatPayload::kRoundedBfloat16, setup.device),
      floats_(setup.device),
      codes_(setup.device) {
  for (std::size_t group = 0; group < plan.groups().size(); ++group) {
    sums_.push_back(nullptr);
    const int segment = plan.groups()[group].segments.front();
    if (forms_.unit(segment) != AggregateUnit::kSums) continue;
    sums_.back().reset(new Sums{forms_.sum_form(segment), *coders[group]});
    Sums& sums = *sums_.back();
    if (forms_.codec() == DownlinkCodec::kTernary) {
      sums.ternarizer = std::make_unique<Ternarizer>(setup.device);
      plan_pieces(sums, group);
    } else if (sums.form.votes) {
      plan_votes(sums);
    } else {
      sums.packer = std::make_unique<SumPacker>(setup.workers.num_workers, forms_.lane_levels(segment), setup.device);
    }
  }
}

void Downlink::plan_pieces(Sums& sums, std::size_t group) {
  const std::int64_t block = sums.form.block_elements;
  std::vector<Slice> pieces;
  for (const MeanPart& part : parts_) {
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

void Downlink::plan_votes(Sums& sums) {
  Stream stream(setup_.device);
  sums.ternarizer = std::make_unique<Ternarizer>(setup_.device);
  sums.max = Buffer<float>(sums.coder.num_scalers(), setup_.device);
  copy<float>(std::vector<float>(sums.max.span().size(), 1.0f), sums.max.span(), stream);
  stream.synchronize();
}

void Downlink::measure(const TensorTable& mean, Stream& stream) {
  for (const auto& sums : sums_) {
    if (sums == nullptr || sums->pieces == nullptr) continue;
    fill_zero(sums->max.span(), stream);
    // Without clipping, the local scaler is the largest |sum|; sums are small integers.
    local_scalers(*sums->pieces, {&mean, 1}, 0, ScalerRule::kPaper,
                  sums->max.span().subspan(sums->first_piece, sums->pieces->slices().size()), stream);
  }
}

std::span<std::uint32_t> Downlink::maxima(std::size_t group) {
  if (sums_.at(group) == nullptr || sums_[group]->pieces == nullptr) return {};
  // Bit patterns of nonnegative floats have the same order as the floats.
  Buffer<float>& max = sums_[group]->max;
  return {reinterpret_cast<std::uint32_t*>(max.data()), max.span().size()};
}

void Downlink::scale(Stream& stream) {
  for (const auto& sums : sums_) {
    if (sums == nullptr || sums->pieces == nullptr) continue;
    multiply(sums->coder.scales(), sums->max.span(), sums->factors.span(), stream);
  }
}

std::span<const float> Downlink::scalers(const Slice& slice) const {
  const auto& sums = sums_[group_of(slice)];
  const auto count = static_cast<std::size_t>(plan_.codec_of(slice.segment).scaler_range(slice).count);
  if (sums == nullptr || count == 0) return {};
  const std::span<const float> all = sums->pieces != nullptr ? sums->factors.span() : sums->coder.scales();
  return all.subspan(static_cast<std::size_t>(sums->coder.first_scaler(slice)), count);
}

void Downlink::add_encoding(MeanPart& part, const TensorTable& mean) {
  const Slice& slice = part.slice;
  float* const values = mean.slice(slice);
  const FloatPayloadTask numbers{.values = values, .count = slice.count, .payload = part.outgoing};
  switch (forms_.form(slice.segment)) {
    case MeanForm::kFloat32:
      if (others_read_) float32_tasks_.push_back(numbers);
      break;
    case MeanForm::kBfloat16:
      bfloat16_tasks_.push_back(numbers);
      break;
    case MeanForm::kSparse:
      part.bytes =
          write_nonzeros({values, static_cast<std::size_t>(slice.count)}, forms_.max_places(slice), part.outgoing);
      break;
    case MeanForm::kLanes:
      sums_[group_of(slice)]->pack_tasks.push_back({.sums = values, .count = slice.count, .payload = part.outgoing});
      break;
    case MeanForm::kCodes: {
      Sums& sums = *sums_[group_of(slice)];
      sums.draw_tasks.push_back({.gradient = values,
                                 .first = slice.first,
                                 .count = slice.count,
                                 .draw_offset = setup_.layout.segment(slice.segment).draw_offset,
                                 .block_elements = sums.form.block_elements,
                                 .scalers = sums.max.data() + sums.coder.first_scaler(slice),
                                 .payload = part.outgoing});
      sums.drawn.push_back(&part);
      break;
    }
  }
}

void Downlink::draw(Sums& sums, const DeviceStep& step, Stream& stream) {
  const TernarizeOptions draws{.format = sums.form.drawn,
                               .refine_purpose = DrawPurpose::kDownlinkRefine,
                               .rounding = sums.form.votes ? Rounding::kNearest : Rounding::kStochastic};
  const DrawKey key{setup_.seed, step.step, 0, DrawPurpose::kDownlink};
  bytes_.resize(sums.draw_tasks.size());
  sums.ternarizer->run(sums.draw_tasks, draws, key, bytes_, stream, step.on_device);
  if (setup_.device.is_cuda()) return;  // payloads keep the size of their room
  for (std::size_t i = 0; i < bytes_.size(); ++i) sums.drawn[i]->bytes = bytes_[i];
}

void Downlink::encode(const TensorTable& mean, const DeviceStep& step, Stream& stream) {
  float32_tasks_.clear();
  bfloat16_tasks_.clear();
  for (const auto& sums : sums_) {
    if (sums == nullptr) continue;
    sums->pack_tasks.clear();
    sums->draw_tasks.clear();
    sums->drawn.clear();
  }
  for (MeanPart& part : parts_) {
    if (part.is_own) add_encoding(part, mean);
  }
  if (!float32_tasks_.empty()) float32_.run(float32_tasks_, stream);
  if (!bfloat16_tasks_.empty()) bfloat16_.run(bfloat16_tasks_, stream);
  for (const auto& sums : sums_) {
    if (sums == nullptr) continue;
    if (!sums->pack_tasks.empty()) sums->packer->run(sums->pack_tasks, stream);
    if (!sums->draw_tasks.empty()) draw(*sums, step, stream);
  }
}

void Downlink::add_decoding(const MeanPart& part, MeanLeaf& leaf, const TensorTable& mean) {
  const Slice& slice = part.slice;
  const MeanForm form = forms_.form(slice.segment);
  const auto bytes = static_cast<std::size_t>(part.bytes);
  if (form == MeanForm::kSparse) {
    return read_nonzeros({part.incoming, bytes}, {mean.slice(slice), static_cast<std::size_t>(slice.count)});
  }
  if (form == MeanForm::kFloat32 || form == MeanForm::kBfloat16) {
    if (part.is_own && form == MeanForm::kFloat32) return;  // already in place
    leaf = {.payload = {part.incoming, bytes}};
    mean_tasks_.push_back({.format = form == MeanForm::kFloat32 ? LeafFormat::kFloat32 : LeafFormat::kBfloat16,
                           .workers = {&leaf, 1},
                           .first = slice.first,
                           .count = slice.count,
                           .out = mean.slice(slice)});
    return;
  }
  sum_tasks_.push_back({.format = forms_.code_format(slice.segment),
                        .payloads = {&part.incoming, 1},
                        .payload_bytes = {&part.bytes, 1},
                        .num_workers = form == MeanForm::kLanes ? setup_.workers.num_workers : 1,
                        .first = slice.first,
                        .count = slice.count,
                        .block_elements = forms_.sum_form(slice.segment).block_elements,
                        .scales = scalers(slice).data(),
                        .out = mean.slice(slice),
                        .lane_levels = forms_.lane_levels(slice.segment)});
}

void Downlink::decode(const TensorTable& mean, Stream& stream) {
  leaves_.resize(parts_.size());
  mean_tasks_.clear();
  sum_tasks_.clear();
  for (std::size_t i = 0; i < parts_.size(); ++i) add_decoding(parts_[i], leaves_[i], mean);
  if (!mean_tasks_.empty()) floats_.run(mean_tasks_, stream);
  if (!sum_tasks_.empty()) codes_.run(sum_tasks_, stream);
  if (forms_.codec() == DownlinkCodec::kBfloat16 && !forms_.travels()) round_all(mean, stream);
}

void Downlink::round_all(const TensorTable& mean, Stream& stream) {
  float32_tasks_.clear();
  for (int segment = 0; segment < setup_.layout.num_segments(); ++segment) {
    float* const values = mean.tensor(segment);
    const std::int64_t count = setup_.layout.segment(segment).num_elements;
    float32_tasks_.push_back({.values = values, .count = count, .payload = values});
  }
  rounded_.run(float32_tasks_, stream);
}

}  // namespace terngrad
