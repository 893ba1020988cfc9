// DownlinkForms: how the mean of each tensor is stored on its way back.
#pragma once

#include <cstdint>

#include "compress/codec/codec.h"
#include "compress/exchange/downlink_codec.h"
#include "compress/plan/codec_plan.h"
#include "kernels/codes/ternary.h"

namespace terngrad {

enum class ExchangeAlgorithm;

/// How a slice of the mean is stored on its way.
enum class MeanForm {
  kFloat32,
  kBfloat16,
  kLanes,   // integer sums of codes
  kCodes,   // codes drawn of those sums, or their votes
  kSparse,  // the elements that are not zero (kernels/sparse/nonzeros.h)
};

/// @param plan   of all tensors of a run, of which parts may have only others
/// @param asked  the algorithm, kAuto not resolved
/// @throws InvalidArgument for downlink codec sparse where it can have no effect: no tensor's codec is sparse, or no
/// mean travels with the algorithm
void require_downlink(const CodecPlan& plan, DownlinkCodec codec, ExchangeAlgorithm asked);

/// What a downlink codec makes of the mean of each tensor of a plan: the same on CPU and GPU, in messages and in
/// payloads without headers.
class DownlinkForms {
 public:
  /// @param plan     outlives it
  /// @param travels  whether the mean leaves who aggregated it: sums that do not are not made, for the mean that they
  ///                 stand for has the same bits
  /// @throws InvalidArgument if codec is sums or ternary and a tensor's codes do not add up, or have a scaler of each
  /// worker's own; if it is ternary and a tensor's codes are votes
  DownlinkForms(const CodecPlan& plan, DownlinkCodec codec, int num_workers, bool travels = true);

  DownlinkCodec codec() const { return codec_; }
  int num_workers() const { return num_workers_; }
  /// Whether the mean comes back changed.
  bool is_lossy() const { return codec_ == DownlinkCodec::kBfloat16 || codec_ == DownlinkCodec::kTernary; }
  /// Whether max_bytes is exact for every slice: else codes have a format whose size depends on them (tmask), or there
  /// are as many elements as are not zero.
  bool has_fixed_size() const;

  /// What a tensor must be aggregated to: integer sums or the mean.
  AggregateUnit unit(int segment) const;
  MeanForm form(int segment) const;
  /// The most bytes that a slice has in its form, without header and scalers.
  std::int64_t max_bytes(const Slice& slice) const;

  /// Of a slice whose mean travels as its elements that are not zero: the most of them that there can be.
  std::int64_t max_places(const Slice& slice) const;

  // Of tensors that are aggregated to sums:
  SumForm sum_form(int segment) const { return plan_.codec_of(segment).sum_form(); }
  CodeFormat code_format(int segment) const;
  /// Of lanes of sums of a tensor's codes.
  int lane_levels(int segment) const { return 2 * sum_form(segment).levels; }

 private:
  const CodecPlan& plan_;
  DownlinkCodec codec_;
  int num_workers_;
  bool travels_;
};

}  // namespace terngrad
