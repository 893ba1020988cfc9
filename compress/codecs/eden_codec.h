// The EDEN codec: rotated gradients at the nearest levels of a Gaussian.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compress/codec/block_codec.h"
#include "compress/codec/codec_spec.h"
#include "kernels/codes/rotate.h"
#include "kernels/statistics/codebook_scalers.h"

namespace terngrad {

/// Options of EdenCodec.
struct EdenOptions {
  int levels = 3;  // 2, 3, 4, 8 or 16
  CodebookScale scale = CodebookScale::kUnbiased;
  std::int64_t rotation = 4096;  // Codec::rotation and elements per scaler
  int num_workers = 1;           // N of the run
};

/// Each run of `rotation` elements is rotated (kernels/codes/rotate.h), after which its elements are almost normally
/// distributed, and quantized to the nearest level of a Lloyd-Max codebook (kernels/statistics/codebook.h); decoded =
/// S level. S makes the decoded run unbiased over uniform rotations, or its error least
/// (kernels/statistics/codebook_scalers.h). The error of a message |C(g) - g|^2 / |g|^2 is then, for long runs,
///
///   levels             2       3       4       8       16
///   scale=unbiased     0.571   0.235   0.133   0.0358  0.0096
///   scale=least        0.363   0.190   0.117   0.0346  0.0095
///
/// One Hadamard transform is no uniform rotation: runs with few large elements keep a bias, as do tensors and tails
/// of 2 to 7 elements. A tail, which has one scaler, is rotated twice if it is no power of two. All workers rotate
/// alike, so the errors of equal gradients are equal and do not average out; those of uncorrelated ones do. Workers do
/// not share scalers; the mean over N workers is the tree-sum (kernels/tensor/worker_tree.h) of the decoded values
/// times fl(1 / N). Nothing is drawn besides the rotation. Vargaftik et al., "EDEN: Communication-Efficient and Robust
/// Distributed Mean Estimation for Federated Learning", ICML 2022. Payload: bits, t5, e2, e3 or e4
/// (docs/wire-format.md).
class EdenCodec final : public BlockCodec {
 public:
  /// @throws InvalidArgument for an unsupported number of levels or rotation, no rotation, and as BlockCodec
  explicit EdenCodec(const EdenOptions& options);

  const EdenOptions& options() const { return options_; }

  std::uint8_t wire_id() const override { return 12; }
  CodecTraits traits() const override;
  std::int64_t rotation() const override { return options_.rotation; }
  TailRotation tail_rotation() const override { return TailRotation::kTwice; }
  std::string options_text() const override;
  std::unique_ptr<Coder> make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                    PayloadSlots& slots) const override;

 private:
  EdenOptions options_;
};

/// Reads all keys of eden. @throws InvalidArgument as SpecReader
EdenOptions read_eden_options(SpecReader& reader);

}  // namespace terngrad
