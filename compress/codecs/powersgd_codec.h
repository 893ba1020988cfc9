// PowerSGD: a tensor as the product of two thin factors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compress/codec/codec.h"
#include "compress/codec/codec_spec.h"

namespace terngrad {

struct PowerSgdOptions {
  int rank = 4;            // r, from 1 to kMaxRank
  double min_ratio = 2;    // tensors whose factors are not smaller by more than that travel as fp32
  bool warm_start = true;  // LowRankForm::warm_start
  ElementType factors = ElementType::kFloat32;  // LowRankForm::factors
  std::int64_t columns = 0;                     // m, the last dimension of its tensors; 0: they have one dimension only
  int num_workers = 1;                          // N of the run
};

/// A tensor counts as a matrix M [n, m], m its last dimension, and is sent as P Q^T, P [n, r'] and Q [m, r'],
/// r' = min(r, n, m), if min_ratio r' (n + m) < n m; others travel as fp32. One step of power iteration finds the
/// factors, from a Q that the last step has found or that is drawn (kernels/factors):
///
///   P = orthonormal(mean of M_k Q);   Q = mean of M_k^T P;   mean gradient = P Q^T
///
/// over workers k, so in two rounds of numbers: compress/exchange/low_rank_all_reduce.h. What is left out,
/// M_k - P Q_k^T, is orthogonal to P; error feedback is on by default. With factors of bf16 what travels is rounded to
/// it, and P once more when it is orthonormal: P is then orthonormal, and the rest orthogonal to it, up to that
/// rounding.
/// Vogels, Karimireddy, Jaggi, "PowerSGD: Practical low-rank gradient compression for distributed optimization",
/// NeurIPS 2019, algorithms 1 and 2; the matrix is theirs transposed, which changes nothing.
///
/// The codec's own messages are of one worker with a drawn Q: what that would send in an exchange of its own. Payload
/// `factors` (24): P^T [r', n] and Q^T [r', m] in float32 or bfloat16, filled up to 4 bytes; a tensor that is not
/// taken in float32, and zeros of one that is not finite. Draws have worker 0 and DrawPurpose::kFactorInit. One scaler,
/// 0, which only carries the non-finite flag.
class PowerSgdCodec final : public Codec {
 public:
  /// @throws InvalidArgument for options out of range
  explicit PowerSgdCodec(const PowerSgdOptions& options);

  const PowerSgdOptions& options() const { return options_; }

  const std::string& name() const override;
  std::uint8_t wire_id() const override { return 11; }
  CodecTraits traits() const override;
  ScalerSharing sharing() const override { return ScalerSharing::kMax; }
  std::string options_text() const override;
  std::int64_t num_scalers(std::int64_t num_elements) const override { return num_elements > 0 ? 1 : 0; }
  ScalerRange scaler_range(const Slice& slice) const override { return {0, slice.count > 0 ? 1 : 0}; }
  std::uint8_t record_format(PayloadForm) const override { return 24; }
  std::int64_t max_payload_bytes(const Slice& slice, PayloadForm form) const override;
  bool takes(std::int64_t num_elements) const override;
  std::optional<LowRankForm> low_rank() const override {
    return LowRankForm{.rank = options_.rank, .warm_start = options_.warm_start, .factors = options_.factors};
  }
  std::unique_ptr<Coder> make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                    PayloadSlots& slots) const override;
  void check(const EncodedSlice& encoded) const override;
  void decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const override;

 private:
  PowerSgdOptions options_;
};

/// Reads all keys of powersgd. @throws InvalidArgument as SpecReader
PowerSgdOptions read_powersgd_options(SpecReader& reader);

}  // namespace terngrad
