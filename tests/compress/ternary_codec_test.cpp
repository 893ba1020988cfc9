#include "compress/ternary_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "kernels/errors.h"
#include "kernels/scaler.h"
#include "kernels/statistics.h"
#include "kernels/ternarize.h"
#include "support/bits.h"
#include "support/gradients.h"
#include "support/reference.h"

namespace terngrad {
namespace {

using reference::Bytes;
using testing::bits_of;
using ::testing::Each;
using testing::gaussian_tensors;
using testing::Tensors;

constexpr std::uint64_t kSeed = 7;
constexpr std::uint64_t kStep = 3;
constexpr TernaryFormat kFormats[] = {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask};

/// Three chunks, the last one short; an empty tensor; a few elements.
Layout small_layout() {
  Layout layout;
  layout.add("big", {9000});
  layout.add("empty", {0});
  layout.add("few", {7});
  return layout;
}

std::int64_t first_scaler(const Codec& codec, const Layout& layout, int segment) {
  std::int64_t first = 0;
  for (int t = 0; t < segment; ++t) first += codec.num_scalers(layout.segment(t).num_elements);
  return first;
}

std::vector<int> all_segments(const Layout& layout) {
  std::vector<int> segments;
  for (int t = 0; t < layout.num_segments(); ++t) segments.push_back(t);
  return segments;
}

std::vector<float> measured(const TernaryCodec& codec, const Layout& layout, const Tensors& tensors) {
  std::vector<float> scalers(static_cast<std::size_t>(first_scaler(codec, layout, layout.num_segments())));
  Stream stream(Device::cpu(), 2);
  codec.make_encoder(layout, all_segments(layout))
      ->measure(tensors.table, scalers, {kSeed, kStep, 0, DrawPurpose::kTernarize}, stream);
  return scalers;
}

/// What one worker sends of some slices.
struct Sent {
  std::vector<float> local;
  std::vector<float> shared;
  std::vector<std::vector<std::uint64_t>> words;
  std::vector<EncodedSlice> slices;

  Bytes payload(std::size_t slice) const { return {slices[slice].payload.begin(), slices[slice].payload.end()}; }
};

/// Measures and encodes. @param shared  empty: the worker's own scalers, 0 for NaN
Sent send(const TernaryCodec& codec, const Layout& layout, const Tensors& tensors, std::uint32_t worker,
          const std::vector<Slice>& slices, std::vector<float> shared = {}, PayloadForm form = PayloadForm::kNatural) {
  Sent sent;
  Stream stream(Device::cpu(), 2);
  const DrawKey key{kSeed, kStep, worker, DrawPurpose::kTernarize};
  const auto encoder = codec.make_encoder(layout, all_segments(layout));
  sent.local.resize(static_cast<std::size_t>(first_scaler(codec, layout, layout.num_segments())));
  encoder->measure(tensors.table, sent.local, key, stream);
  sent.shared = std::move(shared);
  if (sent.shared.empty()) {
    for (const float s : sent.local) sent.shared.push_back(std::isnan(s) ? 0.0f : s);
  }
  std::vector<EncodeJob> jobs;
  for (const Slice& slice : slices) {
    const Codec::ScalerRange range = codec.scaler_range(slice);
    const auto first = static_cast<std::size_t>(first_scaler(codec, layout, slice.segment) + range.first);
    const auto count = static_cast<std::size_t>(range.count);
    const auto bytes = static_cast<std::size_t>(codec.max_payload_bytes(slice, form));
    sent.words.emplace_back((bytes + 7) / 8, ~std::uint64_t{0});  // what encode leaves alone stays visible
    jobs.push_back({.slice = slice,
                    .local = std::span<const float>(sent.local).subspan(first, count),
                    .shared = std::span<const float>(sent.shared).subspan(first, count),
                    .payload = reinterpret_cast<std::uint8_t*>(sent.words.back().data())});
  }
  encoder->encode(tensors.table, jobs, form, key, stream);
  for (const EncodeJob& job : jobs) {
    sent.slices.push_back({.slice = job.slice,
                           .format = codec.record_format(form),
                           .scalers = job.shared,
                           .payload = {job.payload, static_cast<std::size_t>(job.payload_bytes)}});
  }
  return sent;
}

/// The plain reference's codes of a whole tensor.
std::vector<std::int8_t> reference_codes(const TernaryCodec& codec, const Layout& layout, const Tensors& tensors,
                                         std::uint32_t worker, int segment, std::span<const float> scalers,
                                         std::span<const float> clips = {}) {
  const reference::Run run{0, static_cast<std::uint64_t>(layout.segment(segment).draw_offset),
                           codec.kernel_block_elements(), 2};
  return reference::ternarize(tensors.values[static_cast<std::size_t>(segment)], run, scalers, clips,
                              {kSeed, kStep, worker, 1});
}

float reference_scaler(std::span<const float> values, double c, bool original = false) {
  return reference::scaler(reference::statistics(values), static_cast<std::int64_t>(values.size()), c, original);
}

std::vector<float> aggregated(const TernaryCodec& codec, const std::vector<EncodedSlice>& messages,
                              AggregateUnit unit = AggregateUnit::kMean) {
  std::vector<float> out(static_cast<std::size_t>(messages[0].slice.count), -123456.0f);
  Stream stream(Device::cpu(), 2);
  const AggregateJob job{messages[0].slice, messages, out.data()};
  codec.aggregate({&job, 1}, unit, stream);
  return out;
}

TEST(TernaryCodecScalers, OfThePaperNeverExceedTheGreatestMagnitude) {
  const Layout layout = small_layout();
  const Tensors tensors = gaussian_tensors(layout, 1);
  for (const double c : {0.0, 2.5, 100.0}) {
    const std::vector<float> scalers = measured(TernaryCodec({.clip_factor = c}), layout, tensors);
    ASSERT_EQ(scalers.size(), 2u);
    EXPECT_EQ(bits_of(scalers[0]), bits_of(reference_scaler(tensors.values[0], c))) << c;
    EXPECT_EQ(bits_of(scalers[1]), bits_of(reference_scaler(tensors.values[2], c))) << c;
  }
  const std::vector<float> unclipped = measured(TernaryCodec({.clip_factor = 0}), layout, tensors);
  EXPECT_LT(measured(TernaryCodec({.clip_factor = 2.5}), layout, tensors)[0], unclipped[0]);
  EXPECT_EQ(measured(TernaryCodec({.clip_factor = 100}), layout, tensors), unclipped);
}

TEST(TernaryCodecScalers, OfTheOriginalAreClippedAtSigmaEvenAboveTheGreatestMagnitude) {
  const Layout layout = small_layout();
  const Tensors tensors = gaussian_tensors(layout, 1);
  const TernaryCodec codec({.clip_factor = 100, .rule = ScalerRule::kOriginal});
  const std::vector<float> scalers = measured(codec, layout, tensors);
  EXPECT_EQ(bits_of(scalers[0]), bits_of(reference_scaler(tensors.values[0], 100, true)));
  EXPECT_EQ(bits_of(scalers[1]), bits_of(reference_scaler(tensors.values[2], 100, true)));
  EXPECT_GT(scalers[0], 10 * measured(TernaryCodec({.clip_factor = 0}), layout, tensors)[0]);
}

TEST(TernaryCodecScalers, OfBlocksAreThoseOfEachRun) {
  const Layout layout = small_layout();
  const Tensors tensors = gaussian_tensors(layout, 2);
  const TernaryCodec codec({.clip_factor = 2.5, .scope = ScalerScope::kBlock, .block_elements = 1984});
  const std::vector<float> scalers = measured(codec, layout, tensors);
  ASSERT_EQ(scalers.size(), 6u);  // five of the 9000 elements, one of the 7
  const std::span<const float> big = tensors.values[0];
  for (std::size_t b = 0; b < 5; ++b) {
    const auto run = big.subspan(b * 1984, std::min<std::size_t>(1984, 9000 - b * 1984));
    EXPECT_EQ(bits_of(scalers[b]), bits_of(reference_scaler(run, 2.5))) << b;
  }
  EXPECT_EQ(bits_of(scalers[5]), bits_of(reference_scaler(tensors.values[2], 2.5)));
}

TEST(TernaryCodecScalers, OfTheModelComeFromTheStatisticsOfAllTensorsTogether) {
  const Layout layout = small_layout();
  Tensors tensors = gaussian_tensors(layout, 3);
  tensors.values[2][4] = 50;  // the greatest is in the small tensor
  const reference::Statistics big = reference::statistics(tensors.values[0]);
  const reference::Statistics few = reference::statistics(tensors.values[2]);
  const reference::Statistics all{big.sum + few.sum, big.sum_squares + few.sum_squares,
                                  std::max(big.max_bits, few.max_bits)};
  for (const double c : {0.0, 2.5}) {
    const TernaryCodec codec({.clip_factor = c, .scope = ScalerScope::kModel});
    EXPECT_THAT(bits_of(measured(codec, layout, tensors)), Each(bits_of(reference::scaler(all, 9007, c, false)))) << c;
  }
}

TEST(TernaryCodecScalers, OfTheModelLeaveOutATensorThatIsNotFinite) {
  const Layout layout = small_layout();
  const TernaryCodec codec({.clip_factor = 2.5, .scope = ScalerScope::kModel});
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    Tensors tensors = gaussian_tensors(layout, 3);
    tensors.values[2][4] = bad;
    const std::vector<float> scalers = measured(codec, layout, tensors);
    EXPECT_EQ(bits_of(scalers[0]), bits_of(reference_scaler(tensors.values[0], 2.5)));
    EXPECT_EQ(bits_of(scalers[1]), bits_of(canonical_nan()));
  }
}

TEST(TernaryCodecScalers, OneBlockThatIsNotFiniteFlagsItsWholeTensor) {
  const Layout layout = small_layout();
  for (const std::int64_t block : {1984, 4096}) {  // by two passes and drawn ahead
    const TernaryCodec codec({.scope = ScalerScope::kBlock, .block_elements = block});
    Tensors tensors = gaussian_tensors(layout, 3);
    const std::vector<float> finite = measured(codec, layout, tensors);
    tensors.values[0][static_cast<std::size_t>(block)] = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> expected = finite;
    std::fill_n(expected.begin(), codec.num_scalers(layout.segment(0).num_elements), canonical_nan());
    EXPECT_EQ(bits_of(measured(codec, layout, tensors)), bits_of(expected)) << block;
  }
}

TEST(TernaryCodecScalers, MustHaveOnePlaceEach) {
  const Layout layout = small_layout();
  const Tensors tensors = gaussian_tensors(layout, 3);
  Stream stream;
  std::vector<float> scalers(3);
  const auto encoder = TernaryCodec({}).make_encoder(layout, all_segments(layout));
  EXPECT_THROW(encoder->measure(tensors.table, scalers, {}, stream), InvalidArgument);
}

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
}

TEST(TernaryCodec, ASliceTouchesTheScalersOfItsBlocks) {
  const TernaryCodec layer({});
  EXPECT_EQ(layer.scaler_range({0, 8192, 100}).first, 0);
  EXPECT_EQ(layer.scaler_range({0, 8192, 100}).count, 1);
  const TernaryCodec small({.scope = ScalerScope::kBlock, .block_elements = 1984});
  EXPECT_EQ(small.scaler_range({0, 4096, 4096}).first, 2);  // blocks 2, 3 and 4
  EXPECT_EQ(small.scaler_range({0, 4096, 4096}).count, 3);
  const TernaryCodec great({.scope = ScalerScope::kBlock, .block_elements = 16384});
  EXPECT_EQ(great.scaler_range({0, 20480, 4096}).first, 1);
  EXPECT_EQ(great.scaler_range({0, 20480, 4096}).count, 1);
}

TEST(TernaryCodec, IsSummableUnlessEveryWorkerKeepsItsScaler) {
  EXPECT_TRUE(TernaryCodec({.sharing = ScalerSharing::kMax}).traits().summable);
  EXPECT_TRUE(TernaryCodec({.sharing = ScalerSharing::kMean}).traits().summable);
  EXPECT_FALSE(TernaryCodec({.sharing = ScalerSharing::kNone}).traits().summable);
}

TEST(TernaryCodec, IsUnbiasedUnlessItClipsOrSharesTheMean) {
  EXPECT_TRUE(TernaryCodec({.sharing = ScalerSharing::kMax}).traits().unbiased);
  EXPECT_TRUE(TernaryCodec({.sharing = ScalerSharing::kNone}).traits().unbiased);
  EXPECT_FALSE(TernaryCodec({.sharing = ScalerSharing::kMean}).traits().unbiased);
  EXPECT_FALSE(TernaryCodec({.clip_factor = 2.5}).traits().unbiased);
}

TEST(TernaryCodec, StatesTheBitsOfItsFormat) {
  EXPECT_EQ(TernaryCodec({.format = TernaryFormat::kT2}).traits().bits_per_element, 2.0);
  EXPECT_EQ(TernaryCodec({.format = TernaryFormat::kT5}).traits().bits_per_element, 1.6);
  EXPECT_EQ(TernaryCodec({.format = TernaryFormat::kTMask}).traits().bits_per_element, 2.0);  // the bound
  EXPECT_TRUE(TernaryCodec({.format = TernaryFormat::kT2}).traits().fixed_size);
  EXPECT_FALSE(TernaryCodec({.format = TernaryFormat::kTMask}).traits().fixed_size);
}

TEST(TernaryCodec, OptionsTextDiffersInEveryOption) {
  const TernaryOptions base{.scope = ScalerScope::kBlock};
  std::vector<TernaryOptions> variants(10, base);
  variants[1].clip_factor = 2.5;
  variants[2].clip_factor = std::nextafter(2.5, 3.0);
  variants[3].rule = ScalerRule::kOriginal;
  variants[4].sharing = ScalerSharing::kMean;
  variants[5].sharing = ScalerSharing::kNone;
  variants[6].clip_scope = ClipScope::kLocal;
  variants[7].block_elements = 64;
  variants[8].format = TernaryFormat::kTMask;
  variants[9].num_workers = 2;
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
}

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
  for (const std::int64_t block : {1984, 4096}) {  // 4096: drawn ahead
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

  // Where |g| is at least its own scaler a code is non-zero a third of the time, however great |g| is.
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
  // The shared scaler is below the local one, as sharing mean makes it: cutting at the local one would be harmless, but
  // cutting at anything else would show.
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

/// Codes by kernels/statistics, kernels/scaler and kernels/ternarize one after the other.
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
  const auto encoder = codec.make_encoder(layout, all_segments(layout));
  Stream stream(Device::cpu(), 2);
  const DrawKey key{kSeed, kStep, 0, DrawPurpose::kTernarize};
  std::vector<float> scalers(4);
  std::vector<std::uint64_t> words(9000 / 16);
  for (const std::uint64_t seed : {1u, 2u}) {
    const Tensors tensors = gaussian_tensors(layout, seed);
    encoder->measure(tensors.table, scalers, key, stream);
    EncodeJob job{.slice = {0, 0, 9000},
                  .local = std::span<const float>(scalers).first(3),
                  .shared = std::span<const float>(scalers).first(3),
                  .payload = reinterpret_cast<std::uint8_t*>(words.data())};
    encoder->encode(tensors.table, {&job, 1}, PayloadForm::kNatural, key, stream);
    EXPECT_EQ(Bytes(job.payload, job.payload + job.payload_bytes), two_pass_codes(layout, tensors, 0, 4096, 0, 0));
  }
}

TEST(TernaryCodecCheck, AcceptsItsOwnFormsAndRefusesOtherFormats) {
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
    EncodedSlice unknown = natural.slices[0];
    for (const std::uint8_t number : Bytes{0, 5, 255}) {
      unknown.format = number;
      EXPECT_THROW(codec.check(unknown), CommunicationError) << int{number};
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

TEST(TernaryCodecCheck, RefusesAWrongLengthAndACodeThatNeverOccurs) {
  const TernaryCodec codec({});
  const std::vector<float> scaler = {1.0f};
  alignas(8) std::uint8_t bytes[8] = {};
  EncodedSlice encoded{.slice = {0, 0, 16}, .format = 1, .scalers = scaler, .payload = {bytes, 4}};
  EXPECT_NO_THROW(codec.check(encoded));
  encoded.payload = {bytes, 8};
  EXPECT_THROW(codec.check(encoded), CommunicationError);
  encoded.payload = {bytes, 0};
  EXPECT_THROW(codec.check(encoded), CommunicationError);
  encoded.payload = {bytes, 4};
  bytes[1] = 0x08;  // negative, but zero
  EXPECT_THROW(codec.check(encoded), CommunicationError);
}

TEST(TernaryCodecDecode, OfALoneWorkerIsTheAggregateOfItsMessage) {
  const Layout layout = small_layout();
  const Tensors tensors = gaussian_tensors(layout, 9);
  for (const TernaryFormat format : kFormats) {
    for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kNone}) {
      for (const ScalerScope scope : {ScalerScope::kLayer, ScalerScope::kBlock}) {
        const TernaryCodec codec({.sharing = sharing, .scope = scope, .block_elements = 1984, .format = format});
        const Sent sent = send(codec, layout, tensors, 0, {{0, 4096, 4904}});
        std::vector<float> decoded(4904);
        codec.decode(sent.slices[0], decoded);
        EXPECT_EQ(decoded, aggregated(codec, sent.slices)) << codec.options_text();
      }
    }
  }
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

TEST(TernaryCodecDecode, RefusesAnOutputOfAnotherLength) {
  const Layout layout = small_layout();
  const Sent sent = send(TernaryCodec({}), layout, gaussian_tensors(layout, 9), 0, {{2, 0, 7}});
  std::vector<float> out(6);
  EXPECT_THROW(TernaryCodec({}).decode(sent.slices[0], out), InvalidArgument);
}

/// Three workers' messages of the whole first tensor.
struct ThreeWorkers {
  Layout layout = small_layout();
  std::vector<Tensors> tensors;
  std::vector<Sent> sent;
  std::vector<EncodedSlice> messages;

  explicit ThreeWorkers(const TernaryCodec& codec, const std::vector<float>& shared,
                        PayloadForm form = PayloadForm::kNatural) {
    for (std::uint32_t w = 0; w < 3; ++w) {
      tensors.push_back(gaussian_tensors(layout, 20 + w, 1.0 + w));
      sent.push_back(send(codec, layout, tensors.back(), w, {{0, 0, 9000}}, shared, form));
    }
    for (const Sent& worker : sent) messages.push_back(worker.slices[0]);
  }
};

TEST(TernaryCodecAggregate, InUnitSumsGivesTheIntegerSumsOfCodes) {
  const TernaryCodec codec({.num_workers = 3});
  const std::vector<float> shared = {2.5f, 1.0f};
  const ThreeWorkers workers(codec, shared);
  std::vector<float> expected(9000, 0.0f);
  for (std::uint32_t w = 0; w < 3; ++w) {
    const auto codes = reference_codes(codec, workers.layout, workers.tensors[w], w, 0, std::span(shared).first(1));
    for (std::size_t i = 0; i < 9000; ++i) expected[i] += static_cast<float>(codes[i]);
  }
  EXPECT_EQ(aggregated(codec, workers.messages, AggregateUnit::kSums), expected);
}

TEST(TernaryCodecAggregate, MultipliesTheSumByTheScalerOverTheNumberOfWorkersOnce) {
  const TernaryCodec codec({.num_workers = 3});
  const ThreeWorkers workers(codec, {2.7f, 1.0f});
  std::vector<float> expected = aggregated(codec, workers.messages, AggregateUnit::kSums);
  const float factor = 2.7f / 3.0f;
  for (float& value : expected) value *= factor;
  EXPECT_EQ(aggregated(codec, workers.messages), expected);
}

TEST(TernaryCodecAggregate, TakesLanesThatWereAddedUp) {
  const TernaryCodec codec({.num_workers = 3});
  const std::vector<float> shared = {2.7f, 1.0f};
  const ThreeWorkers lanes(codec, shared, PayloadForm::kLanes);
  std::vector<std::uint64_t> sum = lanes.sent[0].words[0];
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += lanes.sent[1].words[0][i];
  EncodedSlice two = lanes.messages[0];
  two.payload = {reinterpret_cast<const std::uint8_t*>(sum.data()), two.payload.size()};
  EXPECT_EQ(aggregated(codec, {two, lanes.messages[2]}), aggregated(codec, ThreeWorkers(codec, shared).messages));
}

TEST(TernaryCodecAggregate, RefusesSharedScalersThatDiffer) {
  const TernaryCodec codec({.num_workers = 3});
  ThreeWorkers workers(codec, {2.7f, 1.0f});
  const std::vector<float> other = {std::nextafter(2.7f, 3.0f)};
  workers.messages[2].scalers = other;
  EXPECT_THROW(aggregated(codec, workers.messages), CommunicationError);
  workers.messages[2].scalers = {};
  EXPECT_THROW(aggregated(codec, workers.messages), CommunicationError);
}

TEST(TernaryCodecAggregate, OfUnsharedScalersIsTheTreeSumOfWhatEachWorkerMeans) {
  const TernaryCodec codec(
      {.sharing = ScalerSharing::kNone, .scope = ScalerScope::kBlock, .block_elements = 1984, .num_workers = 3});
  const ThreeWorkers workers(codec, {});
  std::vector<std::vector<float>> meant(3);
  for (std::uint32_t w = 0; w < 3; ++w) {
    const auto scalers = std::span<const float>(workers.sent[w].local).first(5);
    const auto codes = reference_codes(codec, workers.layout, workers.tensors[w], w, 0, scalers);
    for (std::size_t i = 0; i < 9000; ++i) meant[w].push_back(scalers[i / 1984] * static_cast<float>(codes[i]));
  }
  std::vector<float> expected(9000);
  for (std::size_t i = 0; i < 9000; ++i) {
    expected[i] = reference::tree_sum(std::vector{meant[0][i], meant[1][i], meant[2][i]}) * (1.0f / 3.0f);
  }
  EXPECT_EQ(aggregated(codec, workers.messages), expected);
}

TEST(TernaryCodecAggregate, RefusesUnitSumsWithoutASharedScaler) {
  const TernaryCodec codec({.sharing = ScalerSharing::kNone, .num_workers = 3});
  const ThreeWorkers workers(codec, {});
  EXPECT_THROW(aggregated(codec, workers.messages, AggregateUnit::kSums), InvalidArgument);
}

}  // namespace
}  // namespace terngrad
