// The QSGD codec: uniform levels in 2, 4 or 8 bits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compress/codec/codec.h"
#include "compress/codec/codec_spec.h"
#include "kernels/codes/levels.h"
#include "kernels/statistics/scaler.h"

namespace terngrad {

/// Scaler s of a run of elements: the value of the highest level.
enum class LevelNorm {
  kMax,         // max|g|
  kPowerOfTwo,  // smallest power of two that is at least max|g|
  kL2,          // Euclidean norm, as in the paper's theory
  kRms,         // clip times the root mean square; larger elements saturate
};

/// Options of QsgdCodec.
struct QsgdOptions {
  int bits = 4;  // 2, 4 or 8: L = 2^(bits - 1) - 1 levels of each sign
  LevelNorm norm = LevelNorm::kMax;
  std::int64_t block_elements = 512;  // elements per scaler, a multiple of 64; 0: one for a whole tensor
  Rounding rounding = Rounding::kStochastic;
  bool is_shared = false;     // all workers use the maximum of their scalers, so that codes add up as integers
  double clip = 2.154;        // for LevelNorm::kRms
  std::int64_t rotation = 0;  // Codec::rotation
  int num_workers = 1;        // N of the run
};

/// code = sign(g) (l + up), unit = fl(s / L), decoded = fl(unit code), with l and up as in kernels/codes/levels.h. The
/// mean over N workers is the tree-sum (kernels/tensor/worker_tree.h) of the decoded values times fl(1 / N); with
/// shared scalers it is fl(s / fl(L N)) times the integer sum of codes.
///
/// Stochastic rounding, and stratified rounding (as of TernaryCodec), are unbiased, except for saturation with
/// LevelNorm::kRms. The variance of an element is (s / L)^2 f (1 - f), with f its distance from the level below in
/// units of a level. With LevelNorm::kL2 and blocks of B elements E|Q(g) - g|^2 <= min(B / L^2, sqrt(B) / L) |g|^2
/// (Alistarh et al., "QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding", NIPS 2017, lemma 3.1).
/// The paper's entropy code is not used: codes have fixed size. With a rotation, rotated elements are measured, encoded
/// and summed (Li et al., "THC: Accelerating Distributed Deep Learning Using Tensor Homomorphic Compression", NSDI
/// 2024, without its table of unequal levels). With LevelNorm::kRms, 4 bits, clip 2.154 and nearly Gaussian runs the
/// error is 0.0226 |g|^2, of which 0.0073 is saturation. Scalers are computed from rotated elements for every norm,
/// since a block shorter than a run has no norm of its own before rotation. Draws use DrawPurpose::kQuantize. Payload:
/// t2 for 2 bits, else q4 and q8 (docs/wire-format.md).
class QsgdCodec final : public Codec {
 public:
  /// @throws InvalidArgument for bits other than 2, 4, 8, a block that is not a multiple of 64, a clip that is not
  /// positive, an unsupported rotation, num_workers < 1, or shared codes whose sums can exceed 2^24
  explicit QsgdCodec(const QsgdOptions& options);

  const QsgdOptions& options() const { return options_; }

  const std::string& name() const override;
  std::uint8_t wire_id() const override { return 4; }
  CodecTraits traits() const override;
  ScalerSharing sharing() const override { return options_.is_shared ? ScalerSharing::kMax : ScalerSharing::kNone; }
  SumForm sum_form() const override;
  std::int64_t rotation() const override { return options_.rotation; }
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

 private:
  QsgdOptions options_;
};

/// Reads all keys of qsgd. @throws InvalidArgument as SpecReader
QsgdOptions read_qsgd_options(SpecReader& reader);

}  // namespace terngrad
