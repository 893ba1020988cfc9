// PowerSGD: low-rank approximation of a tensor by two thin factors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compress/codec/codec.h"
#include "compress/codec/codec_spec.h"

namespace terngrad {

/// Options of PowerSgdCodec.
struct PowerSgdOptions {
  int rank = 4;                                 // r, from 1 to kMaxRank
  double min_ratio = 2;                         // tensors that factors do not shrink by more than this ratio use fp32
  bool warm_start = true;                       // LowRankForm::warm_start
  ElementType factors = ElementType::kFloat32;  // LowRankForm::factors
  std::int64_t columns = 0;                     // m, last dimension of its tensors; 0: they have only one dimension
  int num_workers = 1;                          // N of the run
};

/// A tensor is seen as a matrix M [n, m], with m its last dimension, and sent as P Q^T with P [n, r'], Q [m, r'] and
/// r' = min(r, n, m), if min_ratio r' (n + m) < n m; other tensors use fp32. One step of power iteration computes the
/// factors, starting from the previous step's Q or a random one (kernels/factors):
///
///   P = orthonormal(mean of M_k Q);   Q = mean of M_k^T P;   mean gradient = P Q^T
///
/// over workers k, in two rounds that exchange floats: compress/exchange/low_rank_round.h. The residual
/// M_k - P Q_k^T is orthogonal to P; error feedback is on by default. With bf16 factors, everything sent is rounded to
/// bf16, and P once more after it is made orthonormal; both properties then hold up to that rounding.
/// Vogels, Karimireddy, Jaggi, "PowerSGD: Practical low-rank gradient compression for distributed optimization",
/// NeurIPS 2019, algorithms 1 and 2; the matrix is theirs transposed, which changes nothing.
///
/// The codec's own messages are those of an exchange with a single worker and a random Q. Payload `factors` (24):
/// P^T [r', n] and Q^T [r', m] in float32 or bfloat16, padded to 4 bytes. A tensor for which takes() is false is sent
/// in float32, and a non-finite one as zeros. Draws use worker 0 and DrawPurpose::kFactorInit. One scaler, 0, which
/// only carries the non-finite flag.
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
