#include "kernels/codes/levels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler_limits.h"
#include "support/codes/level_cases.h"
#include "support/sanitized.h"
#include "support/simd_targets.h"

namespace terngrad::levels_test {
namespace {

using reference::Bytes;
using testing::kLevelForms;
using testing::LevelCase;

const float kNan = std::numeric_limits<float>::quiet_NaN();

void expect_reference(const LevelCase& c, const std::string& what) {
  const Bytes expected = testing::reference_payload(c);
  testing::for_each_target([&](const std::string& target) {
    ASSERT_EQ(testing::quantized(c), expected) << target << ", " << c.text() << ", " << what;
  });
}

TEST(LevelQuantizer, MatchesTheReferenceAtEveryLength) {
  const std::vector<float> gradient = testing::gaussian(4100, 1);
  for (const LevelOptions& form : kLevelForms) {
    LevelCase c{.gradient = gradient, .options = form};
    const std::vector<int> codes = testing::reference_levels(c);  // a prefix has the same codes
    testing::for_each_target([&](const std::string& target) {
      for (std::size_t n = 0; n <= gradient.size();
           n += static_cast<std::size_t>(testing::kLengthStep * (n < 300 ? 1 : 29))) {
        c.gradient.assign(gradient.begin(), gradient.begin() + static_cast<std::ptrdiff_t>(n));
        ASSERT_EQ(testing::quantized(c), testing::pack_levels(std::span(codes).first(n), form))
            << target << ", " << c.text();
      }
    });
  }
}

TEST(LevelQuantizer, MatchesTheReferenceAroundChunksWithAnyNumberOfThreads) {
  const std::vector<float> gradient = testing::gaussian(34 * kChunkElements + 1234, 2);
  for (const LevelOptions& form : kLevelForms) {
    LevelCase c{.gradient = gradient, .options = form};
    const std::vector<int> codes = testing::reference_levels(c);
    for (const std::size_t n : {std::size_t{4095}, std::size_t{4097}, std::size_t{5 * 4096}, gradient.size()}) {
      c.gradient.assign(gradient.begin(), gradient.begin() + static_cast<std::ptrdiff_t>(n));
      const Bytes expected = testing::pack_levels(std::span(codes).first(n), form);
      for (const int threads : {1, 2, 3, 4}) {
        ASSERT_EQ(testing::quantized(c, threads), expected) << c.text() << ", threads " << threads;
      }
    }
  }
}

TEST(LevelQuantizer, DoesNotDependOnTheAlignment) {
  for (const LevelOptions& form : kLevelForms) {
    LevelCase c{.gradient = testing::gaussian(5003, 3), .options = form};
    const Bytes expected = testing::reference_payload(c);
    testing::for_each_target([&](const std::string& target) {
      for (c.misalignment = 0; c.misalignment < 16; ++c.misalignment) {
        ASSERT_EQ(testing::quantized(c), expected) << target << ", " << c.text() << " + " << c.misalignment;
      }
    });
  }
}

TEST(LevelQuantizer, TakesAScalerPerBlock) {
  for (const LevelOptions& form : kLevelForms) {
    for (const std::int64_t block : {64, 192, 512, 4096, 4160, 10048}) {
      for (const std::int64_t first : {0, 12288}) {
        for (const std::size_t count : {1u, 65u, 4096u, 9707u}) {
          LevelCase c{
              .gradient = testing::gaussian(count, 4), .first = first, .block_elements = block, .options = form};
          const float kinds[] = {2.5f, 0.7f, kNan, 3.9f, 0.0f, 0x1p-90f};
          c.scalers.clear();
          for (std::int64_t b = 0; b < num_blocks(first, c.count(), block); ++b) {
            c.scalers.push_back(kinds[(b + first) % 6]);
          }
          expect_reference(c, "blocks of " + std::to_string(block) + " from " + std::to_string(first));
        }
      }
    }
  }
}

TEST(LevelQuantizer, OfASliceGivesThoseCodesOfTheWhole) {
  for (const int bits : {2, 4, 8}) {
    LevelCase whole{.gradient = testing::gaussian(30000, 11), .options = {.bits = bits}};
    const std::vector<std::int16_t> codes = testing::unpacked(testing::quantized(whole), whole);
    for (const std::int64_t first : {4096, 28672}) {
      LevelCase part = whole;
      part.gradient.assign(whole.gradient.begin() + first, whole.gradient.end());
      part.first = first;
      const std::vector<std::int16_t> of_part = testing::unpacked(testing::quantized(part), part);
      EXPECT_TRUE(std::equal(of_part.begin(), of_part.end(), codes.begin() + first)) << bits;
    }
  }
}

TEST(LevelQuantizer, TakesHostileValues) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float huge = std::numeric_limits<float>::max();
  for (const LevelOptions& form : kLevelForms) {
    for (const float scaler : {0.0f, tiny, kMinScaler, 1e-20f, 1.0f, 0.3f, 1e20f, kMaxScaler, kNan}) {
      LevelCase c{.scalers = {scaler}, .options = form};
      for (const float value : {0.0f, -0.0f, tiny, -tiny, kMinScaler, 1e-20f, 1.0f, -1.0f, 1e20f, huge, -huge}) {
        c.gradient.insert(c.gradient.end(), 100, value);
      }
      for (const float fraction : {0.5f, 1.0f, 0.999999f, -0.25f, 1e-7f, -1e-30f}) {
        c.gradient.insert(c.gradient.end(), 100, fraction * (scaler > 0 ? scaler : 1));
      }
      expect_reference(c, "scaler " + std::to_string(scaler));
    }
  }
  LevelCase nonfinite{.gradient = std::vector<float>(300, kNan), .scalers = {kNan}};
  nonfinite.gradient[5] = std::numeric_limits<float>::infinity();
  expect_reference(nonfinite, "not finite");
}

TEST(LevelQuantizer, RefinesTiesBothWays) {
  // t = l + (r16 + f) / 65536 exactly: rounds up if and only if the 24 refinement bits are below f * 2^24.
  constexpr std::size_t n = 40000;
  const auto r16 = reference::draws16(testing::kLevelStream, 128, n);
  reference::Stream refine = testing::kLevelStream;
  refine.purpose = 11;
  for (const int bits : {4, 8}) {
    const int levels = num_levels(bits);
    LevelCase c{.scalers = {static_cast<float>(levels)}, .options = {.bits = bits}};
    std::vector<std::int16_t> expected;
    std::size_t num_up = 0;
    for (std::size_t i = 0; i < n; ++i) {
      // 24-bit mantissas leave one fraction bit below the 16 for l < 2.
      const auto l = static_cast<int>(i % 2);
      const double f = static_cast<double>(i / 2 % 2) / 2;
      const double sign = i % 3 == 0 ? -1 : 1;
      c.gradient.push_back(static_cast<float>(sign * (l + (r16[i] + f) / 65536)));
      const bool up = reference::draw24(refine, 128 + i) < f * 0x1p24;
      num_up += up;
      expected.push_back(static_cast<std::int16_t>(sign * (l + (up ? 1 : 0))));
    }
    ASSERT_GT(num_up, n / 5);
    ASSERT_LT(num_up, n / 3);
    testing::for_each_target([&](const std::string& target) {
      EXPECT_EQ(testing::unpacked(testing::quantized(c), c), expected) << target << ", " << bits;
    });
  }
}

TEST(LevelQuantizer, GivesTheTopLevelAtTheScalerWhateverItRoundsTo) {
  // fl(s fl(L / s)) is below L here.
  for (const int bits : {4, 8}) {
    const auto levels = static_cast<float>(num_levels(bits));
    float s = 1.5f;
    while (s * (levels / s) >= levels) s = std::nextafter(s, 2.0f);
    for (const Rounding rounding : {Rounding::kStochastic, Rounding::kNearest}) {
      LevelCase c{
          .gradient = std::vector<float>(4096, -s), .scalers = {s}, .options = {.bits = bits, .rounding = rounding}};
      const std::vector<std::int16_t> codes = testing::unpacked(testing::quantized(c), c);
      EXPECT_EQ(std::count(codes.begin(), codes.end(), static_cast<std::int16_t>(-levels)), 4096) << bits;
    }
  }
}

TEST(LevelQuantizer, RoundsTiesToEven) {
  for (const int bits : {2, 4, 8}) {
    const int levels = num_levels(bits);
    LevelCase c{.scalers = {static_cast<float>(levels)}, .options = {.bits = bits, .rounding = Rounding::kNearest}};
    std::vector<std::int16_t> expected;
    for (int twice = -2 * levels; twice <= 2 * levels; ++twice) {
      const float t = static_cast<float>(twice) / 2;
      for (const float value : {std::nextafter(t, -1000.0f), t, std::nextafter(t, 1000.0f)}) {
        c.gradient.push_back(value);
        const float clipped = std::clamp(value, static_cast<float>(-levels), static_cast<float>(levels));
        expected.push_back(static_cast<std::int16_t>(std::lrint(clipped)));
      }
    }
    testing::for_each_target([&](const std::string& target) {
      EXPECT_EQ(testing::unpacked(testing::quantized(c), c), expected) << target << ", " << bits;
    });
  }
}

TEST(LevelQuantizer, OfTwoBitsIsTernarizing) {
  const std::vector<float> gradient = testing::gaussian(10000, 5);
  const LevelCase c{.gradient = gradient, .options = {.bits = 2}};
  Bytes bytes(static_cast<std::size_t>(payload_bytes(CodeFormat::kT2, c.count(), 1)));
  TernarizeTask task{.gradient = gradient.data(), .count = c.count(), .draw_offset = c.draw_offset};
  task.scalers = c.scalers.data();
  task.payload = bytes.data();
  task.worker = c.worker;
  Stream stream(Device::cpu(), 1);
  std::int64_t written = 0;
  ternarize({&task, 1}, {.refine_purpose = DrawPurpose::kQuantizeRefine}, LevelCase().key, {&written, 1}, stream);
  EXPECT_EQ(testing::quantized(c), bytes);
}

TEST(LevelQuantizer, TakesElementsOfSixteenBits) {
  for (const ElementType type : {ElementType::kBfloat16, ElementType::kFloat16}) {
    for (const LevelOptions& form : kLevelForms) {
      LevelCase c{.gradient = testing::gaussian(9001, 6), .options = form};
      c.round_gradient_to(type);
      expect_reference(c, element_type_name(type));
    }
  }
}

TEST(LevelQuantizer, DrawIndicesCrossTwoToThe35) {
  LevelCase c{.gradient = testing::gaussian(3 * 4096 + 5, 7)};
  c.draw_offset = (std::int64_t{1} << 35) - 4160;
  expect_reference(c, "2^35");
}

TEST(LevelQuantizer, ManyTasksGiveWhatEachGivesAlone) {
  const std::vector<float> gradient = testing::gaussian(30000, 8);
  for (const LevelOptions& form : kLevelForms) {
    std::vector<LevelCase> cases;
    for (const std::size_t n : {0u, 1u, 4095u, 0u, 4097u, 20481u, 7u}) {
      LevelCase c{.options = form};
      c.gradient.assign(gradient.begin(), gradient.begin() + static_cast<std::ptrdiff_t>(n));
      c.scalers = {1.0f + static_cast<float>(cases.size())};
      c.worker = static_cast<std::uint32_t>(cases.size());
      cases.push_back(c);
    }
    for (const int threads : {1, 3}) {
      const std::vector<Bytes> together = testing::quantized(cases, threads);
      for (std::size_t i = 0; i < cases.size(); ++i) {
        ASSERT_EQ(together[i], testing::quantized(cases[i])) << cases[i].text() << ", task " << i;
      }
    }
  }
}

TEST(LevelQuantizer, WritesGoldenBytes) {
  // Multiples of s / L do not depend on draws. Bytes computed by hand from kernels/codes/ternary.h.
  LevelCase c{.gradient = {7, -7, 0, 1, -2, 3, 100, -100, 5}, .scalers = {7}};
  EXPECT_EQ(testing::quantized(c), (Bytes{0x0e, 0x87, 0xa5, 0x0e, 0x0c, 0, 0, 0}));
  c.scalers = {127};
  c.options.bits = 8;
  EXPECT_EQ(testing::quantized(c), (Bytes{134, 120, 127, 128, 125, 130, 227, 27, 132, 0, 0, 0}));
  c.options = {.bits = 4, .lanes = true, .num_workers = 2};  // 14 * 2 + 1 values: 5 bits, 12 lanes a word
  c.scalers = {7};
  std::uint64_t word = 0;
  const std::uint64_t counts[] = {14, 0, 7, 8, 5, 10, 14, 0, 12};
  for (std::size_t i = 0; i < 9; ++i) word |= counts[i] << (5 * i);
  Bytes bytes;
  reference::append32(bytes, word & 0xffffffffu);
  reference::append32(bytes, word >> 32);
  EXPECT_EQ(testing::quantized(c), bytes);
}

TEST(LevelQuantizer, DrawsArePinned) {
  // Draws are part of the format: purpose 10, seed 1, step 0 and worker 0 give these codes.
  LevelCase c{.gradient = std::vector<float>(64, 2.5f), .scalers = {7}};
  c.key = {1, 0, 0, DrawPurpose::kQuantize};
  c.draw_offset = 0;
  c.worker = 0;
  const auto r16 = reference::draws16({1, 0, 0, 10}, 0, 64);
  const std::vector<std::int16_t> codes = testing::unpacked(testing::quantized(c), c);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(codes[i], r16[i] < 32768 ? 3 : 2) << i;
}

TEST(LevelQuantizer, RefusesWhatItCannotHonour) {
  Stream stream(Device::cpu(), 1);
  float gradient[128] = {1};
  float scaler = 1;
  std::uint64_t payload[32] = {};
  const QuantizeTask good{
      .gradient = gradient, .count = 128, .scalers = &scaler, .payload = reinterpret_cast<std::uint8_t*>(payload)};
  const auto refused = [&](const QuantizeTask& task, const LevelOptions& options) {
    EXPECT_THROW(LevelQuantizer().run({&task, 1}, options, LevelCase().key, stream), InvalidArgument);
    EXPECT_EQ(payload[0], 0u);  // nothing was written
  };
  QuantizeTask task = good;
  task.first = 64;
  refused(task, {});
  task = good;
  task.draw_offset = 32;
  refused(task, {});
  task = good;
  task.block_elements = 96;
  refused(task, {});
  task = good;
  task.payload += 2;
  refused(task, {});
  task = good;
  task.count = -1;
  refused(task, {});
  task = good;
  task.payload += 4;
  refused(task, {.lanes = true});
  refused(good, {.bits = 3});
  refused(good, {.bits = 5, .lanes = true});
  refused(good, {.bits = 8, .lanes = true, .num_workers = 132105});  // 127 N exceeds 2^24
  refused(good, {.lanes = true, .num_workers = 0});
  const std::uint64_t step = 0;
  EXPECT_THROW(LevelQuantizer().run({}, {}, LevelCase().key, stream, &step), InvalidArgument);
}

class LevelPayload : public ::testing::TestWithParam<CodeFormat> {
 protected:
  PackedCodes codes() const { return {GetParam(), payload_, n_}; }
  void pack(std::int64_t n) {
    n_ = n;
    const int levels = levels_of(GetParam());
    values_.resize(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] =
          static_cast<std::int8_t>(static_cast<int>(i * 7919 % static_cast<std::size_t>(2 * levels + 1)) - levels);
    }
    payload_.resize(static_cast<std::size_t>(payload_bytes(GetParam(), n, 1)));
    pack_codes(values_, GetParam(), 1, payload_);
  }
  std::int64_t n_ = 0;
  std::vector<std::int8_t> values_;
  Bytes payload_;
};

TEST_P(LevelPayload, UnpacksWhatWasPacked) {
  for (std::int64_t n = 0; n <= 70; ++n) {
    pack(n);
    EXPECT_NO_THROW(check_payload(codes())) << n;
    for (std::int64_t first = 0; first <= n; ++first) {
      std::vector<std::int16_t> out(static_cast<std::size_t>(n - first));
      unpack_codes(codes(), first, out);
      ASSERT_TRUE(std::equal(out.begin(), out.end(), values_.begin() + first)) << n << " from " << first;
    }
  }
}

TEST_P(LevelPayload, IsRefusedWithACodeThatNoEncoderWrites) {
  for (const std::int64_t n : {1, 2, 8, 9, 101}) {
    pack(n);
    const int bits = GetParam() == CodeFormat::kQ4 ? 4 : 8;
    for (std::int64_t i = 0; i < n; ++i) {
      const Bytes good = payload_;
      std::uint8_t& byte = payload_[static_cast<std::size_t>(i * bits / 8)];
      byte = static_cast<std::uint8_t>(byte | (bits == 8 ? 0xff : 0x0f << (i % 2 * 4)));
      EXPECT_THROW(check_payload(codes()), CommunicationError) << i << " of " << n;
      payload_ = good;
    }
  }
}

TEST_P(LevelPayload, IsRefusedWithAnythingBehindTheLastCode) {
  const int bits = GetParam() == CodeFormat::kQ4 ? 4 : 8;
  for (const std::int64_t n : {1, 2, 3, 5, 9}) {
    pack(n);
    for (std::size_t bit = static_cast<std::size_t>(n * bits); bit < 8 * payload_.size(); ++bit) {
      payload_[bit / 8] = static_cast<std::uint8_t>(payload_[bit / 8] ^ 1u << (bit % 8));
      EXPECT_THROW(check_payload(codes()), CommunicationError) << "bit " << bit << " of " << n;
      payload_[bit / 8] = static_cast<std::uint8_t>(payload_[bit / 8] ^ 1u << (bit % 8));
    }
    EXPECT_NO_THROW(check_payload(codes()));
  }
}

TEST_P(LevelPayload, IsRefusedWithAnotherLength) {
  pack(9);
  payload_.resize(payload_.size() + 4);
  EXPECT_THROW(check_payload(codes()), CommunicationError);
  payload_.resize(payload_.size() - 8);
  EXPECT_THROW(check_payload(codes()), CommunicationError);
}

TEST_P(LevelPayload, HoldsNoCodeBeyondItsLevels) {
  pack(4);
  if (levels_of(GetParam()) == 127) {
    values_[2] = -128;
  } else {
    values_[2] = static_cast<std::int8_t>(levels_of(GetParam()) + 1);
  }
  EXPECT_THROW(pack_codes(values_, GetParam(), 1, payload_), InvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Formats, LevelPayload, ::testing::Values(CodeFormat::kQ4, CodeFormat::kQ8),
                         [](const auto& parameter) { return to_string(parameter.param); });

TEST(LevelFormat, GoesByBits) {
  EXPECT_EQ(level_format(2), CodeFormat::kT2);
  EXPECT_EQ(level_format(4), CodeFormat::kQ4);
  EXPECT_EQ(level_format(8), CodeFormat::kQ8);
  EXPECT_THROW(level_format(1), InvalidArgument);
  EXPECT_EQ(levels_of(CodeFormat::kTMask), 1);
  EXPECT_EQ(levels_of(CodeFormat::kTrans), 1);
  EXPECT_EQ(levels_of(CodeFormat::kQ4), 7);
  EXPECT_EQ(levels_of(CodeFormat::kQ8), 127);
  EXPECT_THROW(levels_of(CodeFormat::kLanes), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::levels_test
