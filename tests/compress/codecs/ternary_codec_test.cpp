// Traits, options texts, checks and decoding of the ternary codec. See also
// ternary_codec_{aggregate,encode,scalers}_test.cpp.
#include "compress/codecs/ternary_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/gradients.h"
#include "support/reference.h"
#include "support/ternary_messages.h"

namespace terngrad::ternary_codec_test {
namespace {

using testing::gaussian_tensors;
using testing::kFormats;
using testing::reference_codes;
using testing::send;
using testing::Sent;
using testing::small_layout;
using testing::Tensors;

TEST(TernaryCodec, CountsOneScalerForATensorOrABlockAndNoneForNothing) {
  for (const ScalerScope scope : {ScalerScope::kLayer, ScalerScope::kModel}) {
    const TernaryCodec codec({.scope = scope, .block_elements = 64});
    EXPECT_EQ(codec.num_scalers(0), 0);
    EXPECT_EQ(codec.num_scalers(1), 1);
    EXPECT_EQ(codec.num_scalers(1 << 20), 1);
  }
  const TernaryCodec blocks({.scope = ScalerScope::kBlock, .block_elements = 64});
  EXPECT_EQ(blocks.num_scalers(0), 0);
  EXPECT_EQ(blocks.num_scalers(64), 1);
  EXPECT_EQ(blocks.num_scalers(65), 2);
  const TernaryCodec pairs({.scope = ScalerScope::kBlock, .block_elements = 64, .levels = TernaryLevels::kAsymmetric});
  EXPECT_EQ(pairs.num_scalers(0), 0);
  EXPECT_EQ(pairs.num_scalers(65), 4);
  EXPECT_EQ(TernaryCodec({.levels = TernaryLevels::kAsymmetric}).num_scalers(1 << 20), 2);
}

TEST(TernaryCodec, ASliceTouchesTheScalersOfItsBlocks) {
  const TernaryCodec layer({});
  EXPECT_EQ(layer.scaler_range({0, 8192, 100}).first, 0);
  EXPECT_EQ(layer.scaler_range({0, 8192, 100}).count, 1);
  const TernaryCodec small({.scope = ScalerScope::kBlock, .block_elements = 1984});
  EXPECT_EQ(small.scaler_range({0, 4096, 4096}).first, 2);  // blocks 2, 3 and 4
  EXPECT_EQ(small.scaler_range({0, 4096, 4096}).count, 3);
  const TernaryCodec pairs(
      {.scope = ScalerScope::kBlock, .block_elements = 1984, .levels = TernaryLevels::kAsymmetric});
  EXPECT_EQ(pairs.scaler_range({0, 4096, 4096}).first, 4);
  EXPECT_EQ(pairs.scaler_range({0, 4096, 4096}).count, 6);
  const TernaryCodec great({.scope = ScalerScope::kBlock, .block_elements = 16384});
  EXPECT_EQ(great.scaler_range({0, 20480, 4096}).first, 1);
  EXPECT_EQ(great.scaler_range({0, 20480, 4096}).count, 1);
}

TEST(TernaryCodec, LanesAreNoFormatOfTheirOwn) {
  EXPECT_THROW(TernaryCodec({.format = TernaryFormat::kLanes}), InvalidArgument);
}

TEST(TernaryCodec, IsSummableUnlessEveryWorkerKeepsItsScalerOrSignsHaveTheirOwn) {
  EXPECT_FALSE(TernaryCodec({.levels = TernaryLevels::kAsymmetric}).traits().summable);
  EXPECT_TRUE(TernaryCodec({.sharing = ScalerSharing::kMax}).traits().summable);
  EXPECT_TRUE(TernaryCodec({.sharing = ScalerSharing::kMean}).traits().summable);
  EXPECT_FALSE(TernaryCodec({.sharing = ScalerSharing::kNone}).traits().summable);
}

TEST(TernaryCodec, IsUnbiasedUnlessItClipsOrShardsTheMean) {
  EXPECT_TRUE(TernaryCodec({.sharing = ScalerSharing::kMax}).traits().unbiased);
  EXPECT_TRUE(TernaryCodec({.sharing = ScalerSharing::kNone}).traits().unbiased);
  EXPECT_FALSE(TernaryCodec({.sharing = ScalerSharing::kMean}).traits().unbiased);
  EXPECT_FALSE(TernaryCodec({.clip_factor = 2.5}).traits().unbiased);
  EXPECT_FALSE(TernaryCodec({.rounding = Rounding::kNearest}).traits().unbiased);
  EXPECT_TRUE(TernaryCodec({.rounding = Rounding::kStratified}).traits().unbiased);
  EXPECT_TRUE(TernaryCodec({.levels = TernaryLevels::kAsymmetric}).traits().unbiased);
}

TEST(TernaryCodec, StatesTheBitsOfItsFormat) {
  EXPECT_EQ(TernaryCodec({.format = TernaryFormat::kT2}).traits().bits_per_element, 2.0);
  EXPECT_EQ(TernaryCodec({.format = TernaryFormat::kT5}).traits().bits_per_element, 1.6);
  EXPECT_EQ(TernaryCodec({.format = TernaryFormat::kTMask}).traits().bits_per_element, 2.0);  // upper bound
  EXPECT_TRUE(TernaryCodec({.format = TernaryFormat::kT2}).traits().fixed_size);
  EXPECT_FALSE(TernaryCodec({.format = TernaryFormat::kTMask}).traits().fixed_size);
  EXPECT_EQ(TernaryCodec({.format = TernaryFormat::kTrans}).traits().bits_per_element, 2.0);  // upper bound
  EXPECT_FALSE(TernaryCodec({.format = TernaryFormat::kTrans}).traits().fixed_size);
}

TEST(TernaryCodec, OptionsTextDiffersInEveryOption) {
  const TernaryOptions base{.scope = ScalerScope::kBlock};
  std::vector<TernaryOptions> variants(13, base);
  variants[1].clip_factor = 2.5;
  variants[2].clip_factor = std::nextafter(2.5, 3.0);
  variants[3].rule = ScalerRule::kOriginal;
  variants[4].sharing = ScalerSharing::kMean;
  variants[5].sharing = ScalerSharing::kNone;
  variants[6].clip_scope = ClipScope::kLocal;
  variants[7].block_elements = 64;
  variants[8].format = TernaryFormat::kTMask;
  variants[9].num_workers = 2;
  variants[10].rounding = Rounding::kNearest;
  variants[11].levels = TernaryLevels::kAsymmetric;
  variants[12].rounding = Rounding::kStratified;
  for (const ScalerScope scope : {ScalerScope::kLayer, ScalerScope::kModel}) {
    variants.push_back(base);
    variants.back().scope = scope;
  }
  std::set<std::string> texts;
  for (const TernaryOptions& options : variants) texts.insert(TernaryCodec(options).options_text());
  EXPECT_EQ(texts.size(), variants.size());
}

TEST(TernaryCodec, RefusesImpossibleOptions) {
  EXPECT_THROW(TernaryCodec({.clip_factor = -1}), InvalidArgument);
  EXPECT_THROW(TernaryCodec({.clip_factor = std::numeric_limits<double>::quiet_NaN()}), InvalidArgument);
  EXPECT_THROW(TernaryCodec({.clip_factor = std::numeric_limits<double>::infinity()}), InvalidArgument);
  EXPECT_THROW(TernaryCodec({.block_elements = 63}), InvalidArgument);
  EXPECT_THROW(TernaryCodec({.block_elements = 0}), InvalidArgument);
  EXPECT_THROW(TernaryCodec({.block_elements = -64}), InvalidArgument);
  EXPECT_THROW(TernaryCodec({.num_workers = 0}), InvalidArgument);
  EXPECT_NO_THROW(TernaryCodec({.block_elements = 64}));
  const TernaryLevels asymmetric = TernaryLevels::kAsymmetric;
  EXPECT_THROW(TernaryCodec({.sharing = ScalerSharing::kMean, .levels = asymmetric}), InvalidArgument);
  EXPECT_THROW(TernaryCodec({.scope = ScalerScope::kModel, .levels = asymmetric}), InvalidArgument);
}

TEST(TernaryCodec, ASymmetricCodecSaysNothingOfLevelsToItsPeers) {
  // The text of symmetric levels must not change: existing messages and runs have it.
  EXPECT_EQ(TernaryCodec({.num_workers = 2}).options_text(),
            "clip_factor=0 scaler=paper sharing=max clip_scope=shared scope=layer format=t2 workers=2");
  EXPECT_EQ(TernaryCodec({.levels = TernaryLevels::kAsymmetric, .num_workers = 2}).options_text(),
            "clip_factor=0 scaler=paper sharing=max clip_scope=shared scope=layer format=t2 levels=asymmetric "
            "workers=2");
}

TEST(TernaryCodecCheck, AcceptsItsOwnFormsAndRefusesThoseOfOthers) {
  const Layout layout = small_layout();
  const Tensors tensors = gaussian_tensors(layout, 4);
  for (const TernaryFormat format : kFormats) {
    const TernaryCodec codec({.format = format, .num_workers = 2});
    const Sent natural = send(codec, layout, tensors, 0, {{0, 0, 9000}});
    const Sent lanes = send(codec, layout, tensors, 0, {{0, 0, 9000}}, {}, PayloadForm::kLanes);
    EXPECT_NO_THROW(codec.check(natural.slices[0]));
    EXPECT_NO_THROW(codec.check(lanes.slices[0]));
    for (const TernaryFormat other : kFormats) {
      if (other == format) continue;
      const Sent foreign = send(TernaryCodec({.format = other, .num_workers = 2}), layout, tensors, 0, {{0, 0, 9000}});
      EXPECT_THROW(codec.check(foreign.slices[0]), CommunicationError) << to_string(other);
    }
  }
}

TEST(TernaryCodecCheck, RefusesLanesWhereCodesCannotBeSummed) {
  const Layout layout = small_layout();
  const Tensors tensors = gaussian_tensors(layout, 4);
  const Sent lanes =
      send(TernaryCodec({.num_workers = 2}), layout, tensors, 0, {{0, 0, 9000}}, {}, PayloadForm::kLanes);
  const TernaryCodec codec({.sharing = ScalerSharing::kNone, .num_workers = 2});
  EXPECT_THROW(codec.check(lanes.slices[0]), CommunicationError);
}

TEST(TernaryCodecCheck, RefusesACodeThatNeverOccurs) {
  const std::vector<float> scaler = {1.0f};
  alignas(8) std::uint8_t bytes[8] = {};
  const EncodedSlice encoded{.slice = {0, 0, 16}, .format = 1, .scalers = scaler, .payload = {bytes, 4}};
  EXPECT_NO_THROW(TernaryCodec({}).check(encoded));
  bytes[1] = 0x08;  // sign bit of a zero
  EXPECT_THROW(TernaryCodec({}).check(encoded), CommunicationError);
}

TEST(TernaryCodecDecode, IsScalerTimesCodeInEveryForm) {
  const Layout layout = small_layout();
  const Tensors tensors = gaussian_tensors(layout, 9);
  const std::vector<float> shared = {1.5f, 1.25f, 1.75f, 2.0f, 3.0f, 1.0f};
  for (const TernaryFormat format : kFormats) {
    const TernaryCodec codec(
        {.scope = ScalerScope::kBlock, .block_elements = 1984, .format = format, .num_workers = 5});
    const auto codes = reference_codes(codec, layout, tensors, 2, 0, std::span(shared).first(5));
    std::vector<float> expected(9000);
    for (std::size_t i = 0; i < 9000; ++i) expected[i] = shared[i / 1984] * static_cast<float>(codes[i]);
    for (const PayloadForm form : {PayloadForm::kNatural, PayloadForm::kLanes}) {
      const Sent sent = send(codec, layout, tensors, 2, {{0, 0, 9000}}, shared, form);
      std::vector<float> decoded(9000);
      codec.decode(sent.slices[0], decoded);
      EXPECT_EQ(decoded, expected) << static_cast<int>(sent.slices[0].format);
    }
  }
}

TEST(TernaryCodecDecode, OfAsymmetricLevelsIsTheScalerOfTheSign) {
  const std::vector<float> scalers = {4, 2, 8, 1};  // s+ and s- of two blocks
  std::vector<std::uint64_t> words(4);
  words[0] = 0xd;                       // 1, -1, 0
  words[2] = std::uint64_t{0xd} << 32;  // the same codes in the third word, in block 1
  for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kNone}) {
    const TernaryCodec codec(
        {.sharing = sharing, .scope = ScalerScope::kBlock, .block_elements = 64, .levels = TernaryLevels::kAsymmetric});
    const EncodedSlice encoded{.slice = {0, 0, 100},
                               .format = 1,
                               .scalers = scalers,
                               .payload = {reinterpret_cast<const std::uint8_t*>(words.data()), 28}};
    codec.check(encoded);
    std::vector<float> decoded(100);
    codec.decode(encoded, decoded);
    std::vector<float> expected(100);
    expected[0] = 4;
    expected[1] = -2;
    expected[80] = 8;
    expected[81] = -1;
    EXPECT_EQ(decoded, expected);
    EXPECT_EQ(testing::aggregated(codec, {encoded}), expected);
  }
}

TEST(TernaryCodec, NearestRoundingHasTheLeastErrorOfAGaussian) {
  Layout layout;
  layout.add("w", {200000});
  const Tensors tensors = gaussian_tensors(layout, 3);
  const auto error_of = [&](const TernaryOptions& options) {
    const TernaryCodec codec(options);
    const Sent sent = send(codec, layout, tensors, 0, {{0, 0, 200000}});
    std::vector<float> decoded(200000);
    codec.decode(sent.slices[0], decoded);
    double error = 0;
    double squares = 0;
    int num_zeros = 0;
    for (std::size_t i = 0; i < decoded.size(); ++i) {
      const auto g = static_cast<double>(tensors.values[0][i]);
      error += std::pow(static_cast<double>(decoded[i]) - g, 2);
      squares += g * g;
      num_zeros += decoded[i] == 0;
    }
    return std::pair(error / squares, num_zeros / 200000.0);
  };
  // On a Gaussian the threshold is 0.61 sigma: 2 Phi(0.61) - 1 = 45.8 % zeros, and the error is 1 - 4 c phi(c / 2) + 2
  // c^2 (1 - Phi(c / 2)) of |g|^2, 0.190 with c = 1.22.
  const auto [error, zeros] = error_of({.clip_factor = 1.22, .rounding = Rounding::kNearest});
  EXPECT_NEAR(error, 0.190, 0.003);
  EXPECT_NEAR(zeros, 0.458, 0.005);
  for (const double c : {0.8, 2.0})
    EXPECT_GT(error_of({.clip_factor = c, .rounding = Rounding::kNearest}).first, error);
  EXPECT_GT(error_of({.clip_factor = 1.22}).first, 1.4 * error);  // stochastic rounding
}

}  // namespace
}  // namespace terngrad::ternary_codec_test
