#include "compress/codecs/ternary_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernels/codes/ternarize.h"
#include "kernels/statistics/scaler.h"
#include "support/gradients.h"
#include "support/reference.h"
#include "support/ternary_messages.h"

namespace terngrad::ternary_codec_encode_test {
namespace {

using reference::Bytes;
using testing::all_segments;
using ::testing::Each;
using testing::gaussian_tensors;
using testing::kFormats;
using testing::kSeed;
using testing::kStep;
using testing::measured;
using testing::reference_codes;
using testing::send;
using testing::Sent;
using testing::small_layout;
using testing::Tensors;

TEST(TernaryCodecEncode, PacksTheReferenceCodesInEveryForm) {
  const Layout layout = small_layout();
  const Tensors tensors = gaussian_tensors(layout, 4);
  const auto segments = whole_segments(layout);
  for (const TernaryFormat format : kFormats) {
    const TernaryCodec codec({.clip_factor = 2.5, .format = format, .num_workers = 3});
    for (const PayloadForm form : {PayloadForm::kNatural, PayloadForm::kLanes}) {
      const Sent sent = send(codec, layout, tensors, 5, segments, {1.5f, 3.0f}, form);
      const auto big = reference_codes(codec, layout, tensors, 5, 0, std::vector{1.5f});
      const auto few = reference_codes(codec, layout, tensors, 5, 2, std::vector{3.0f});
      const int number = codec.record_format(form);
      EXPECT_EQ(number, form == PayloadForm::kLanes ? 4 : static_cast<int>(format));
      EXPECT_EQ(sent.payload(0), reference::pack(big, number, 3)) << number;
      EXPECT_EQ(sent.payload(2), reference::pack(few, number, 3)) << number;
    }
  }
}

TEST(TernaryCodecEncode, GivesTheSameCodesForAnyCutIntoSlices) {
  const Layout layout = small_layout();
  const Tensors tensors = gaussian_tensors(layout, 4);
  for (const std::int64_t block : {1984, 4096}) {  // 4096: codes are drawn while measuring
    const TernaryCodec codec(
        {.sharing = ScalerSharing::kNone, .scope = ScalerScope::kBlock, .block_elements = block, .num_workers = 2});
    const Bytes whole = send(codec, layout, tensors, 1, {{0, 0, 9000}}).payload(0);
    const Sent cut = send(codec, layout, tensors, 1, {{0, 8192, 808}, {0, 0, 4096}, {0, 4096, 4096}});
    Bytes joined = cut.payload(1);
    for (const std::size_t slice : {2u, 0u}) {
      const Bytes piece = cut.payload(slice);
      joined.insert(joined.end(), piece.begin(), piece.end());
    }
    EXPECT_EQ(joined, whole) << block;
  }
}

TEST(TernaryCodecEncode, ClipScopeLocalSaturatesAtTheWorkersOwnScaler) {
  const Layout layout = small_layout();
  const Tensors tensors = gaussian_tensors(layout, 6);
  const TernaryCodec codec({.clip_factor = 1, .clip_scope = ClipScope::kLocal, .num_workers = 2});
  const float own = measured(codec, layout, tensors)[0];
  const Sent sent = send(codec, layout, tensors, 1, {{0, 0, 9000}}, {3 * own, 3.0f});
  const auto codes = reference_codes(codec, layout, tensors, 1, 0, std::vector{3 * own}, std::vector{own});
  EXPECT_EQ(sent.payload(0), reference::pack_t2(codes));

  // Clipped at a third of the scaler, elements give a non-zero code with probability 1/3, whatever their magnitude.
  std::vector<float> decoded(9000);
  codec.decode(sent.slices[0], decoded);
  double saturated = 0;
  double nonzero = 0;
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    if (std::fabs(tensors.values[0][i]) < own) continue;
    ++saturated;
    if (decoded[i] != 0) ++nonzero;
  }
  ASSERT_GT(saturated, 2000);
  EXPECT_NEAR(nonzero / saturated, 1.0 / 3, 5 * std::sqrt(2.0 / 9 / saturated));
}

TEST(TernaryCodecEncode, ClipScopeSharedDoesNotSaturateBelowTheSharedScaler) {
  const Layout layout = small_layout();
  const Tensors tensors = gaussian_tensors(layout, 6);
  const TernaryCodec codec({.clip_factor = 1, .clip_scope = ClipScope::kShared, .num_workers = 2});
  const float own = measured(codec, layout, tensors)[0];
  const Sent sent = send(codec, layout, tensors, 1, {{0, 0, 9000}}, {3 * own, 3.0f});
  EXPECT_EQ(sent.payload(0), reference::pack_t2(reference_codes(codec, layout, tensors, 1, 0, std::vector{3 * own})));
}

TEST(TernaryCodecEncode, ClipScopeLocalChangesNothingWithoutClipping) {
  const Layout layout = small_layout();
  const Tensors tensors = gaussian_tensors(layout, 6);
  // The shared scaler is below the local one, as with sharing=mean: clipping at the local scaler has no effect, any
  // other clipping would.
  const std::vector<float> shared = {1.0f, 0.5f};
  const auto payload = [&](ClipScope scope) {
    return send(TernaryCodec({.clip_scope = scope, .num_workers = 2}), layout, tensors, 0, {{0, 0, 9000}}, shared)
        .payload(0);
  };
  EXPECT_EQ(payload(ClipScope::kLocal), payload(ClipScope::kShared));
}

TEST(TernaryCodecEncode, ATensorThatIsNotFiniteBecomesZerosWhateverTheSharedScaler) {
  const Layout layout = small_layout();
  Tensors tensors = gaussian_tensors(layout, 6);
  tensors.values[0][100] = std::numeric_limits<float>::infinity();
  const Sent sent = send(TernaryCodec({.num_workers = 2}), layout, tensors, 0, whole_segments(layout), {1.0f, 1.0f});
  EXPECT_THAT(sent.payload(0), Each(0));
  EXPECT_THAT(sent.payload(2), ::testing::Contains(::testing::Ne(0)));
}

/// Codes by the separate kernels statistics, scaler and ternarize.
Bytes two_pass_codes(const Layout& layout, const Tensors& tensors, int segment, std::int64_t block, double clip_factor,
                     std::uint32_t worker) {
  Stream stream(Device::cpu(), 2);
  const std::span<const float> values = tensors.values[static_cast<std::size_t>(segment)];
  const auto block_size = static_cast<std::size_t>(block);
  std::vector<float> scalers;
  for (std::size_t at = 0; at < values.size(); at += block_size) {
    const auto run = values.subspan(at, std::min(block_size, values.size() - at));
    scalers.push_back(
        local_scaler(measure(run, stream), static_cast<std::int64_t>(run.size()), clip_factor, ScalerRule::kPaper));
  }
  const auto count = static_cast<std::int64_t>(values.size());
  Bytes payload(static_cast<std::size_t>(payload_bytes(TernaryFormat::kT2, count, 1)));
  const TernarizeTask task{.gradient = values.data(),
                           .count = count,
                           .draw_offset = layout.segment(segment).draw_offset,
                           .block_elements = block,
                           .scalers = scalers.data(),
                           .payload = payload.data()};
  std::int64_t bytes = 0;
  ternarize({&task, 1}, {}, {kSeed, kStep, worker, DrawPurpose::kTernarize}, {&bytes, 1}, stream);
  return payload;
}

TEST(TernaryCodecEncode, CodesDrawnAheadAreThoseOfTwoPasses) {
  Layout layout;
  layout.add("big", {20000});
  layout.add("few", {77});
  const Tensors tensors = gaussian_tensors(layout, 8);
  for (const std::int64_t block : {4096, 8192, 32768}) {
    for (const double c : {0.0, 1.5}) {
      for (const ClipScope clip_scope : {ClipScope::kShared, ClipScope::kLocal}) {
        const TernaryCodec codec({.clip_factor = c,
                                  .sharing = ScalerSharing::kNone,
                                  .clip_scope = clip_scope,
                                  .scope = ScalerScope::kBlock,
                                  .block_elements = block,
                                  .num_workers = 4});
        const Sent sent = send(codec, layout, tensors, 3, whole_segments(layout));
        EXPECT_EQ(sent.payload(0), two_pass_codes(layout, tensors, 0, block, c, 3)) << block << " " << c;
        EXPECT_EQ(sent.payload(1), two_pass_codes(layout, tensors, 1, block, c, 3)) << block << " " << c;
      }
    }
  }
}

TEST(TernaryCodecEncode, ALoneWorkersCodesAreTheSameForEverySharing) {
  const Layout layout = small_layout();
  const Tensors tensors = gaussian_tensors(layout, 8);
  for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kMean, ScalerSharing::kNone}) {
    const TernaryCodec codec({.sharing = sharing, .scope = ScalerScope::kBlock, .block_elements = 4096});
    EXPECT_EQ(send(codec, layout, tensors, 0, {{0, 0, 9000}}).payload(0),
              two_pass_codes(layout, tensors, 0, 4096, 0, 0));
  }
}

TEST(TernaryCodecEncode, CodesDrawnAheadFollowTheGradientOfTheLastMeasure) {
  const Layout layout = small_layout();
  const TernaryCodec codec({.scope = ScalerScope::kBlock, .block_elements = 4096});
  std::vector<std::uint64_t> words(9000 / 16);
  PayloadSlots slots{
      .encoded = {{0, 0, 9000}}, .outgoing = {reinterpret_cast<std::uint8_t*>(words.data())}, .outgoing_bytes = {0}};
  const auto coder = codec.make_coder(testing::setup_of(layout, 0), all_segments(layout), slots);
  Stream stream(Device::cpu(), 2);
  for (const std::uint64_t seed : {1u, 2u}) {
    const Tensors tensors = gaussian_tensors(layout, seed);
    coder->measure({&tensors.table, 1}, {kStep, nullptr}, stream);
    testing::combine_with(*coder, codec, 0, {}, stream);
    coder->encode({&tensors.table, 1}, {kStep, nullptr}, stream);
    EXPECT_EQ(Bytes(slots.outgoing[0], slots.outgoing[0] + slots.outgoing_bytes[0]),
              two_pass_codes(layout, tensors, 0, 4096, 0, 0));
  }
}

}  // namespace
}  // namespace terngrad::ternary_codec_encode_test
