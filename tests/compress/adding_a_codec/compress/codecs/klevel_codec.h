// The k-level codec: evenly spaced levels without a zero, drawn without bias.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compress/codec/codec.h"
#include "compress/codec/codec_spec.h"

namespace terngrad {

struct KLevelOptions {
  int bits = 2;         // of an element: k = 2^bits levels; 1, 2 or 4
  int num_workers = 1;  // N of the run
};

/// Stochastic k-level quantization (Suresh et al., "Distributed mean estimation with limited communication", ICML 2017,
/// section 2.2) between s and -s, s = max|g| of the tensor, every worker its own. With K = k - 1
///
///   x = fl(fl(1 - fl(g fl(1 / s))) K / 2), kept in [0, K];  code = floor(x) + up, up with probability x - floor(x)
///   decoded = fl(fl(s / K) (K - 2 code)): code 0 is s, code K is -s; where s is 0 all codes are 0
///
/// Unbiased to within 2^-22 s; the variance of an element is (2 s / K)^2 f (1 - f), f = x - floor(x). The mean over N
/// workers is the tree-sum (kernels/tensor/worker_tree.h) of what each sent times fl(1 / N). Draws have
/// DrawPurpose::kQuantize. Payload, formats 101, 102 and 104: codes of 1, 2 and 4 bits, low bits first, in
/// ceil(n bits / 32) words of 32 bits; unused bits are 0.
class KLevelCodec final : public Codec {
 public:
  /// @throws InvalidArgument for other bits than 1, 2 and 4, or fewer than one worker
  explicit KLevelCodec(const KLevelOptions& options);

  int bits() const { return options_.bits; }

  const std::string& name() const override;
  std::uint8_t wire_id() const override { return 100; }
  CodecTraits traits() const override;
  ScalerSharing sharing() const override { return ScalerSharing::kNone; }
  std::string options_text() const override;
  std::int64_t num_scalers(std::int64_t num_elements) const override { return num_elements > 0 ? 1 : 0; }
  ScalerRange scaler_range(const Slice& slice) const override { return {0, slice.count > 0 ? 1 : 0}; }
  std::uint8_t record_format(PayloadForm) const override { return static_cast<std::uint8_t>(100 + options_.bits); }
  std::int64_t max_payload_bytes(const Slice& slice, PayloadForm form) const override;
  std::unique_ptr<Coder> make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                    PayloadSlots& slots) const override;
  void check(const EncodedSlice& encoded) const override;
  void decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const override;

 private:
  KLevelOptions options_;
};

/// Reads all keys of klevel. @throws InvalidArgument as SpecReader
KLevelOptions read_klevel_options(SpecReader& reader);

}  // namespace terngrad
