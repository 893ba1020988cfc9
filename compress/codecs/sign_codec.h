// The sign codec: one bit per element.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compress/codec/block_codec.h"
#include "compress/codec/codec_spec.h"
#include "kernels/codes/signs.h"

namespace terngrad {

/// Magnitude s of the decoded signs of a run of n elements.
enum class SignScale : std::uint8_t {
  kL1,     // mean magnitude, fl(A / n) with A = sum |g|
  kL2,     // root mean square, fl(sqrt(S2 / n)) with S2 = sum g^2
  kDrive,  // fl(S2 / A)
  kOne,    // 1
};

/// Options of SignCodec.
struct SignCodecOptions {
  bool votes = false;  // mean is a majority vote of all workers; else mean of decoded messages
  SignScale scale = SignScale::kL1;
  ZeroSign zeros = ZeroSign::kAlternate;
  std::int64_t block_elements = 0;  // elements per scaler, a multiple of 64; 0: one for a whole tensor
  std::int64_t rotation = 0;        // Codec::rotation; 0 with votes
  int num_workers = 1;              // N of the run
};

/// The sign of each element (kernels/codes/signs.h), decoded = +-s.
///
/// Means (votes = false): every worker has its own s. kL1 is the codec of Karimireddy et al. ("Error Feedback Fixes
/// SignSGD and other Gradient Compression Schemes", ICML 2019), with |C(g) - g|^2 = (1 - A^2 / (n S2)) |g|^2, the
/// minimum over s; kL2 keeps the norm, as in 1-bit Adam; kDrive keeps the projection on g (Vargaftik et al., "DRIVE:
/// One-bit Distributed Mean Estimation", NeurIPS 2021). The mean over N workers is the tree-sum
/// (kernels/tensor/worker_tree.h) of the decoded values times fl(1 / N). With a rotation, rotated elements are
/// measured, encoded and summed, as in DRIVE.
///
/// Votes: the mean is fl(s v), v the sign of the majority of workers, 0 on a tie (Bernstein et al., "signSGD:
/// Compressed Optimisation for Non-Convex Problems", ICML 2018, algorithm 2); s is 1 (kOne, as in the paper) or the
/// mean over workers of fl(A / n) (kL1). A worker's non-finite tensor counts as zeros. A vote is not a sum, so error
/// feedback cannot make up for the loss of a worker's message.
///
/// Payload: bits, or counts of negative signs in lanes of one level (docs/wire-format.md).
class SignCodec final : public BlockCodec {
 public:
  /// @throws InvalidArgument for a scale that means or votes do not support, blocks with SignScale::kOne, votes of more
  /// workers than lanes can sum, votes with a rotation, an unsupported rotation, and as BlockCodec
  explicit SignCodec(const SignCodecOptions& options);

  const SignCodecOptions& options() const { return options_; }

  std::uint8_t wire_id() const override { return 6; }
  CodecTraits traits() const override;
  ScalerSharing sharing() const override;
  SumForm sum_form() const override;
  std::int64_t rotation() const override { return options_.rotation; }
  std::string options_text() const override;
  std::uint8_t record_format(PayloadForm form) const override;
  std::int64_t max_payload_bytes(const Slice& slice, PayloadForm form) const override;
  std::unique_ptr<Coder> make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                    PayloadSlots& slots) const override;
  void check(const EncodedSlice& encoded) const override;
  void decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const override;

 private:
  bool is_lanes(const EncodedSlice& encoded) const;

  SignCodecOptions options_;
};

/// Reads all keys of sign. @throws InvalidArgument as SpecReader, and for a scale that does not fit the reduction
SignCodecOptions read_sign_options(SpecReader& reader);

}  // namespace terngrad
