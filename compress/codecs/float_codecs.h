// Codecs that send every element as a floating-point number: fp32 and bf16, the uncompressed baselines.
#pragma once

#include "compress/codec/codec.h"

namespace terngrad {

/// Sends float32 (wire id 1) or bfloat16 rounded to nearest, ties to even (wire id 2). The mean over N workers is the
/// float32 tree-sum of the decoded values times fl(1 / N). One scaler per tensor, 0, which only carries the non-finite
/// flag.
class FloatCodec final : public Codec {
 public:
  enum class Width { kFloat32, kBfloat16 };
  FloatCodec(Width width, int num_workers);

  /// Bit pattern of the smallest magnitude that is not finite on the wire.
  static std::uint32_t first_nonfinite(Width width);

  const std::string& name() const override;
  std::uint8_t wire_id() const override { return width_ == Width::kFloat32 ? 1 : 2; }
  CodecTraits traits() const override;
  ScalerSharing sharing() const override { return ScalerSharing::kMax; }
  std::string options_text() const override;
  std::int64_t num_scalers(std::int64_t num_elements) const override { return num_elements > 0 ? 1 : 0; }
  ScalerRange scaler_range(const Slice& slice) const override { return {0, slice.count > 0 ? 1 : 0}; }
  std::uint8_t record_format(PayloadForm) const override { return 0; }
  std::int64_t max_payload_bytes(const Slice& slice, PayloadForm form) const override;
  std::unique_ptr<Coder> make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                    PayloadSlots& slots) const override;
  std::optional<LeafForm> leaf_form() const override;
  void check(const EncodedSlice& encoded) const override;
  void decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const override;

 private:
  Width width_;
  int num_workers_;
};

}  // namespace terngrad
