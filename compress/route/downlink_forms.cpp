#include "compress/route/downlink_forms.h"

#include <algorithm>

#include "kernels/runtime/errors.h"
#include "kernels/sparse/drawn_payload.h"
#include "kernels/sparse/nonzeros.h"
#include "kernels/sparse/sparse_payload.h"

namespace terngrad {

DownlinkForms::DownlinkForms(const CodecPlan& plan, DownlinkCodec codec, int num_workers, bool travels)
    : plan_(plan), codec_(codec), num_workers_(num_workers), travels_(travels) {}

bool DownlinkForms::has_fixed_size() const {
  if (codec_ == DownlinkCodec::kSparse) {
    return std::ranges::none_of(plan_.groups(),
                                [](const CodecPlan::Group& group) { return group.codec->traits().is_sparse; });
  }
  return codec_ != DownlinkCodec::kTernary || std::ranges::all_of(plan_.groups(), [](const CodecPlan::Group& group) {
           return !group.codec->traits().summable || group.codec->traits().fixed_size;
         });
}

AggregateUnit DownlinkForms::unit(int segment) const {
  const bool integer = codec_ == DownlinkCodec::kTernary || (codec_ == DownlinkCodec::kSums && travels_);
  return integer && plan_.codec_of(segment).traits().summable ? AggregateUnit::kSums : AggregateUnit::kMean;
}

MeanForm DownlinkForms::form(int segment) const {
  if (unit(segment) == AggregateUnit::kSums) {
    return codec_ == DownlinkCodec::kSums && !sum_form(segment).votes ? MeanForm::kLanes : MeanForm::kCodes;
  }
  if (codec_ == DownlinkCodec::kSparse && plan_.codec_of(segment).traits().is_sparse) return MeanForm::kSparse;
  return codec_ == DownlinkCodec::kBfloat16 ? MeanForm::kBfloat16 : MeanForm::kFloat32;
}

std::int64_t DownlinkForms::max_places(const Slice& slice) const {
  const Codec& codec = plan_.codec_of(slice.segment);
  if (const auto shape = codec.sparse_form(slice)) return std::min(slice.count, num_workers_ * num_kept(*shape));
  if (const auto shape = codec.drawn_form(slice)) return std::min(slice.count, shape->num_groups());
  return slice.count;
}

CodeFormat DownlinkForms::code_format(int segment) const {
  return form(segment) == MeanForm::kLanes ? CodeFormat::kLanes : sum_form(segment).drawn;
}

std::int64_t DownlinkForms::max_bytes(const Slice& slice) const {
  switch (form(slice.segment)) {
    case MeanForm::kFloat32:
      return 4 * slice.count;
    case MeanForm::kBfloat16:
      return (2 * slice.count + 3) / 4 * 4;
    case MeanForm::kLanes:
    case MeanForm::kCodes:
      return payload_bytes(code_format(slice.segment), slice.count, num_workers_, lane_levels(slice.segment));
    case MeanForm::kSparse:
      TERNGRAD_REQUIRE(nonzeros_fit(slice.count, max_places(slice)), "[downlink] sparse cannot hold a slice of ",
                       slice.count, " elements, of which ", max_places(slice),
                       " may not be zero; accepted: fp32, bf16, more shards, or a smaller density");
      return max_nonzero_bytes(slice.count, max_places(slice));
  }
  TERNGRAD_THROW(InvalidArgument, "[downlink] unknown form ", static_cast<int>(form(slice.segment)));
}

}  // namespace terngrad
