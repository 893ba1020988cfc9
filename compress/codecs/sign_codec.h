// The sign codec: one bit for each element.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compress/codec/block_codec.h"
#include "compress/codec/codec_spec.h"
#include "kernels/codes/signs.h"

namespace terngrad {

/// What a sign stands for.
enum class SignScale : std::uint8_t {
  kL1,     // the mean magnitude, fl(A / n) with A = sum |g|
  kL2,     // fl(sqrt(S2 / n))
  kDrive,  // fl(S2 / A)
  kOne,    // 1
};

struct SignCodecOptions {
  bool votes = false;  // the mean is a vote of all workers; else of what each sent
  SignScale scale = SignScale::kL1;
  ZeroSign zeros = ZeroSign::kAlternate;
  std::int64_t block_elements = 0;  // elements per scaler, a multiple of 64; 0: one for a whole tensor
  std::int64_t rotation = 0;        // Codec::rotation; 0 with votes
  int num_workers = 1;              // N of the run
};

/// A sign for each element (kernels/codes/signs.h), decoded = +-s.
///
/// Means: every worker has its own s. With kL1 that is what Karimireddy et al. send ("Error Feedback Fixes SignSGD and
/// other Gradient Compression Schemes", ICML 2019), |C(g) - g|^2 = (1 - A^2 / (n S2)) |g|^2, the least of all s; with
/// kL2 the norm is kept, as in 1-bit Adam; with kDrive the projection on g (Vargaftik et al., "DRIVE: One-bit
/// Distributed Mean Estimation", NeurIPS 2021). The mean over N workers is the tree-sum (kernels/tensor/worker_tree.h)
/// of what each sent times fl(1 / N). What is rotated is measured, encoded and summed so, as in DRIVE.
///
/// Votes: the mean is fl(s v), v the sign that most workers have, 0 where as many are negative as not (Bernstein et
/// al., "signSGD: Compressed Optimisation for Non-Convex Problems", ICML 2018, algorithm 2); s is 1 (kOne, the paper's)
/// or the mean of all workers' fl(A / n) (kL1). Elements of a worker whose tensor is not finite count as zeros. A vote
/// is no sum: what one worker's message loses cannot be made up for in the next.
///
/// Payload: bits, or counts of negatives in lanes of one level (docs/wire-format.md).
class SignCodec final : public BlockCodec {
 public:
  /// @throws InvalidArgument for a scale that means, or votes, do not have, blocks with SignScale::kOne, more workers
  /// that vote than can be summed, votes of what is rotated, runs that cannot be rotated, and as BlockCodec
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

/// Reads all keys of sign. @throws InvalidArgument as SpecReader, and for a scale that does not go with the reduction
SignCodecOptions read_sign_options(SpecReader& reader);

}  // namespace terngrad
