// DownlinkForms: storage format of each tensor's mean on its way back.
#pragma once

#include <cstdint>

#include "compress/codec/codec.h"
#include "compress/plan/codec_plan.h"
#include "compress/plan/exchange_choices.h"
#include "kernels/codes/ternary.h"

namespace terngrad {

/// Storage format of a slice of the mean on its way back.
enum class MeanForm {
  kFloat32,
  kBfloat16,
  kLanes,   // integer sums of codes
  kCodes,   // codes drawn from those sums, or votes
  kSparse,  // nonzero elements (kernels/sparse/nonzeros.h)
};

/// The storage format that a downlink codec gives each tensor of a plan: the same on CPU and GPU, in messages and in
/// payloads without headers.
class DownlinkForms {
 public:
  /// @param plan     one that require_combination accepts, or some of its tensors; must outlive this
  /// @param travels  false if every rank aggregates the whole mean: kSums then needs no integer sums, since the mean
  ///                 has the same bits
  DownlinkForms(const CodecPlan& plan, DownlinkCodec codec, int num_workers, bool travels = true);

  DownlinkCodec codec() const { return codec_; }
  int num_workers() const { return num_workers_; }
  bool travels() const { return travels_; }
  /// True if the downlink changes the mean.
  bool is_lossy() const { return codec_ == DownlinkCodec::kBfloat16 || codec_ == DownlinkCodec::kTernary; }
  /// True if max_bytes is exact for every slice. False for codes in a format of data-dependent size (tmask) and for
  /// kSparse, whose size depends on the number of nonzero elements.
  bool has_fixed_size() const;

  /// Unit in which a tensor must be aggregated: integer sums or the mean.
  AggregateUnit unit(int segment) const;
  MeanForm form(int segment) const;
  /// Upper bound on the bytes of a slice in its form, without header and scalers.
  std::int64_t max_bytes(const Slice& slice) const;

  /// Upper bound on the nonzero elements of a slice of form kSparse.
  std::int64_t max_places(const Slice& slice) const;

  // For tensors that are aggregated to sums:
  SumForm sum_form(int segment) const { return plan_.codec_of(segment).sum_form(); }
  CodeFormat code_format(int segment) const;
  /// Levels of the lanes that hold sums of a tensor's codes.
  int lane_levels(int segment) const { return 2 * sum_form(segment).levels; }

 private:
  const CodecPlan& plan_;
  DownlinkCodec codec_;
  int num_workers_;
  bool travels_;
};

}  // namespace terngrad
