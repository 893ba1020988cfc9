#include "kernels/codes/fp8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "kernels/codes/ternarize.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler_limits.h"
#include "kernels/tensor/slice.h"
#include "support/bits.h"
#include "support/codes/fp8_cases.h"
#include "support/sanitized.h"
#include "support/simd_targets.h"

namespace terngrad::fp8_test {
namespace {

using reference::Bytes;
using testing::bits_of;
using testing::Fp8Case;

constexpr Rounding kRoundings[] = {Rounding::kNearest, Rounding::kStochastic};

void expect_reference(const Fp8Case& c, const std::string& what) {
  const Bytes expected = testing::reference_payload(c);
  testing::for_each_target([&](const std::string& target) {
    ASSERT_EQ(testing::quantized(c), expected) << target << ", " << c.text() << ", " << what;
  });
}

TEST(E4M3, HasTheValuesOfItsFields) {
  EXPECT_EQ(e4m3_value(0), 0.0f);
  EXPECT_EQ(e4m3_value(1), 0x1p-9f);
  EXPECT_EQ(e4m3_value(8), 0x1p-6f);
  EXPECT_EQ(e4m3_value(0x38), 1.0f);
  EXPECT_EQ(e4m3_value(0x39), 1.125f);
  EXPECT_EQ(e4m3_value(0x7e), kMaxE4M3);
  for (unsigned code = 0; code < 127; ++code) {
    EXPECT_EQ(e4m3_value(static_cast<std::uint8_t>(code)), reference::e4m3_magnitude(code));
    EXPECT_EQ(e4m3_value(static_cast<std::uint8_t>(code + 128)), -reference::e4m3_magnitude(code));
  }
}

TEST(Fp8Quantizer, MatchesTheReferenceAtRaggedLengths) {
  for (const Rounding rounding : kRoundings) {
    for (const std::size_t n : {0u, 1u, 3u, 4u, 5u, 15u, 16u, 17u, 63u, 64u, 65u, 4095u, 4096u, 4097u, 12289u}) {
      expect_reference({.gradient = testing::gaussian(n, n + 1), .options = {.rounding = rounding}}, "ragged");
    }
  }
}

TEST(Fp8Quantizer, RoundsEveryUpperHalfOfAFloatAndEveryTie) {
  // With s = 1 the elements themselves are rounded.
  Fp8Case c{.scalers = {1.0f}};
  for (std::uint32_t upper = 0; upper < 65536; ++upper) {
    const auto value = std::bit_cast<float>(upper << 16);
    if (std::isfinite(value)) c.gradient.push_back(value);
  }
  for (unsigned code = 0; code < 126; ++code) {
    const auto tie = static_cast<float>((reference::e4m3_magnitude(code) + reference::e4m3_magnitude(code + 1)) / 2);
    for (const float value : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, 500.0f)}) {
      c.gradient.push_back(value);
      c.gradient.push_back(-value);
    }
  }
  for (const Rounding rounding : kRoundings) {
    c.options.rounding = rounding;
    expect_reference(c, "all");
  }
}

TEST(Fp8Quantizer, ErrsByAtMostASixteenth) {
  const Fp8Case c{.gradient = testing::gaussian(20000, 3), .scalers = {0.01f}};
  const Bytes codes = testing::quantized(c);
  for (std::size_t i = 0; i < c.gradient.size(); ++i) {
    const float g = c.gradient[i];
    if (std::fabs(g) < 0.01f * 0x1p-6f || std::fabs(g) > 4.48f) continue;
    ASSERT_LE(std::fabs(0.01f * e4m3_value(codes[i]) - g), (0x1p-4f + 0x1p-20f) * std::fabs(g)) << g;
  }
}

TEST(Fp8Quantizer, RefinesTiesBothWays) {
  // The fraction between two numbers is (r16 + f) / 65536: rounds up if and only if the 24 refinement bits are below f
  // 2^24.
  constexpr std::size_t n = 40000;
  const auto r16 = reference::draws16({0x0123456789abcdef, 42, 8, 10}, 128, n);
  Fp8Case c{.scalers = {1.0f}, .options = {.rounding = Rounding::kStochastic}};
  for (std::size_t i = 0; i < n; ++i) {
    const auto code = static_cast<unsigned>(i % 24);  // subnormal and normal numbers
    const double f = static_cast<double>(i / 24 % 2) / 2;
    const double step = reference::e4m3_magnitude(code + 1) - reference::e4m3_magnitude(code);
    const auto x = static_cast<float>(reference::e4m3_magnitude(code) + step * (r16[i] + f) / 65536);
    c.gradient.push_back(i % 3 == 0 ? -x : x);
  }
  expect_reference(c, "ties");
}

TEST(Fp8Quantizer, DoesNotDependOnTheAlignmentNorOnThreads) {
  for (const Rounding rounding : kRoundings) {
    Fp8Case c{.gradient = testing::gaussian(13003, 5), .options = {.rounding = rounding}};
    const Bytes expected = testing::reference_payload(c);
    testing::for_each_target([&](const std::string& target) {
      for (c.misalignment = 0; c.misalignment < 16; ++c.misalignment) {
        ASSERT_EQ(testing::quantized(c, 1 + static_cast<int>(c.misalignment % 4)), expected) << target;
      }
    });
  }
}

TEST(Fp8Quantizer, TakesAScalerPerBlock) {
  const float kinds[] = {0.01f, 0.5f, std::numeric_limits<float>::quiet_NaN(), 3e-5f, 0.0f, 0x1p-90f};
  for (const Rounding rounding : kRoundings) {
    for (const std::int64_t block : {64, 128, 4096, 4160}) {
      Fp8Case c{.gradient = testing::gaussian(9707, 4), .first = 12288, .block_elements = block};
      c.options.rounding = rounding;
      c.scalers.clear();
      for (std::int64_t b = 0; b < num_blocks(c.first, c.count(), block); ++b) c.scalers.push_back(kinds[b % 6]);
      expect_reference(c, "blocks of " + std::to_string(block));
    }
  }
}

TEST(Fp8Quantizer, TakesHostileValues) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float huge = std::numeric_limits<float>::max();
  for (const Rounding rounding : kRoundings) {
    for (const float scaler : {0.0f, tiny, kMinScaler, 0.3f, 1.0f, 1e20f, kMaxScaler}) {
      Fp8Case c{.scalers = {scaler}, .options = {.rounding = rounding}};
      for (const float value :
           {0.0f, -0.0f, tiny, -tiny, kMinScaler, 0.15f, 1.0f, -1.0f, 448.0f, -449.0f, huge, -huge}) {
        c.gradient.insert(c.gradient.end(), 100, value);
      }
      expect_reference(c, "scaler " + std::to_string(scaler));
    }
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_reference({.gradient = std::vector<float>(300, nan), .scalers = {nan}}, "not finite");
}

TEST(Fp8Quantizer, TakesElementsOfSixteenBitsAndManyTasks) {
  for (const ElementType type : {ElementType::kBfloat16, ElementType::kFloat16}) {
    for (const Rounding rounding : kRoundings) {
      std::vector<Fp8Case> cases;
      for (const std::size_t n : {7u, 0u, 4097u, 9001u}) {
        Fp8Case c{.gradient = testing::gaussian(n, n), .worker = static_cast<std::uint32_t>(n)};
        c.options.rounding = rounding;
        c.round_gradient_to(type);
        c.type = type;
        cases.push_back(c);
      }
      Stream stream(Device::cpu(), 3);
      Fp8Quantizer quantizer;
      const std::vector<Bytes> found = testing::quantized(std::span<const Fp8Case>(cases), quantizer, stream);
      for (std::size_t i = 0; i < cases.size(); ++i) ASSERT_EQ(found[i], testing::reference_payload(cases[i])) << i;
    }
  }
}

TEST(Fp8Quantizer, WritesGoldenBytes) {
  const Fp8Case c{.gradient = {0, 1, -1, 448, -1000, 0.0625f, 1.0625f, 1.1875f, -0.0009765625f}, .scalers = {1.0f}};
  EXPECT_EQ(testing::quantized(c), (Bytes{0x00, 0x38, 0xb8, 0x7e, 0xfe, 0x18, 0x38, 0x3a, 0x00, 0, 0, 0}));
}

TEST(Fp8Quantizer, IsUnbiased) {
  // The mean of many codes of one element is binomial; 5.2 standard deviations give 2e-7 false alarms each.
  constexpr std::size_t n = testing::scaled<std::size_t>(1 << 18, 1 << 15);
  for (const float x : {0.0004f, 0.003f, 0.017f, 0.3f, 1.01f, 5.7f, 300.0f}) {
    const Fp8Case c{
        .gradient = std::vector<float>(n, -x), .scalers = {1.0f}, .options = {.rounding = Rounding::kStochastic}};
    double sum = 0;
    const Bytes codes = testing::quantized(c);
    for (std::size_t i = 0; i < n; ++i) sum += e4m3_value(codes[i]);
    const auto [code, f] = reference::e4m3_below(x);
    const double step = reference::e4m3_magnitude(code + 1) - reference::e4m3_magnitude(code);
    EXPECT_NEAR(sum / static_cast<double>(n), -x, 5.2 * step * std::sqrt(f * (1 - f) / static_cast<double>(n))) << x;
  }
}

TEST(Fp8Quantizer, RefusesWhatItCannotHonour) {
  Stream stream(Device::cpu(), 1);
  const std::uint64_t step = 0;
  EXPECT_THROW(Fp8Quantizer().run({}, {}, {}, stream, &step), InvalidArgument);
  float gradient[64] = {};
  const QuantizeTask task{.gradient = gradient, .first = 64, .count = 64, .scalers = gradient};
  EXPECT_THROW(Fp8Quantizer().run({&task, 1}, {}, {}, stream), InvalidArgument);
}

TEST(CheckE4M3, RefusesWhatNoEncoderWrites) {
  for (const std::int64_t n : {1, 3, 4, 9}) {
    Bytes payload(static_cast<std::size_t>(payload_bytes(CodeFormat::kE4M3, n, 1)));
    const PackedCodes codes{CodeFormat::kE4M3, payload, n};
    for (std::size_t at = 0; at < payload.size(); ++at) {
      for (unsigned code = 0; code < 256; ++code) {
        payload[at] = static_cast<std::uint8_t>(code);
        const bool is_code = code % 128 != 127 && code != 128;
        if (static_cast<std::int64_t>(at) < n ? is_code : code == 0) {
          EXPECT_NO_THROW(check_payload(codes)) << code;
        } else {
          EXPECT_THROW(check_payload(codes), CommunicationError) << code << " at " << at << " of " << n;
        }
      }
      payload[at] = 0;
    }
    EXPECT_THROW(check_payload({CodeFormat::kE4M3, payload, n + 4}), CommunicationError);
    std::vector<std::int16_t> out(1);
    EXPECT_THROW(unpack_codes(codes, 0, out), InvalidArgument);
  }
}

TEST(ScaleE4M3, GivesEveryNumber) {
  std::vector<std::uint8_t> codes;
  for (unsigned code = 0; code < 256; ++code) {
    if (code % 128 != 127 && code != 128) codes.push_back(static_cast<std::uint8_t>(code));
  }
  testing::for_each_target([&](const std::string& target) {
    for (std::size_t n = 0; n <= codes.size(); ++n) {
      std::vector<float> out(n);
      cpu::scale_e4m3(codes.data(), static_cast<std::int64_t>(n), 0.3f, out.data());
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_EQ(bits_of(out[i]), bits_of(0.3f * e4m3_value(codes[i]))) << target << ", " << i << " of " << n;
      }
    }
  });
}

}  // namespace
}  // namespace terngrad::fp8_test
