#include "compress/exchange/exchange_bytes.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/exchange/codec_shards.h"
#include "compress/exchange/wire_bytes.h"
#include "compress/wire/scaler_messages.h"
#include "compress/wire/wire_format.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

std::int64_t scattered_bytes(DownlinkCodec downlink_codec, const Layout& layout, const CodecPlan& plan,
                             int num_workers) {
  const std::vector<std::vector<Slice>> shards = shards_by_codec(layout, plan, num_workers);
  const DownlinkForms forms(plan, downlink_codec, num_workers);
  std::vector<std::int64_t> gradient;
  std::vector<std::int64_t> mean;
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    gradient.push_back(gradient_message_bytes(plan, shards[shard], PayloadForm::kNatural));
    mean.push_back(mean_message_bytes(plan, forms, shards[shard]));
  }
  const std::int64_t all_gradient = std::accumulate(gradient.begin(), gradient.end(), std::int64_t{0});
  const std::int64_t all_mean = std::accumulate(mean.begin(), mean.end(), std::int64_t{0});
  const std::int64_t peers = num_workers - 1;
  std::int64_t most = 0;
  for (std::size_t j = 0; j < shards.size(); ++j) {
    most = std::max({most, all_gradient - gradient[j] + peers * mean[j], peers * gradient[j] + all_mean - mean[j]});
  }
  const std::int64_t max = downlink_codec == DownlinkCodec::kTernary ? 4 * plan.num_scalers() : 0;
  return most + all_reduce_bytes(max, num_workers);
}

}  // namespace

std::int64_t scalers_message_bytes(const Layout& layout, const CodecPlan& plan) {
  MessageSize size(static_cast<std::size_t>(layout.num_segments()));
  for (int segment = 0; segment < layout.num_segments(); ++segment) {
    size.add(num_told_scalers(layout, plan, segment), 0);
  }
  return parcel_bytes(static_cast<std::uint64_t>(size.bytes()));
}

std::int64_t gradient_message_bytes(const CodecPlan& plan, std::span<const Slice> slices, PayloadForm form) {
  MessageSize size(slices.size());
  for (const Slice& slice : slices) {
    const Codec& codec = plan.codec_of(slice.segment);
    size.add(codec.scaler_range(slice).count, codec.max_payload_bytes(slice, form));
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

std::int64_t busiest_worker_bytes(ExchangeAlgorithm algorithm, DownlinkCodec downlink_codec, const Layout& layout,
                                  const CodecPlan& plan, int num_workers) {
  const std::int64_t peers = num_workers - 1;
  const std::int64_t scalers = peers * scalers_message_bytes(layout, plan);
  switch (algorithm) {
    case ExchangeAlgorithm::kAllGather:
      return scalers + peers * gradient_message_bytes(plan, whole_segments(layout), PayloadForm::kNatural);
    case ExchangeAlgorithm::kScatterReduce:
      return scalers + scattered_bytes(downlink_codec, layout, plan, num_workers);
    case ExchangeAlgorithm::kIntegerSum: {
      const SummedBytes bytes = summed_bytes(layout, plan);
      return scalers + peers * bytes.gathered + all_reduce_bytes(bytes.lanes, num_workers);
    }
    default:
      TERNGRAD_THROW(InvalidArgument, "[exchange] bytes are those of an algorithm, got ", to_string(algorithm));
  }
}

SummedBytes summed_bytes(const Layout& layout, const CodecPlan& plan) {
  const std::vector<Slice> lanes = select_summable(layout, plan, true);
  TERNGRAD_REQUIRE(!lanes.empty(), "[exchange] integer_sum needs a codec whose codes add up as integers");
  SummedBytes bytes;
  for (const Slice& slice : lanes) {
    bytes.lanes += plan.codec_of(slice.segment).max_payload_bytes(slice, PayloadForm::kLanes);
  }
  const std::vector<Slice> rest = select_summable(layout, plan, false);
  if (!rest.empty()) bytes.gathered = gradient_message_bytes(plan, rest, PayloadForm::kNatural);
  return bytes;
}

std::vector<Slice> select_summable(const Layout& layout, const CodecPlan& plan, bool summable) {
  std::vector<Slice> slices;
  for (const Slice& slice : whole_segments(layout)) {
    if (plan.codec_of(slice.segment).traits().summable == summable) slices.push_back(slice);
  }
  return slices;
}

}  // namespace terngrad
