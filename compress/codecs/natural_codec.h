// Natural compression: rounding to powers of two.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compress/codec/block_codec.h"
#include "compress/codec/codec_spec.h"

namespace terngrad {

/// Options of NaturalCodec.
struct NaturalOptions {
  int bits = 8;                     // per element: 8 or 4
  bool is_l2 = false;               // 4 bits only: levels reach up to the Euclidean norm, else to max|g|
  std::int64_t block_elements = 0;  // elements per scaler, a multiple of 64; 0: one for a whole tensor
  int num_workers = 1;              // N of the run
};

/// Every element as a power of two times a scaler, rounded up or down at random so that its expected value is the
/// element (kernels/codes/exponents.h). With 8 bits the scaler is the smallest power of two that is at least max|g|, so
/// plain powers of two are sent: E|Q(g) - g|^2 <= |g|^2 / 8 (Horvath et al., "Natural compression for distributed deep
/// learning", 2019). With 4 bits the levels are 2^-6 to 1, and 0 (Ramezani-Kebrya et al., "NUQSGD: Provably
/// Communication-efficient Data-parallel SGD via Nonuniform Quantization", JMLR 2021). Draws use
/// DrawPurpose::kQuantize. Payloads: n8 and n4 (docs/wire-format.md).
class NaturalCodec final : public BlockCodec {
 public:
  /// @throws InvalidArgument unless bits is 8 or 4, and as BlockCodec
  explicit NaturalCodec(const NaturalOptions& options);

  const NaturalOptions& options() const { return options_; }

  std::uint8_t wire_id() const override { return 5; }
  CodecTraits traits() const override;
  std::string options_text() const override;
  std::unique_ptr<Coder> make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                    PayloadSlots& slots) const override;

 private:
  NaturalOptions options_;
};

/// Reads all keys of natural. @throws InvalidArgument as SpecReader
NaturalOptions read_natural_options(SpecReader& reader);

}  // namespace terngrad
