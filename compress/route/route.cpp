#include "compress/route/route.h"

#include <algorithm>
#include <numeric>

#include "compress/comm/all_reduce_bytes.h"
#include "compress/comm/communicator.h"
#include "compress/route/codec_shards.h"
#include "compress/wire/scaler_messages.h"
#include "compress/wire/wire_format.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// Whole tensors, either those whose codes can be added as integers or all others.
std::vector<Slice> select_summable(const Layout& layout, const CodecPlan& plan, bool summable) {
  std::vector<Slice> slices = whole_segments(layout);
  std::erase_if(slices, [&](const Slice& slice) { return plan.codec_of(slice.segment).traits().summable != summable; });
  return slices;
}

/// Bytes of scatter_reduce without those of scalers.
std::int64_t scattered_bytes(const Route& route, DownlinkCodec downlink_codec, const CodecPlan& plan, int num_workers) {
  const DownlinkForms forms(plan, downlink_codec, num_workers);
  std::vector<std::int64_t> gradient;
  std::vector<std::int64_t> mean;
  for (const std::vector<Slice>& shard : route.parts) {
    gradient.push_back(gradient_message_bytes(plan, shard));
    mean.push_back(mean_message_bytes(plan, forms, shard));
  }
  const std::int64_t all_gradient = std::accumulate(gradient.begin(), gradient.end(), std::int64_t{0});
  const std::int64_t all_mean = std::accumulate(mean.begin(), mean.end(), std::int64_t{0});
  const std::int64_t peers = num_workers - 1;
  std::int64_t most = 0;
  for (std::size_t j = 0; j < gradient.size(); ++j) {
    most = std::max({most, all_gradient - gradient[j] + peers * mean[j], peers * gradient[j] + all_mean - mean[j]});
  }
  const std::int64_t max = downlink_codec == DownlinkCodec::kTernary ? 4 * plan.num_scalers() : 0;
  return most + all_reduce_bytes(max, num_workers);
}

}  // namespace

Route make_route(ExchangeAlgorithm algorithm, const Layout& layout, const CodecPlan& plan, int num_shards,
                 bool by_layout) {
  switch (algorithm) {
    case ExchangeAlgorithm::kAllGather:
      return {.algorithm = algorithm, .parts = {whole_segments(layout)}};
    case ExchangeAlgorithm::kScatterReduce:
      return {.algorithm = algorithm,
              .parts = by_layout ? shards(layout, num_shards) : shards_by_codec(layout, plan, num_shards),
              .is_scattered = true};
    case ExchangeAlgorithm::kIntegerSum: {
      Route route{.algorithm = algorithm,
                  .parts = {select_summable(layout, plan, false)},
                  .lanes = select_summable(layout, plan, true)};
      TERNGRAD_REQUIRE(!route.lanes.empty(), "[exchange] integer_sum needs a codec whose codes add up as integers");
      return route;
    }
    case ExchangeAlgorithm::kAuto:
      break;
  }
  TERNGRAD_THROW(InvalidArgument, "[exchange] a route is that of an algorithm, got ", word_of(algorithm));
}

std::int64_t scalers_message_bytes(const Layout& layout, const CodecPlan& plan) {
  MessageSize size(static_cast<std::size_t>(layout.num_segments()));
  for (int segment = 0; segment < layout.num_segments(); ++segment) {
    size.add(num_told_scalers(layout, plan, segment), 0);
  }
  return parcel_bytes(static_cast<std::uint64_t>(size.bytes()));
}

std::int64_t gradient_message_bytes(const CodecPlan& plan, std::span<const Slice> slices) {
  MessageSize size(slices.size());
  for (const Slice& slice : slices) {
    const Codec& codec = plan.codec_of(slice.segment);
    size.add(codec.scaler_range(slice).count, codec.max_payload_bytes(slice, PayloadForm::kNatural));
  }
  return parcel_bytes(static_cast<std::uint64_t>(size.bytes()));
}

std::int64_t mean_message_bytes(const CodecPlan& plan, const DownlinkForms& forms, std::span<const Slice> slices) {
  MessageSize size(slices.size());
  for (const Slice& slice : slices) {
    const bool has_scalers = forms.unit(slice.segment) == AggregateUnit::kSums;
    size.add(has_scalers ? plan.codec_of(slice.segment).scaler_range(slice).count : 0, forms.max_bytes(slice));
  }
  return parcel_bytes(static_cast<std::uint64_t>(size.bytes()));
}

std::int64_t gathered_bytes(const CodecPlan& plan, const Route& route) {
  return route.parts[0].empty() ? 0 : gradient_message_bytes(plan, route.parts[0]);
}

std::int64_t lane_bytes(const CodecPlan& plan, std::span<const Slice> slices) {
  std::int64_t bytes = 0;
  for (const Slice& slice : slices) {
    bytes += plan.codec_of(slice.segment).max_payload_bytes(slice, PayloadForm::kLanes);
  }
  return bytes;
}

std::int64_t busiest_worker_bytes(ExchangeAlgorithm algorithm, DownlinkCodec downlink_codec, const Layout& layout,
                                  const CodecPlan& plan, int num_workers) {
  const Route route = make_route(algorithm, layout, plan, num_workers);
  const std::int64_t peers = num_workers - 1;
  const std::int64_t scalers = peers * scalers_message_bytes(layout, plan);
  if (route.is_scattered) return scalers + scattered_bytes(route, downlink_codec, plan, num_workers);
  return scalers + peers * gathered_bytes(plan, route) + all_reduce_bytes(lane_bytes(plan, route.lanes), num_workers);
}

}  // namespace terngrad
