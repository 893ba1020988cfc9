#include "compress/codec/codec.h"
#include "kernels/statistics/scaler_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <vector>

#include "compress/codec/coder.h"
#include "compress/codecs/float_codecs.h"
#include "compress/codecs/ternary_codec.h"
#include "kernels/codes/ternarize.h"
#include "kernels/runtime/errors.h"

namespace terngrad::codec_test {
namespace {

/// A user-defined codec.
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
  std::unique_ptr<Coder> make_coder(const CoderSetup&, const std::vector<int>&, PayloadSlots&) const override {
    return nullptr;
  }
  void check(const EncodedSlice&) const override {}
  void decode_range(const EncodedSlice&, std::int64_t, std::span<float>) const override {}
};

TEST(Codec, SharesScalersOnlyWhereTheyScale) {
  const TernaryLevels asymmetric = TernaryLevels::kAsymmetric;
  EXPECT_TRUE(shares_scalers(TernaryCodec({})));
  EXPECT_TRUE(shares_scalers(TernaryCodec({.levels = asymmetric})));
  EXPECT_FALSE(shares_scalers(TernaryCodec({.sharing = ScalerSharing::kNone})));
  EXPECT_FALSE(shares_scalers(FloatCodec(FloatCodec::Width::kBfloat16, 2)));
}

TEST(Codec, ReturnsCodesThatAddUpBesideNumbers) {
  EXPECT_TRUE(may_return_codes(TernaryCodec({})));
  EXPECT_TRUE(may_return_codes(FloatCodec(FloatCodec::Width::kFloat32, 2)));
  EXPECT_FALSE(may_return_codes(TernaryCodec({.levels = TernaryLevels::kAsymmetric})));
  EXPECT_FALSE(may_return_codes(TernaryCodec({.sharing = ScalerSharing::kNone})));
}

TEST(Codec, ScalersThatAMessageCannotCarryAreRefused) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto accepts = [](const Codec& codec, float scaler) {
    const std::vector<float> scalers = {0.0f, scaler};
    try {
      check_scalers(codec, {{3, 0, 8}, 0, scalers, {}});
      return true;
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("segment 3"));
      return false;
    }
  };
  const TernaryCodec ternary({});
  const FloatCodec fp32(FloatCodec::Width::kFloat32, 1);
  for (const Codec* codec : std::initializer_list<const Codec*>{&ternary, &fp32}) {
    EXPECT_TRUE(accepts(*codec, 0.0f));
    EXPECT_EQ(accepts(*codec, kMaxScaler), codec == &ternary);
    for (const float bad : {-1.0f, nan, -nan, std::nextafter(kMaxScaler, 2 * kMaxScaler)}) {
      EXPECT_FALSE(accepts(*codec, bad)) << codec->name() << " " << bad;
    }
  }
  EXPECT_TRUE(accepts(OwnCodec(), 1e38f));
  EXPECT_FALSE(accepts(OwnCodec(), std::numeric_limits<float>::infinity()));
}

}  // namespace
}  // namespace terngrad::codec_test
