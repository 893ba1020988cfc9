// Downlink: encoding of the aggregated mean for its way back to the workers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/codec/coder.h"
#include "compress/plan/codec_plan.h"
#include "compress/route/downlink_forms.h"
#include "compress/transport/mean_part.h"
#include "kernels/codes/code_sum.h"
#include "kernels/codes/float_payload.h"
#include "kernels/codes/pack_sums.h"
#include "kernels/codes/ternarize.h"
#include "kernels/codes/tree_sum.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device_step.h"
#include "kernels/statistics/statistics.h"

namespace terngrad {

/// Encodes the parts of a mean that this rank has aggregated, and decodes those of all ranks, in place, with the same
/// bits on every device. Draws use DrawPurpose::kDownlink and worker 0, so they do not depend on which rank aggregates
/// which part. Call order: measure, scale, encode, decode. On a GPU calls submit work to the stream; with the previous
/// step's table they allocate nothing and do not wait, except for tmask.
class Downlink {
 public:
  /// @param coders  one per group of the plan, with the scalers of all workers combined
  /// @param parts   in order of shards; the caller sets their addresses before encode and decode. If the mean does not
  ///                travel, those that have a payload all the same: codes, which are drawn into it
  /// @param others_read  false if no other rank reads payloads: float32 parts then need none
  /// The plan, the coders, the forms and the parts must outlive this.
  Downlink(const CoderSetup& setup, const CodecPlan& plan, std::span<const std::unique_ptr<Coder>> coders,
           const DownlinkForms& forms, std::span<MeanPart> parts, bool others_read);

  /// For downlink codec ternary: finds the largest |sum of codes| of own parts for each scaler.
  void measure(const TensorTable& mean, Stream& stream);
  /// [scalers of the group] these maxima, as bit patterns of float32, to be reduced by maximum over all ranks before
  /// scale; empty for groups that are not measured.
  std::span<std::uint32_t> maxima(std::size_t group);
  /// Computes the scalers of drawn codes, fl(fl(s / fl(L N)) m) with the maximum m.
  void scale(Stream& stream);
  /// Scalers of a slice's payload, the same on all ranks, in the memory of the device; none for floats.
  std::span<const float> scalers(const Slice& slice) const;

  /// Writes the payloads of own parts, and on the CPU their sizes.
  void encode(const TensorTable& mean, const DeviceStep& step, Stream& stream);
  /// Writes the mean from the payloads of all parts. Own parts in float32 are left as they are.
  void decode(const TensorTable& mean, Stream& stream);

 private:
  /// Group whose codes are aggregated to integer sums.
  struct Sums {
    SumForm form;
    const Coder& coder;
    // For downlink codec sums:
    std::unique_ptr<SumPacker> packer = nullptr;
    std::vector<SumPackTask> pack_tasks = {};
    // For downlink codec ternary, and for votes, which have maximum 1 and are packed without draws:
    std::unique_ptr<StatisticsPlan> pieces = nullptr;  // runs of own sums that share a scaler
    std::size_t first_piece = 0;                       // scaler index of the first piece; the other pieces follow
    Buffer<float> max = {};                            // [num_scalers] m = max|k|
    Buffer<float> factors = {};                        // [num_scalers] fl(fl(s / fl(L N)) * m)
    std::unique_ptr<Ternarizer> ternarizer = nullptr;
    std::vector<TernarizeTask> draw_tasks = {};
    std::vector<MeanPart*> drawn = {};  // part of each task
  };

  std::size_t group_of(const Slice& slice) const { return static_cast<std::size_t>(plan_.group_of(slice.segment)); }
  void plan_pieces(Sums& sums, std::size_t group);
  /// For votes, which travel as codes with downlink codec sums, too.
  void plan_votes(Sums& sums);
  void add_encoding(MeanPart& part, const TensorTable& mean);
  void add_decoding(const MeanPart& part, MeanLeaf& leaf, const TensorTable& mean);
  void draw(Sums& sums, const DeviceStep& step, Stream& stream);
  void round_all(const TensorTable& mean, Stream& stream);

  CoderSetup setup_;
  const CodecPlan& plan_;
  const DownlinkForms& forms_;
  std::span<MeanPart> parts_;
  bool others_read_;
  std::vector<std::unique_ptr<Sums>> sums_;  // per group; null if the group is aggregated to the mean
  FloatPacker float32_, bfloat16_, rounded_;
  TreeSummer floats_;  // decodes float payloads, as sums of one leaf
  CodeSummer codes_;
  std::vector<FloatPayloadTask> float32_tasks_, bfloat16_tasks_;
  std::vector<std::int64_t> bytes_;
  std::vector<MeanLeaf> leaves_;
  std::vector<MeanTask> mean_tasks_;
  std::vector<CodeSumTask> sum_tasks_;
};

}  // namespace terngrad
