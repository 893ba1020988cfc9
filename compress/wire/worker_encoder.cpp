#include "compress/wire/worker_encoder.h"

#include <algorithm>
#include <cmath>

namespace terngrad {

WorkerEncoder::WorkerEncoder(const Layout& layout, const CodecPlan& plan, int worker)
    : layout_(layout),
      plan_(plan),
      worker_(worker),
      local_(static_cast<std::size_t>(plan.num_scalers())),
      own_(local_.size()) {
  for (const CodecPlan::Group& group : plan.groups()) {
    encoders_.push_back(group.codec->make_encoder(layout, group.segments));
  }
}

DrawKey WorkerEncoder::draw_key(std::uint64_t seed, std::uint64_t step) const {
  return {seed, step, static_cast<std::uint32_t>(worker_), DrawPurpose::kTernarize};
}

void WorkerEncoder::measure(const TensorTable& gradient, std::uint64_t seed, std::uint64_t step, Stream& stream) {
  const DrawKey key = draw_key(seed, step);
  for (std::size_t g = 0; g < encoders_.size(); ++g) {
    const CodecPlan::Group& group = plan_.groups()[g];
    const auto scalers_of = [&](int segment) {
      return static_cast<std::size_t>(plan_.first_scaler(segment + 1) - plan_.first_scaler(segment));
    };
    std::size_t count = 0;
    for (const int segment : group.segments) count += scalers_of(segment);
    group_scalers_.resize(count);
    encoders_[g]->measure(gradient, group_scalers_, key, stream);
    const float* from = group_scalers_.data();
    for (const int segment : group.segments) {
      std::copy_n(from, scalers_of(segment), local_.begin() + plan_.first_scaler(segment));
      from += scalers_of(segment);
    }
  }
  std::transform(local_.begin(), local_.end(), own_.begin(), [](float s) { return std::isnan(s) ? 0.0f : s; });
}

std::span<const std::uint8_t> WorkerEncoder::scalers_message(const MessageContext& context, MessageWriter& writer) {
  const auto num_segments = static_cast<std::size_t>(layout_.num_segments());
  writer.begin(MessageKind::kScalers, context, worker_, num_segments,
               max_message_bytes(num_segments, plan_.num_scalers(), 0));
  for (int segment = 0; segment < layout_.num_segments(); ++segment) {
    const auto first = static_cast<std::size_t>(plan_.first_scaler(segment));
    const auto count = static_cast<std::size_t>(plan_.first_scaler(segment + 1)) - first;
    writer.add({segment, 0, layout_.segment(segment).num_elements}, plan_.codec_of(segment).wire_id(), 0,
               std::span<const float>(local_).subspan(first, count), 0);
  }
  return writer.finish();
}

std::span<const std::uint8_t> WorkerEncoder::gradient_message(const TensorTable& gradient, const GradientPart& part,
                                                              const MessageContext& context, MessageWriter& writer,
                                                              Stream& stream) {
  const std::span<const Slice> slices = part.slices;
  const PayloadForm form = part.form;
  std::int64_t num_scalers = 0;
  std::int64_t payload_bytes = 0;
  for (const Slice& slice : slices) {
    const Codec& codec = plan_.codec_of(slice.segment);
    num_scalers += codec.scaler_range(slice).count;
    payload_bytes += codec.max_payload_bytes(slice, form);
  }
  writer.begin(MessageKind::kGradient, context, worker_, slices.size(),
               max_message_bytes(slices.size(), num_scalers, payload_bytes));
  jobs_.resize(slices.size());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Slice& slice = slices[i];
    const Codec& codec = plan_.codec_of(slice.segment);
    const Codec::ScalerRange range = codec.scaler_range(slice);
    const auto first = static_cast<std::size_t>(plan_.first_scaler(slice.segment) + range.first);
    const auto count = static_cast<std::size_t>(range.count);
    EncodeJob& job = jobs_[i];
    job.slice = slice;
    job.local = std::span<const float>(local_).subspan(first, count);
    job.shared =
        (codec.sharing() == ScalerSharing::kNone ? std::span<const float>(own_) : part.shared).subspan(first, count);
    job.payload =
        writer.add(slice, codec.wire_id(), codec.record_format(form), job.shared, codec.max_payload_bytes(slice, form));
  }
  // Slices of one codec are encoded together: whole-model launches, not one per tensor.
  const DrawKey key = draw_key(part.seed, context.step);
  for (std::size_t g = 0; g < encoders_.size(); ++g) {
    job_slices_.clear();
    for (std::size_t i = 0; i < slices.size(); ++i) {
      if (plan_.group_of(slices[i].segment) == static_cast<int>(g)) job_slices_.push_back(i);
    }
    group_jobs_.resize(job_slices_.size());
    for (std::size_t j = 0; j < job_slices_.size(); ++j) group_jobs_[j] = jobs_[job_slices_[j]];
    encoders_[g]->encode(gradient, group_jobs_, form, key, stream);
    for (std::size_t j = 0; j < job_slices_.size(); ++j) {
      writer.set_bytes(job_slices_[j], group_jobs_[j].payload_bytes);
    }
  }
  return writer.finish();
}

}  // namespace terngrad
