#include "compress/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compress/device_coder.h"
#include "kernels/errors.h"

namespace terngrad::codec_test {
namespace {

/// A codec of somebody's own, who wrote nothing for GPUs.
class OwnCodec final : public Codec {
 public:
  const std::string& name() const override {
    static const std::string own = "own";
    return own;
  }
  std::uint8_t wire_id() const override { return 200; }
  CodecTraits traits() const override { return {}; }
  ScalerSharing sharing() const override { return ScalerSharing::kMax; }
  std::string options_text() const override { return ""; }
  std::int64_t num_scalers(std::int64_t) const override { return 0; }
  ScalerRange scaler_range(const Slice&) const override { return {}; }
  std::uint8_t record_format(PayloadForm) const override { return 0; }
  std::int64_t max_payload_bytes(const Slice&, PayloadForm) const override { return 0; }
  std::unique_ptr<Encoder> make_encoder(const Layout&, std::vector<int>) const override { return nullptr; }
  void check(const EncodedSlice&) const override {}
  void aggregate(std::span<const AggregateJob>, AggregateUnit, Stream&) const override {}
  void decode(const EncodedSlice&, std::span<float>) const override {}
};

TEST(Codec, WithoutAVersionForGpusSaysSo) {
  const OwnCodec codec;
  try {
    codec.make_device_coder({}, {}, {});
    FAIL() << "expected NotSupported";
  } catch (const NotSupported& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("[own]"));
  }
}

}  // namespace
}  // namespace terngrad::codec_test
