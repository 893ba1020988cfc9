#include "kernels/codes/signs.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "kernels/codes/ternarize.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/slice.h"
#include "support/bits.h"
#include "support/codes/sign_cases.h"
#include "support/simd_targets.h"

namespace terngrad::signs_test {
namespace {

using reference::Bytes;
using testing::bits_of;
using testing::kSignForms;
using testing::SignCase;

void expect_reference(const SignCase& c, const std::string& what) {
  const Bytes expected = testing::reference_payload(c);
  testing::for_each_target([&](const std::string& target) {
    ASSERT_EQ(testing::quantized(c), expected) << target << ", " << c.text() << ", " << what;
  });
}

TEST(SignPacker, MatchesTheReferenceAtRaggedLengths) {
  for (const SignOptions& options : kSignForms) {
    for (const std::size_t n : {0u, 1u, 3u, 8u, 15u, 31u, 32u, 33u, 63u, 64u, 65u, 4095u, 4096u, 4097u, 12289u}) {
      expect_reference({.gradient = testing::with_zeros(n, n + 1), .options = options}, "ragged");
    }
  }
}

TEST(SignPacker, GivesZerosTheParityOfStepWorkerAndPosition) {
  for (const std::uint64_t step : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{0xff'ffffffffu}}) {
    for (const std::uint32_t worker : {0u, 1u}) {
      SignCase c{.gradient = std::vector<float>(100, 0.0f), .worker = worker};
      c.key = {1, step, 2, DrawPurpose::kQuantize};
      expect_reference(c, "step " + std::to_string(step));
      // Half of one worker's bits are negative, and half of the votes of an even number of workers.
      const Bytes bits = testing::quantized(c);
      EXPECT_EQ(bits[0], (step + worker) % 2 == 0 ? 0xaa : 0x55);
    }
  }
}

TEST(SignPacker, WritesGoldenBytes) {
  const float denormal = std::numeric_limits<float>::denorm_min();
  const SignCase c{.gradient = {-1, 1, 0, -0.0f, -denormal, denormal, 0, 0, -3, 3e38f}, .worker = 0};
  // Step 42 and worker 3: bits of zeros at even positions are 1.
  EXPECT_EQ(testing::quantized(c), (Bytes{0x55, 0x01, 0, 0}));
  SignCase plus = c;
  plus.options.zeros = ZeroSign::kPlus;
  EXPECT_EQ(testing::quantized(plus), (Bytes{0x11, 0x01, 0, 0}));
  SignCase lanes = c;
  lanes.options = {.lanes = true, .num_workers = 7};  // 3 bits per lane, 21 per word
  EXPECT_EQ(testing::quantized(lanes), (Bytes{0x41, 0x10, 0x04, 0x01, 0, 0, 0, 0}));
}

TEST(SignPacker, DoesNotDependOnTheAlignmentNorOnThreads) {
  for (const SignOptions& options : kSignForms) {
    SignCase c{.gradient = testing::with_zeros(13003, 5), .options = options};
    const Bytes expected = testing::reference_payload(c);
    testing::for_each_target([&](const std::string& target) {
      for (c.misalignment = 0; c.misalignment < 16; ++c.misalignment) {
        ASSERT_EQ(testing::quantized(c, 1 + static_cast<int>(c.misalignment % 4)), expected) << target;
      }
    });
  }
}

TEST(SignPacker, LooksOnlyAtElementsWithAScaler) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float kinds[] = {0.01f, 0.0f, nan, 0x1p-120f};
  for (const SignOptions& options : kSignForms) {
    for (const std::int64_t block : {64, 128, 4096, 4160}) {
      SignCase c{.gradient = testing::with_zeros(9707, 4), .first = 12288, .block_elements = block};
      c.options = options;
      c.scalers.clear();
      for (std::int64_t b = 0; b < num_blocks(c.first, c.count(), block); ++b) c.scalers.push_back(kinds[b % 4]);
      expect_reference(c, "blocks of " + std::to_string(block));
    }
    expect_reference({.gradient = std::vector<float>(300, nan), .scalers = {nan}, .options = options}, "not finite");
  }
}

TEST(SignPacker, TakesPairsOfScalersOfBlocksAndColumns) {
  for (const SignCase& c : testing::pair_cases()) expect_reference(c, std::to_string(c.options.columns) + " columns");
}

TEST(SignPacker, TakesElementsOfSixteenBitsAndManyTasks) {
  for (const ElementType type : {ElementType::kBfloat16, ElementType::kFloat16}) {
    for (const SignOptions& options : kSignForms) {
      std::vector<SignCase> cases;
      for (const std::size_t n : {7u, 0u, 4097u, 9001u}) {
        SignCase c{.gradient = testing::with_zeros(n, n), .worker = static_cast<std::uint32_t>(n), .options = options};
        c.round_gradient_to(type);
        cases.push_back(c);
      }
      Stream stream(Device::cpu(), 3);
      SignPacker packer;
      const std::vector<Bytes> found = testing::quantized(std::span<const SignCase>(cases), packer, stream);
      for (std::size_t i = 0; i < cases.size(); ++i) ASSERT_EQ(found[i], testing::reference_payload(cases[i])) << i;
    }
  }
}

TEST(SignPacker, RefusesWhatItCannotHonour) {
  Stream stream(Device::cpu(), 1);
  const std::uint64_t step = 0;
  EXPECT_THROW(SignPacker().run({}, {}, {}, stream, &step), InvalidArgument);
  EXPECT_THROW(SignPacker().run({}, {.lanes = true, .num_workers = 0}, {}, stream), InvalidArgument);
  EXPECT_THROW(SignPacker().run({}, {.lanes = true, .two_scalers = true}, {}, stream), InvalidArgument);
  EXPECT_THROW(SignPacker().run({}, {.columns = 3}, {}, stream), InvalidArgument);
  EXPECT_THROW(SignPacker().run({}, {.two_scalers = true, .columns = -3}, {}, stream), InvalidArgument);
  float gradient[64] = {};
  const QuantizeTask task{.gradient = gradient, .first = 64, .count = 64, .scalers = gradient};
  EXPECT_THROW(SignPacker().run({&task, 1}, {}, {}, stream), InvalidArgument);
}

TEST(CheckBits, RefusesWhatNoEncoderWrites) {
  for (const std::int64_t n : {1, 8, 31, 32, 33, 63, 64}) {
    Bytes payload(static_cast<std::size_t>(payload_bytes(CodeFormat::kBits, n, 1)));
    EXPECT_EQ(payload.size(), static_cast<std::size_t>((n + 31) / 32 * 4));
    const PackedCodes codes{CodeFormat::kBits, payload, n};
    for (std::size_t bit = 0; bit < 8 * payload.size(); ++bit) {
      payload[bit / 8] = static_cast<std::uint8_t>(1u << (bit % 8));
      if (static_cast<std::int64_t>(bit) < n) {
        EXPECT_NO_THROW(check_payload(codes)) << bit << " of " << n;
      } else {
        EXPECT_THROW(check_payload(codes), CommunicationError) << bit << " of " << n;
      }
      payload[bit / 8] = 0;
    }
    EXPECT_THROW(check_payload({CodeFormat::kBits, payload, n + 32}), CommunicationError);
    EXPECT_THROW(check_bits({CodeFormat::kBits, payload, n + 32}), CommunicationError);
    std::vector<std::int16_t> out(1);
    EXPECT_THROW(unpack_codes(codes, 0, out), InvalidArgument);
  }
}

TEST(ScaleSigns, GivesEveryElementItsSide) {
  const Bytes bits = testing::reference_payload(SignCase{.gradient = testing::gaussian(200, 9)});
  testing::for_each_target([&](const std::string& target) {
    for (const std::int64_t first : {0, 1, 7, 8, 63, 64, 100}) {
      for (const std::int64_t count : {0, 1, 31, 64, 65, 100}) {
        std::vector<float> out(static_cast<std::size_t>(count));
        cpu::scale_signs(bits.data(), static_cast<std::int64_t>(bits.size()), first, count, 0.3f, 0.7f, out.data());
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t bit = first + i;
          const bool is_negative = (bits[static_cast<std::size_t>(bit / 8)] >> (bit % 8) & 1) != 0;
          ASSERT_EQ(bits_of(out[static_cast<std::size_t>(i)]), bits_of(is_negative ? -0.7f : 0.3f))
              << target << ", " << i << " from " << first;
        }
      }
    }
  });
}

}  // namespace
}  // namespace terngrad::signs_test
