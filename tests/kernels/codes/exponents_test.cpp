#include "kernels/codes/exponents.h"

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
#include "support/codes/exponent_cases.h"
#include "support/sanitized.h"
#include "support/simd_targets.h"

namespace terngrad::exponents_test {
namespace {

using reference::Bytes;
using testing::bits_of;
using testing::ExponentCase;

void expect_reference(const ExponentCase& c, const std::string& what) {
  const Bytes expected = testing::reference_payload(c);
  testing::for_each_target([&](const std::string& target) {
    ASSERT_EQ(testing::quantized(c), expected) << target << ", " << c.text() << ", " << what;
  });
}

TEST(ExponentValue, IsThePowerOfTheCode) {
  EXPECT_EQ(exponent_value(0, 8), 0.0f);
  EXPECT_EQ(exponent_value(1, 8), 0x1p-126f);
  EXPECT_EQ(exponent_value(127, 8), 1.0f);
  EXPECT_EQ(exponent_value(254, 8), -0.5f);
  EXPECT_EQ(exponent_value(1, 4), 0x1p-6f);
  EXPECT_EQ(exponent_value(7, 4), 1.0f);
  EXPECT_EQ(exponent_value(15, 4), -1.0f);
  EXPECT_EQ(exponent_format(8), CodeFormat::kN8);
  EXPECT_EQ(exponent_format(4), CodeFormat::kN4);
  EXPECT_THROW(exponent_format(2), InvalidArgument);
}

TEST(ExponentQuantizer, MatchesTheReferenceAtRaggedLengths) {
  for (const int bits : {8, 4}) {
    for (const std::size_t n : {0u, 1u, 3u, 4u, 5u, 15u, 16u, 17u, 63u, 64u, 65u, 4095u, 4096u, 4097u, 12289u}) {
      expect_reference({.gradient = testing::gaussian(n, n + 1), .options = {.bits = bits}}, "ragged");
    }
  }
}

TEST(ExponentQuantizer, RoundsEveryUpperHalfOfAFloat) {
  // With s = 1 the elements themselves are rounded.
  ExponentCase c{.scalers = {1.0f}};
  for (std::uint32_t upper = 0; upper < 65536; ++upper) {
    const auto value = std::bit_cast<float>(upper << 16);
    if (std::isfinite(value)) c.gradient.push_back(value);
  }
  for (const int bits : {8, 4}) {
    c.options.bits = bits;
    expect_reference(c, "all");
  }
}

TEST(ExponentQuantizer, RefinesTiesBothWays) {
  // The fraction between two powers is (r16 + f) / 65536: rounds up if and only if the 24 refinement bits are below f
  // 2^24.
  constexpr std::size_t n = 40000;
  const auto r16 = reference::draws16({0x0123456789abcdef, 42, 8, 10}, 128, n);
  for (const int bits : {8, 4}) {
    ExponentCase c{.scalers = {1.0f}, .options = {.bits = bits}};
    for (std::size_t i = 0; i < n; ++i) {
      const unsigned code = bits == 8 ? static_cast<unsigned>(i % 127) : static_cast<unsigned>(i % 7);
      const double f = static_cast<double>(i / 127 % 2) / 2;
      const double below = reference::exponent_magnitude(code, bits);
      const double step = reference::exponent_magnitude(code + 1, bits) - below;
      const auto x = static_cast<float>(below + step * (r16[i] + f) / 65536);
      c.gradient.push_back(i % 3 == 0 ? -x : x);
    }
    expect_reference(c, "ties");
  }
}

TEST(ExponentQuantizer, DoesNotDependOnTheAlignmentNorOnThreads) {
  for (const int bits : {8, 4}) {
    ExponentCase c{.gradient = testing::gaussian(13003, 5), .options = {.bits = bits}};
    const Bytes expected = testing::reference_payload(c);
    testing::for_each_target([&](const std::string& target) {
      for (c.misalignment = 0; c.misalignment < 16; ++c.misalignment) {
        ASSERT_EQ(testing::quantized(c, 1 + static_cast<int>(c.misalignment % 4)), expected) << target;
      }
    });
  }
}

TEST(ExponentQuantizer, TakesAScalerPerBlock) {
  const float kinds[] = {0.01f, 0.5f, std::numeric_limits<float>::quiet_NaN(), 3e-5f, 0.0f, 0x1p-90f};
  for (const int bits : {8, 4}) {
    for (const std::int64_t block : {64, 128, 4096, 4160}) {
      ExponentCase c{.gradient = testing::gaussian(9707, 4), .first = 12288, .block_elements = block};
      c.options.bits = bits;
      c.scalers.clear();
      for (std::int64_t b = 0; b < num_blocks(c.first, c.count(), block); ++b) c.scalers.push_back(kinds[b % 6]);
      expect_reference(c, "blocks of " + std::to_string(block));
    }
  }
}

TEST(ExponentQuantizer, TakesHostileValues) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float huge = std::numeric_limits<float>::max();
  for (const int bits : {8, 4}) {
    for (const float scaler : {0.0f, tiny, kMinScaler, 0.3f, 1.0f, 1e20f, kMaxScaler}) {
      ExponentCase c{.scalers = {scaler}, .options = {.bits = bits}};
      for (const float value : {0.0f, -0.0f, tiny, -tiny, kMinScaler, 0.15f, 1.0f, -1.0f, 0.999f, -3.0f, huge, -huge}) {
        c.gradient.insert(c.gradient.end(), 100, value);
      }
      expect_reference(c, "scaler " + std::to_string(scaler));
    }
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_reference({.gradient = std::vector<float>(300, nan), .scalers = {nan}}, "not finite");
}

TEST(ExponentQuantizer, TakesElementsOfSixteenBitsAndManyTasks) {
  for (const ElementType type : {ElementType::kBfloat16, ElementType::kFloat16}) {
    for (const int bits : {8, 4}) {
      std::vector<ExponentCase> cases;
      for (const std::size_t n : {7u, 0u, 4097u, 9001u}) {
        ExponentCase c{.gradient = testing::gaussian(n, n), .worker = static_cast<std::uint32_t>(n)};
        c.options.bits = bits;
        c.round_gradient_to(type);
        c.type = type;
        cases.push_back(c);
      }
      Stream stream(Device::cpu(), 3);
      ExponentQuantizer quantizer;
      const std::vector<Bytes> found = testing::quantized(std::span<const ExponentCase>(cases), quantizer, stream);
      for (std::size_t i = 0; i < cases.size(); ++i) ASSERT_EQ(found[i], testing::reference_payload(cases[i])) << i;
    }
  }
}

TEST(ExponentQuantizer, WritesGoldenBytes) {
  // Powers of two do not depend on draws.
  ExponentCase c{.gradient = {0, 1, -1, 0.5f, -100, 0x1p-6f, -0x1p-126f, -0.0f, 0.25f}, .scalers = {1.0f}};
  EXPECT_EQ(testing::quantized(c), (Bytes{0x00, 0x7f, 0xff, 0x7e, 0xff, 0x79, 0x81, 0x00, 0x7d, 0, 0, 0}));
  c.options.bits = 4;
  EXPECT_EQ(testing::quantized(c), (Bytes{0x70, 0x6f, 0x1f, 0x00, 0x05, 0, 0, 0}));
}

TEST(ExponentQuantizer, IsUnbiased) {
  // The mean of many codes of one element is binomial; 5.2 standard deviations give 2e-7 false alarms each.
  constexpr std::size_t n = testing::scaled<std::size_t>(1 << 18, 1 << 15);
  for (const int bits : {8, 4}) {
    for (const float x : {0.0004f, 0.003f, 0.017f, 0.3f, 0.51f, 0.9f}) {
      const ExponentCase c{.gradient = std::vector<float>(n, -x), .scalers = {1.0f}, .options = {.bits = bits}};
      double sum = 0;
      const Bytes codes = testing::quantized(c);
      for (std::size_t i = 0; i < n; ++i) {
        sum += exponent_value(static_cast<std::uint8_t>(bits == 8 ? codes[i] : codes[i / 2] >> (i % 2 * 4) & 15), bits);
      }
      double below = 0;
      double next = bits == 8 ? 0x1p-126 : 0x1p-6;
      for (; next <= x; next *= 2) below = next;
      const double f = (x - below) / (next - below);
      EXPECT_NEAR(sum / static_cast<double>(n), -x,
                  5.2 * (next - below) * std::sqrt(f * (1 - f) / static_cast<double>(n)))
          << x << ", " << bits << " bits";
    }
  }
}

TEST(ExponentQuantizer, RefusesWhatItCannotHonour) {
  Stream stream(Device::cpu(), 1);
  const std::uint64_t step = 0;
  EXPECT_THROW(ExponentQuantizer().run({}, {}, {}, stream, &step), InvalidArgument);
  float gradient[64] = {};
  QuantizeTask task{.gradient = gradient, .first = 64, .count = 64, .scalers = gradient};
  EXPECT_THROW(ExponentQuantizer().run({&task, 1}, {}, {}, stream), InvalidArgument);
  task.first = 0;
  EXPECT_THROW(ExponentQuantizer().run({&task, 1}, {.bits = 2}, {}, stream), InvalidArgument);
}

TEST(CheckExponents, RefusesWhatNoEncoderWrites) {
  for (const int bits : {8, 4}) {
    const unsigned end = 1u << bits;
    for (const std::int64_t n : {1, 3, 4, 9}) {
      Bytes payload(static_cast<std::size_t>(payload_bytes(exponent_format(bits), n, 1)));
      const PackedCodes codes{exponent_format(bits), payload, n};
      for (std::size_t at = 0; at < payload.size() * 8 / static_cast<std::size_t>(bits); ++at) {
        const std::size_t bit = at * static_cast<std::size_t>(bits);
        for (unsigned code = 0; code < end; ++code) {
          payload[bit / 8] = static_cast<std::uint8_t>(code << (bit % 8));
          if (static_cast<std::int64_t>(at) < n ? code != end / 2 : code == 0) {
            EXPECT_NO_THROW(check_payload(codes)) << code;
          } else {
            EXPECT_THROW(check_payload(codes), CommunicationError) << code << " at " << at << " of " << n;
          }
        }
        payload[bit / 8] = 0;
      }
      EXPECT_THROW(check_payload({exponent_format(bits), payload, n + 8}), CommunicationError);
      std::vector<std::int16_t> out(1);
      EXPECT_THROW(unpack_codes(codes, 0, out), InvalidArgument);
    }
  }
}

TEST(ScaleExponents, GivesEveryPower) {
  for (const int bits : {8, 4}) {
    std::vector<std::uint8_t> codes;
    for (unsigned code = 0; code < 1u << bits; ++code) {
      if (code != 1u << (bits - 1)) codes.push_back(static_cast<std::uint8_t>(code));
    }
    testing::for_each_target([&](const std::string& target) {
      for (std::size_t n = 0; n <= codes.size(); ++n) {
        std::vector<float> out(n);
        cpu::scale_exponents(codes.data(), static_cast<std::int64_t>(n), bits, 3.0f, out.data());
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_EQ(bits_of(out[i]), bits_of(3.0f * exponent_value(codes[i], bits))) << target << ", " << i;
        }
      }
    });
  }
}

}  // namespace
}  // namespace terngrad::exponents_test
