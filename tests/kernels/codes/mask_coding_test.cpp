#include "kernels/codes/mask_coding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/reference_trans.h"

namespace terngrad::mask_coding_test {
namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr std::int64_t kCounts[] = {1, 7, 8, 9, 64, 65, 72, 73, 100, 255, 256, 257, 1000, 4001, 4087, 4088, 4095, 4096};

/// Masks of `count` codes with the given fraction of non-zeros.
Bytes random_masks(std::int64_t count, double nonzeros, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::bernoulli_distribution is_nonzero(nonzeros);
  Bytes masks(static_cast<std::size_t>(count + 7) / 8, 0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    if (is_nonzero(random)) masks[i / 8] = static_cast<std::uint8_t>(masks[i / 8] | 1u << (i % 8));
  }
  return masks;
}

Bytes encoded(const Bytes& masks, std::int64_t count) {
  Bytes bytes(2 + masks.size(), 0xa5);
  bytes.resize(static_cast<std::size_t>(encode_masks(masks.data(), count, bytes.data())));
  return bytes;
}

/// Masks decoded by check_masks. @throws CommunicationError
Bytes checked(const Bytes& bytes, std::int64_t count) {
  Bytes masks(kMaxMaskBytes, 0xa5);
  EXPECT_LE(check_masks(bytes, count, masks.data()), static_cast<std::int64_t>(bytes.size()));
  masks.resize(static_cast<std::size_t>(count + 7) / 8);
  return masks;
}

TEST(MaskReciprocal, DividesExactlyBelow2To31) {
  constexpr std::uint64_t kEnd = std::uint64_t{1} << 31;
  const auto divided = [](std::uint64_t x, MaskReciprocal by) { return x * by.reciprocal >> by.shift; };
  for (std::uint32_t f = 1; f <= kMaskFrequencySum; ++f) {
    const MaskReciprocal reciprocal = mask_reciprocal(f);
    // The reciprocal is rounded up, so the error of the quotient grows with x and first shows just below a multiple.
    for (std::uint64_t multiple = kEnd / f * f; multiple > 0; multiple = multiple / 2 / f * f) {
      ASSERT_EQ(divided(multiple - 1, reciprocal), multiple / f - 1) << f;
      if (multiple == kEnd) continue;
      ASSERT_EQ(divided(multiple, reciprocal), multiple / f) << f;
    }
    ASSERT_EQ(divided(kEnd - 1, reciprocal), (kEnd - 1) / f) << f;
    ASSERT_EQ(divided(0, reciprocal), 0u) << f;
  }
}

TEST(MaskFrequencies, AreThoseOfTheReferenceAndAddUp) {
  for (int level = kMinMaskLevel; level <= kMaxMaskLevel; ++level) {
    const std::vector<std::uint32_t> expected = reference::mask_frequencies(static_cast<unsigned>(level));
    const std::array<std::uint32_t, 9> by_ones = mask_frequencies(level);
    for (unsigned byte = 0; byte < 256; ++byte) {
      ASSERT_EQ(by_ones[static_cast<unsigned>(std::popcount(byte))], expected[byte]) << level << ", " << byte;
      ASSERT_GE(expected[byte], 1u);
    }
    ASSERT_EQ(std::accumulate(expected.begin(), expected.end(), 0u), kMaskFrequencySum) << level;
  }
}

TEST(MaskLevel, IsRoundedAndCut) {
  EXPECT_EQ(mask_level(4096, 0), 12);
  EXPECT_EQ(mask_level(4096, 4096), 63);
  EXPECT_EQ(mask_level(4096, 2048), 32);
  EXPECT_EQ(mask_level(64, 20), 20);
  EXPECT_EQ(mask_level(128, 41), 21);  // 20.5
  EXPECT_EQ(mask_level(128, 40), 20);
  EXPECT_EQ(mask_level(1, 0), 12);
  EXPECT_EQ(mask_level(1, 1), 63);
}

TEST(EncodeMasks, WritesGoldenBytes) {
  // 72 codes, of which only code 11 is not zero: nine mask bytes, more than two states. L = floor((64 x 71 + 36) / 72).
  Bytes masks(9, 0);
  masks[1] = 0x08;
  EXPECT_EQ(encoded(masks, 72), (Bytes{0x3f, 0, 0xbc, 0x3a, 0x1, 0, 0x22, 0x5e, 0x3d, 0}));
  // Eight raw bytes are as long as two states.
  EXPECT_EQ(encoded(Bytes(8, 0), 64), (Bytes{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  // 96 codes, every second one non-zero: coded masks would be longer.
  EXPECT_EQ(encoded(Bytes(12, 0x55), 96),
            (Bytes{0, 0, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55}));
  // The two states and four words.
  const Bytes sparse = {1, 0x80, 0, 0x11, 0, 8, 0x40, 0, 0x22, 0, 0, 4, 0, 0, 0, 0x81, 0, 0x10, 0, 0, 2, 0, 0, 0};
  EXPECT_EQ(encoded(sparse, 192),
            (Bytes{0x3c, 0, 0x63, 0x39, 0xb6, 0x13, 0x7, 0x2f, 0xf6, 0, 0x73, 0xeb, 0x10, 0x18, 0x43, 0x6f}));
}

TEST(EncodeMasks, WritesTheReferencesBytesThatReadBack) {
  for (const std::int64_t count : kCounts) {
    for (const double nonzeros : {0.0, 0.001, 0.01, 0.05, 0.1, 0.29, 0.318, 0.5, 0.7, 0.8, 0.9, 0.99, 1.0}) {
      SCOPED_TRACE(::testing::Message() << count << " codes, " << nonzeros);
      const Bytes masks = random_masks(count, nonzeros, static_cast<std::uint64_t>(count));
      const Bytes bytes = encoded(masks, count);
      std::vector<std::int8_t> codes(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::int8_t>(masks[i / 8] >> (i % 8) & 1);
      ASSERT_EQ(bytes, reference::code_masks(codes));
      ASSERT_EQ(checked(bytes, count), masks);
      // The record continues with signs and other chunks; masks are read in whole words.
      Bytes longer = bytes;
      longer.insert(longer.end(), 1500, 0xff);
      Bytes decoded(kMaxMaskBytes, 0xa5);
      ASSERT_EQ(decode_masks(longer, count, decoded.data()), static_cast<std::int64_t>(bytes.size()));
      ASSERT_TRUE(std::equal(masks.begin(), masks.end(), decoded.begin()));
      for (std::size_t i = masks.size(); i % 4 != 0; ++i) ASSERT_EQ(decoded[i], 0);
    }
  }
}

TEST(EncodeMasks, IsNearTheEntropyAndNeverLongerThanTheMasks) {
  for (const double nonzeros : {0.02, 0.05, 0.1, 0.2, 0.29, 0.318, 0.4, 0.5, 0.6, 0.8, 0.95}) {
    constexpr std::uint64_t kChunks = 20;
    double bits = 0;
    for (std::uint64_t chunk = 0; chunk < kChunks; ++chunk) {
      const Bytes bytes = encoded(random_masks(kChunkElements, nonzeros, chunk), kChunkElements);
      ASSERT_LE(bytes.size(), 2u + kMaxMaskBytes);
      bits += 8 * static_cast<double>(bytes.size()) / static_cast<double>(kChunks * kChunkElements);
    }
    const double entropy = -nonzeros * std::log2(nonzeros) - (1 - nonzeros) * std::log2(1 - nonzeros);
    // Level and states take 80 bits per chunk; quantized levels and frequencies cost the rest. Levels end at 52 of 64
    // non-zeros.
    EXPECT_LT(bits, std::min(entropy, 1.0) + 0.03 + (nonzeros > 0.82 ? 0.35 : 0)) << nonzeros;
    EXPECT_GT(bits, entropy - 0.01) << nonzeros;
  }
}

class CheckMasks : public ::testing::Test {
 protected:
  static constexpr std::int64_t kCount = 1003;

  void expect_refused(const Bytes& bytes) {
    Bytes masks(kMaxMaskBytes);
    EXPECT_THROW(check_masks(bytes, kCount, masks.data()), CommunicationError);
  }

  Bytes masks_ = random_masks(kCount, 0.2, 4);
  Bytes bytes_ = encoded(masks_, kCount);
};

TEST_F(CheckMasks, AcceptsOnlyWhatAnEncoderWrites) {
  ASSERT_NE(bytes_[0], kRawMasks);
  const Bytes raw = encoded(random_masks(kCount, 0.5, 4), kCount);
  ASSERT_EQ(raw[0], kRawMasks);
  int num_refused = 0;
  for (const Bytes& original : {bytes_, raw}) {
    for (std::size_t at = 0; at < original.size(); ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        Bytes damaged = original;
        damaged[at] = static_cast<std::uint8_t>(damaged[at] ^ 1u << bit);
        try {
          const Bytes masks = checked(damaged, kCount);
          ASSERT_EQ(encoded(masks, kCount), damaged) << at;
        } catch (const CommunicationError&) {
          ++num_refused;
        }
      }
    }
  }
  EXPECT_GT(num_refused, static_cast<int>(8 * bytes_.size() * 9 / 10));
}

TEST_F(CheckMasks, RefusesEveryShorterPrefix) {
  for (std::size_t size = 0; size < bytes_.size(); ++size) {
    expect_refused(Bytes(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(size)));
  }
}

TEST_F(CheckMasks, ReadsRandomBytesWithinBounds) {
  std::mt19937_64 random(9);
  for (int trial = 0; trial < 3000; ++trial) {
    Bytes bytes(random() % 300);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    if (bytes.size() > 1) {
      bytes[0] = static_cast<std::uint8_t>(trial % 65);
      bytes[1] = 0;
    }
    if (bytes.size() > 10) {
      bytes[5] &= 0x7f;
      bytes[9] &= 0x7f;
    }
    Bytes masks(kMaxMaskBytes);
    try {
      const std::int64_t used = check_masks(bytes, kCount, masks.data());
      ASSERT_LE(used, static_cast<std::int64_t>(bytes.size()));
    } catch (const CommunicationError&) {
    }
  }
}

TEST_F(CheckMasks, RefusesLevelsOfNoEncoder) {
  for (const int level : {1, 11, 64, 255, bytes_[0] - 1, bytes_[0] + 1}) {
    Bytes other = bytes_;
    other[0] = static_cast<std::uint8_t>(level);
    expect_refused(other);
  }
  bytes_[1] = 1;
  expect_refused(bytes_);
}

TEST_F(CheckMasks, RefusesStatesOutOfRange) {
  for (const std::size_t last : {5u, 9u}) {
    Bytes other = bytes_;
    other[last] |= 0x80;  // 2^31 or more
    expect_refused(other);
    other = bytes_;
    std::fill_n(other.begin() + static_cast<std::ptrdiff_t>(last) - 3, 4, std::uint8_t{0});
    expect_refused(other);
  }
}

TEST_F(CheckMasks, RefusesMasksThatAreShorterCoded) {
  Bytes raw = {0, 0};
  raw.insert(raw.end(), masks_.begin(), masks_.end());
  expect_refused(raw);
}

TEST_F(CheckMasks, RefusesCodesPastTheEnd) {
  Bytes raw = encoded(random_masks(kCount, 0.5, 4), kCount);
  raw.back() |= 0x08;  // 1003 = 8 * 125 + 3
  expect_refused(raw);
}

}  // namespace
}  // namespace terngrad::mask_coding_test
