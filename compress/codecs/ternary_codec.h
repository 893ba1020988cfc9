// The TernGrad codec: {-1, 0, +1} times one scaler.
#pragma once

#include "compress/codec/codec.h"
#include "compress/codec/scaled_runs.h"
#include "kernels/codes/rounding.h"
#include "kernels/codes/ternarize.h"
#include "kernels/codes/ternary.h"
#include "kernels/statistics/scaler.h"

namespace terngrad {

/// Elements that share one scaler.
enum class ScalerScope {
  kLayer,  // each tensor (as in the paper)
  kBlock,  // each run of block_elements of a tensor
  kModel,  // all tensors that use this codec
};

/// Clipping threshold of |g|.
enum class ClipScope {
  kShared,  // the shared scaler, as in the authors' public code
  kLocal,   // first the worker's own scaler, as described in the paper
};

/// Options of TernaryCodec.
struct TernaryOptions {
  double clip_factor = 0;  // c, in standard deviations; 0 = no clipping
  ScalerRule rule = ScalerRule::kPaper;
  ScalerSharing sharing = ScalerSharing::kMax;
  ClipScope clip_scope = ClipScope::kShared;
  ScalerScope scope = ScalerScope::kLayer;
  std::int64_t block_elements = 32768;  // for ScalerScope::kBlock; a multiple of 64
  TernaryFormat format = TernaryFormat::kT2;
  Rounding rounding = Rounding::kStochastic;
  TernaryLevels levels = TernaryLevels::kSymmetric;  // asymmetric: sharing max or none, scope layer or block
  std::int64_t rotation = 0;                         // Codec::rotation
  int num_workers = 1;                               // N of the run: divisor of means, and capacity of lanes
};

/// TernGrad: code_i = sign(g_i) with probability min(|g_i| / s, 1), else 0; the mean over N workers is fl(s / N) * sum
/// of codes (sharing none: the tree-sum of s_k code_k, times fl(1 / N)). Wen et al., "TernGrad: Ternary Gradients to
/// Reduce Communication in Distributed Deep Learning", NIPS 2017, sections 3 and 3.3; scaler sharing is its equation 4.
///
/// Nearest rounding: code_i = sign(g_i) if fl(2 |g_i|) >= s, else 0, without draws. It is biased, but has the smallest
/// error of all ternary codes: with clip_factor 1.22, 0.190 |g|^2 for Gaussian elements.
///
/// Stratified rounding: as stochastic for each worker, but the draws of all workers for an element are spread evenly,
/// so that their errors cancel in the mean (kernels/random/strata.h): 0.52 in place of 1.01 |mean g|^2 with
/// clip_factor 2.5 for independent Gaussian gradients of an even number of workers, a seventh for 8 equal ones. No bit
/// more is sent.
///
/// Asymmetric levels have a scaler per sign, s+ and s- (kernels/statistics/side_scalers.h): code_i = sign(g_i) with
/// probability min(|g_i| / s, 1), s that of g_i's sign, is decoded as s+ or -s-. Codes cannot be summed; the mean is
/// the tree-sum of the decoded values, times fl(1 / N), even if scalers are shared. Unclipped, the variance of an
/// element is |g_i| (s - |g_i|), so it is smaller for tensors whose two signs have different ranges.
///
/// Unbiased with stochastic or stratified rounding, sharing max or none and clip_factor 0, up to 2^-23 |g| + 2^-40 s:
/// draws have 40 bits, and elements below 2^-40 s have probability 2^-40. Clipping saturates |g| at s, and so does
/// sharing mean, which is biased even without clipping. With a rotation, rotated elements are measured, encoded and
/// summed; their max|g| is at most about sqrt(2 ln R) root mean squares of a run of R elements, for any tensor.
class TernaryCodec final : public Codec {
 public:
  /// @throws InvalidArgument for a negative or non-finite clip_factor, block_elements that is not a positive multiple
  /// of 64, an unsupported rotation, format kLanes, num_workers < 1, or asymmetric levels with sharing mean or scope
  /// model
  explicit TernaryCodec(const TernaryOptions& options);

  const TernaryOptions& options() const { return options_; }

  const std::string& name() const override;
  std::uint8_t wire_id() const override { return 3; }
  CodecTraits traits() const override;
  ScalerSharing sharing() const override { return options_.sharing; }
  std::int64_t rotation() const override { return options_.rotation; }
  SumForm sum_form() const override { return {1, kernel_block_elements(), options_.format}; }
  std::string options_text() const override;
  std::int64_t num_scalers(std::int64_t num_elements) const override;
  ScalerRange scaler_range(const Slice& slice) const override;
  std::uint8_t record_format(PayloadForm form) const override;
  std::int64_t max_payload_bytes(const Slice& slice, PayloadForm form) const override;
  std::unique_ptr<Coder> make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                    PayloadSlots& slots) const override;
  std::optional<LeafForm> leaf_form() const override;
  void check(const EncodedSlice& encoded) const override;
  void decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const override;

  /// Elements per scaler, as kernels take it: 0 unless the scope is block.
  std::int64_t kernel_block_elements() const {
    return options_.scope == ScalerScope::kBlock ? options_.block_elements : 0;
  }
  bool is_asymmetric() const { return options_.levels == TernaryLevels::kAsymmetric; }

 private:
  /// Scalers per run of elements.
  int scalers_each() const { return is_asymmetric() ? 2 : 1; }

  TernaryOptions options_;
};

}  // namespace terngrad
