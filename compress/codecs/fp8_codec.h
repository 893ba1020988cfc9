// The FP8 codec: E4M3 numbers, a byte each.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compress/codec/block_codec.h"
#include "compress/codec/codec_spec.h"
#include "kernels/codes/rounding.h"

namespace terngrad {

/// Options of Fp8Codec.
struct Fp8CodecOptions {
  std::int64_t block_elements = 128;  // elements per scaler, a multiple of 64; 0: one for a whole tensor
  Rounding rounding = Rounding::kNearest;
  int num_workers = 1;  // N of the run
};

/// code = e4m3(fl(g fl(1 / s))) with s = fl(M / 448) and M the largest magnitude of the run of elements, so that the
/// full range of E4M3 is used; decoded = fl(s value). Nearest rounding, ties to the even code, has an error of at most
/// |g| / 16 (plus the roundings of the scaling) for |g| >= 2^-6 s; stochastic rounding is unbiased. The mean over N
/// workers is the tree-sum (kernels/tensor/worker_tree.h) of the decoded values times fl(1 / N). Draws use
/// DrawPurpose::kQuantize.
/// Micikevicius et al., "FP8 formats for deep learning", 2022. Payload: e4m3 (docs/wire-format.md).
class Fp8Codec final : public BlockCodec {
 public:
  /// @throws InvalidArgument as BlockCodec
  explicit Fp8Codec(const Fp8CodecOptions& options);

  const Fp8CodecOptions& options() const { return options_; }

  std::uint8_t wire_id() const override { return 10; }
  CodecTraits traits() const override;
  std::string options_text() const override;
  std::unique_ptr<Coder> make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                    PayloadSlots& slots) const override;

 private:
  Fp8CodecOptions options_;
};

/// Reads all keys of fp8. @throws InvalidArgument as SpecReader
Fp8CodecOptions read_fp8_options(SpecReader& reader);

}  // namespace terngrad
