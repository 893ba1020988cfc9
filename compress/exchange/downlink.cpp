#include "compress/exchange/downlink.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "compress/codecs/float_codecs.h"
#include "kernels/codes/code_sum.h"
#include "kernels/codes/pack_sums.h"
#include "kernels/codes/ternarize.h"
#include "kernels/runtime/errors.h"
#include "kernels/sparse/nonzeros.h"
#include "kernels/sparse/sparse_payload.h"
#include "kernels/statistics/scaler_limits.h"
#include "kernels/tensor/bfloat16.h"

namespace terngrad {
namespace {

constexpr std::uint8_t kFloat32Id = 1;
constexpr std::uint8_t kBfloat16Id = 2;

}  // namespace

std::string to_string(DownlinkCodec codec) {
  switch (codec) {
    case DownlinkCodec::kFloat32:
      return "fp32";
    case DownlinkCodec::kBfloat16:
      return "bf16";
    case DownlinkCodec::kSums:
      return "sums";
    case DownlinkCodec::kTernary:
      return "ternary";
    case DownlinkCodec::kSparse:
      return "sparse";
  }
  TERNGRAD_THROW(InvalidArgument, "[downlink] unknown codec ", static_cast<int>(codec));
}

Downlink::Downlink(const Layout& layout, const CodecPlan& plan, const std::vector<std::vector<Slice>>& parts,
                   const Options& options)
    : layout_(layout), plan_(plan), forms_(plan, options.codec, options.num_workers), seed_(options.seed) {
  for (const std::vector<Slice>& slices : parts) {
    std::vector<Slice> runs;
    std::vector<std::int64_t> run_scaler;
    std::vector<std::int64_t> first_scaler;
    std::vector<std::int64_t> num_scalers;
    for (const Slice& slice : slices) {
      const Codec::ScalerRange range = plan.codec_of(slice.segment).scaler_range(slice);
      first_scaler.push_back(plan.first_scaler(slice.segment) + range.first);
      num_scalers.push_back(range.count);
      if (options.codec != DownlinkCodec::kTernary || forms_.unit(slice.segment) != AggregateUnit::kSums) continue;
      const std::int64_t block = forms_.sum_form(slice.segment).block_elements;
      const std::int64_t end = slice.first + slice.count;
      for (std::int64_t at = slice.first, b = 0; at < end; ++b) {
        const std::int64_t run_end = block == 0 ? end : std::min(end, (range.first + b + 1) * block);
        runs.push_back({slice.segment, at, run_end - at});
        run_scaler.push_back(first_scaler.back() + b);
        at = run_end;
      }
    }
    StatisticsPlan statistics_plan(runs);
    parts_.push_back({slices, std::move(first_scaler), std::move(num_scalers), std::move(statistics_plan),
                      std::move(run_scaler), std::vector<Statistics>(runs.size())});
  }
}

Downlink::RecordForm Downlink::record_form(int segment) const {
  switch (forms_.form(segment)) {
    case MeanForm::kFloat32:
      return {kFloat32Id, 0};
    case MeanForm::kBfloat16:
      return {kBfloat16Id, 0};
    case MeanForm::kLanes:
    case MeanForm::kCodes:
      return {plan_.codec_of(segment).wire_id(), static_cast<std::uint8_t>(forms_.code_format(segment))};
    case MeanForm::kSparse:
      return {plan_.codec_of(segment).wire_id(), static_cast<std::uint8_t>(SparseFormat::kRuns)};
  }
  TERNGRAD_THROW(InvalidArgument, "[downlink] unknown form ", static_cast<int>(forms_.form(segment)));
}

std::int64_t Downlink::max_message_bytes(std::size_t part) const {
  const Part& p = parts_[part];
  MessageSize size(p.slices.size());
  for (std::size_t i = 0; i < p.slices.size(); ++i) {
    const bool summed = forms_.unit(p.slices[i].segment) == AggregateUnit::kSums;
    size.add(summed ? p.num_scalers[i] : 0, forms_.max_bytes(p.slices[i]));
  }
  return size.bytes();
}

void Downlink::measure(std::size_t part, const TensorTable& aggregated, std::span<std::uint32_t> max, Stream& stream) {
  Part& p = parts_[part];
  p.runs.run(aggregated, p.statistics, stream);
  for (std::size_t i = 0; i < p.statistics.size(); ++i) {
    std::uint32_t& entry = max[static_cast<std::size_t>(p.run_scaler[i])];
    entry = std::max(entry, p.statistics[i].max_bits);
  }
}

std::span<const std::uint8_t> Downlink::encode(std::size_t part, int worker, const TensorTable& aggregated,
                                               std::span<const float> shared, std::span<const std::uint32_t> max,
                                               const MessageContext& context, MessageWriter& writer, Stream& stream) {
  const Part& p = parts_[part];
  std::int64_t num_scalers = 0;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < p.slices.size(); ++i) {
    num_scalers += p.num_scalers[i];
    bytes += forms_.max_bytes(p.slices[i]);
  }
  writer.begin(MessageKind::kMean, context, worker, p.slices.size(),
               terngrad::max_message_bytes(p.slices.size(), num_scalers, bytes));
  std::vector<float> factors;
  std::vector<float> maxima;
  for (std::size_t i = 0; i < p.slices.size(); ++i) {
    const Slice& slice = p.slices[i];
    const MeanForm form = forms_.form(slice.segment);
    const RecordForm record = record_form(slice.segment);
    const std::int64_t max_bytes = forms_.max_bytes(slice);
    const auto count = static_cast<std::size_t>(slice.count);
    const float* values = aggregated.slice(slice);
    factors.clear();
    maxima.clear();
    bool votes = false;
    if (forms_.unit(slice.segment) == AggregateUnit::kSums) {
      const SumForm sums = forms_.sum_form(slice.segment);
      votes = sums.votes;
      for (std::int64_t s = p.first_scaler[i]; s < p.first_scaler[i] + p.num_scalers[i]; ++s) {
        const auto unit_sum = static_cast<float>(max_sum(sums, forms_.num_workers()));
        const float step = shared[static_cast<std::size_t>(s)] / unit_sum;
        const float most = votes ? 1.0f : std::bit_cast<float>(max[static_cast<std::size_t>(s)]);
        maxima.push_back(most);
        factors.push_back(forms_.codec() == DownlinkCodec::kTernary ? step * most : step);
      }
    }
    std::uint8_t* payload = writer.add(slice, record.codec, record.format, factors, max_bytes);
    if (count == 0 && form == MeanForm::kFloat32) continue;  // an empty tensor may have a null address
    switch (form) {
      case MeanForm::kFloat32:
        std::memcpy(payload, values, 4 * count);
        break;
      case MeanForm::kBfloat16:
        std::memset(payload, 0, static_cast<std::size_t>(max_bytes));
        encode_bfloat16({values, count}, {reinterpret_cast<std::uint16_t*>(payload), count}, stream);
        break;
      case MeanForm::kSparse:
        writer.set_bytes(i, write_nonzeros({values, count}, forms_.max_places(slice), payload));
        break;
      case MeanForm::kLanes:
        pack_sums({values, count}, forms_.num_workers(), forms_.lane_levels(slice.segment), payload);
        break;
      case MeanForm::kCodes: {
        const TernarizeTask task{.gradient = values,
                                 .first = slice.first,
                                 .count = slice.count,
                                 .draw_offset = layout_.segment(slice.segment).draw_offset,
                                 .block_elements = forms_.sum_form(slice.segment).block_elements,
                                 .scalers = maxima.data(),
                                 .clips = nullptr,
                                 .payload = payload};
        const TernarizeOptions kernel_options{.format = forms_.code_format(slice.segment),
                                              .num_workers = forms_.num_workers(),
                                              .refine_purpose = DrawPurpose::kDownlinkRefine,
                                              .rounding = votes ? Rounding::kNearest : Rounding::kStochastic};
        const DrawKey key{seed_, context.step, 0, DrawPurpose::kDownlink};
        std::int64_t used = 0;
        ternarize({&task, 1}, kernel_options, key, {&used, 1}, stream);
        writer.set_bytes(i, used);
        break;
      }
    }
  }
  return writer.finish();
}

namespace {

/// Scalers of a mean that travels as codes are finite, since the owner's shared scalers are at most kMaxScaler.
/// @param max  largest code that a scaler can multiply
void check_scalers_of_mean(std::span<const float> scalers, int max, int worker) {
  for (const float scaler : scalers) {
    // Allows for the rounding of kMaxScaler's division by N.
    if (scaler >= 0 && static_cast<double>(scaler) * max <= 2.0 * static_cast<double>(kMaxScaler)) continue;
    TERNGRAD_THROW(CommunicationError, "[downlink] scaler ", scaler, " of worker ", worker,
                   " is none that a mean can have");
  }
}

}  // namespace

void Downlink::decode(std::size_t part, const Message& message, const TensorTable& mean, Stream& stream) const {
  const Part& p = parts_[part];
  if (message.records.size() != p.slices.size()) {
    TERNGRAD_THROW(CommunicationError, "[downlink] message of worker ", message.worker, " has ", message.records.size(),
                   " slices, its shard has ", p.slices.size());
  }
  for (std::size_t i = 0; i < p.slices.size(); ++i) {
    const Message::Record& record = message.records[i];
    const EncodedSlice& encoded = record.encoded;
    const RecordForm form = record_form(p.slices[i].segment);
    const bool summed = forms_.unit(p.slices[i].segment) == AggregateUnit::kSums;
    if (encoded.slice != p.slices[i] || record.codec != form.codec || encoded.format != form.format ||
        static_cast<std::int64_t>(encoded.scalers.size()) != (summed ? p.num_scalers[i] : 0)) {
      TERNGRAD_THROW(CommunicationError, "[downlink] slice ", i, " of worker ", message.worker,
                     " is not the one of its shard");
    }
    float* out = mean.slice(encoded.slice);
    const auto count = static_cast<std::size_t>(encoded.slice.count);
    if (forms_.form(encoded.slice.segment) == MeanForm::kSparse) {
      check_nonzeros(encoded.slice.count, forms_.max_places(encoded.slice), encoded.payload);
      read_nonzeros(encoded.payload, {out, count});
      continue;
    }
    if (!summed) {
      const FloatCodec codec(form.codec == kFloat32Id ? FloatCodec::Width::kFloat32 : FloatCodec::Width::kBfloat16, 1);
      codec.check(encoded);
      codec.decode(encoded, {out, count});
      continue;
    }
    const int segment = encoded.slice.segment;
    const SumForm sums = forms_.sum_form(segment);
    const int num_workers = forms_.num_workers();
    check_payload(
        {forms_.code_format(segment), encoded.payload, encoded.slice.count, num_workers, forms_.lane_levels(segment)});
    const int most = forms_.codec() == DownlinkCodec::kSums ? max_sum(sums, num_workers) : 1;
    check_scalers_of_mean(encoded.scalers, most, message.worker);
    const std::uint8_t* payload = encoded.payload.data();
    const auto bytes = static_cast<std::int64_t>(encoded.payload.size());
    const CodeSumTask task{.format = forms_.code_format(segment),
                           .payloads = {&payload, 1},
                           .payload_bytes = {&bytes, 1},
                           .num_workers = num_workers,
                           .first = encoded.slice.first,
                           .count = encoded.slice.count,
                           .block_elements = sums.block_elements,
                           .scales = encoded.scalers.data(),
                           .out = out,
                           .lane_levels = forms_.lane_levels(segment)};
    aggregate_code_sums({&task, 1}, stream);
  }
}

}  // namespace terngrad
