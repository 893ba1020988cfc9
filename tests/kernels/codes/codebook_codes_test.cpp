#include "kernels/codes/codebook_codes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/codes/ternarize.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/codes/codebook_cases.h"
#include "support/simd_targets.h"

namespace terngrad::codebook_codes_test {
namespace {

using reference::Bytes;
using testing::CodebookCase;

constexpr int kLevels[] = {4, 8, 16};

void expect_reference(const CodebookCase& c, const std::string& what) {
  const Bytes expected = testing::reference_payload(c);
  testing::for_each_target([&](const std::string& target) {
    ASSERT_EQ(testing::quantized(c), expected) << target << ", " << c.text() << ", " << what;
  });
}

TEST(CodebookQuantizer, MatchesTheReferenceAtRaggedLengthsAndAlignments) {
  for (const int levels : kLevels) {
    for (const std::size_t n : {0u, 1u, 7u, 8u, 9u, 15u, 16u, 17u, 31u, 33u, 63u, 65u, 4095u, 4096u, 4097u, 12289u}) {
      for (const std::size_t start : {0u, 1u}) {
        expect_reference({.gradient = testing::gaussian(n, n + 1), .options = {levels}, .misalignment = start},
                         "ragged");
      }
    }
  }
}

TEST(CodebookQuantizer, TakesAUnitPerBlockAndElementsAtThresholds) {
  const float kinds[] = {0.01f, 0.5f, std::numeric_limits<float>::quiet_NaN(), 3e-5f, 0.0f, 0x1p-90f};
  for (const int levels : kLevels) {
    for (const std::int64_t block : {64, 4096}) {
      CodebookCase c{.gradient = testing::gaussian(9707, 4), .first = 12288, .block_elements = block};
      c.options.levels = levels;
      c.scalers.clear();
      for (std::int64_t b = 0; b < num_blocks(c.first, c.count(), block); ++b) c.scalers.push_back(kinds[b % 6]);
      expect_reference(c, "blocks of " + std::to_string(block));
    }
    CodebookCase c{.scalers = {0.3f}, .options = {levels}};
    const Codebook book = codebook(levels);
    for (int k = 0; k + 1 < book.num_magnitudes; ++k) {
      const float threshold = book.thresholds[k] * 0.3f;
      for (const float value : {threshold, std::nextafter(threshold, 0.0f)}) {
        c.gradient.push_back(value);
        c.gradient.push_back(-value);
      }
    }
    for (const float value : {0.0f, -0.0f, 1e-45f, -3e38f}) c.gradient.push_back(value);
    expect_reference(c, "thresholds");
  }
}

TEST(CodebookQuantizer, TakesNarrowElementsManyTasksAndThreads) {
  for (const ElementType type : {ElementType::kBfloat16, ElementType::kFloat16}) {
    std::vector<CodebookCase> cases;
    for (const std::size_t n : {7u, 0u, 4097u, 9001u}) {
      CodebookCase c{.gradient = testing::gaussian(n, n), .options = {8}};
      c.round_gradient_to(type);
      cases.push_back(c);
    }
    const std::vector<Bytes> found = testing::quantized(cases, 3);
    for (std::size_t i = 0; i < cases.size(); ++i) ASSERT_EQ(found[i], testing::reference_payload(cases[i])) << i;
  }
}

TEST(CodebookQuantizer, WritesGoldenBytes) {
  // In units of 1: magnitudes 0, 1, 1, 0 of 4 levels, with signs.
  const std::vector<float> g = {0.1f, -1.5f, 0.99f, -0.5f};
  EXPECT_EQ(testing::quantized(CodebookCase{.gradient = g, .scalers = {1.0f}}), (Bytes{0b10'01'11'00, 0, 0, 0}));
  // With 8 levels the codes are 0, 2 with the sign, 1, and 0 with the sign: 000, 110, 001, 100.
  EXPECT_EQ(
      testing::quantized(CodebookCase{.gradient = {0.1f, -1.5f, 0.99f, -0.5f}, .scalers = {1.0f}, .options = {8}}),
      (Bytes{0b01'110'000, 0b1000, 0, 0}));
}

TEST(CodebookQuantizer, RefusesWhatItCannotHonour) {
  Stream stream(Device::cpu(), 1);
  float gradient[64] = {};
  QuantizeTask task{.gradient = gradient, .first = 64, .count = 64, .scalers = gradient};
  EXPECT_THROW(CodebookQuantizer().run({&task, 1}, 4, stream), InvalidArgument);
  task.first = 0;
  for (const int levels : {2, 3, 5, 32})
    EXPECT_THROW(CodebookQuantizer().run({&task, 1}, levels, stream), InvalidArgument);
  EXPECT_THROW(codebook_bits(CodeFormat::kQ4), InvalidArgument);
}

TEST(CheckCodebook, RefusesWrongLengthsAndBitsAfterTheLastCode) {
  for (const int levels : kLevels) {
    const CodeFormat format = codebook_format(levels);
    for (const std::int64_t n : {1, 5, 8, 31, 32, 33}) {
      std::vector<std::uint8_t> payload(static_cast<std::size_t>(payload_bytes(format, n, 1)));
      const PackedCodes codes{format, payload, n};
      for (std::size_t bit = 0; bit < 8 * payload.size(); ++bit) {
        payload[bit / 8] = static_cast<std::uint8_t>(1u << (bit % 8));
        if (static_cast<std::int64_t>(bit) < n * codebook_bits(format)) {
          EXPECT_NO_THROW(check_payload(codes)) << bit;
        } else {
          EXPECT_THROW(check_payload(codes), CommunicationError) << bit << " of " << n;
        }
        payload[bit / 8] = 0;
      }
      EXPECT_THROW(check_payload({format, payload, n + 32}), CommunicationError);
      std::vector<std::int16_t> out(1);
      EXPECT_THROW(unpack_codes(codes, 0, out), InvalidArgument);
    }
  }
}

TEST(ScaleCodebook, GivesEveryLevelWithItsSign) {
  for (const int levels : kLevels) {
    const Codebook book = codebook(levels);
    std::vector<std::uint8_t> codes;
    for (int code = 0; code < levels; ++code) codes.push_back(static_cast<std::uint8_t>(code));
    std::vector<float> out(codes.size());
    testing::for_each_target([&](const std::string& target) {
      cpu::scale_codebook(codes.data(), levels, book, 3.0f, out.data());
      for (int code = 0; code < levels; ++code) {
        const float magnitude = 3.0f * book.values[code % book.num_magnitudes];
        EXPECT_EQ(out[static_cast<std::size_t>(code)], code < book.num_magnitudes ? magnitude : -magnitude) << target;
      }
    });
  }
}

}  // namespace
}  // namespace terngrad::codebook_codes_test
