#include "kernels/codes/ternary_pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "kernels/runtime/errors.h"
#include "support/reference.h"
#include "support/sanitized.h"
#include "support/simd_targets.h"

namespace terngrad::ternary_pack_test {
namespace {

using reference::Bytes;

constexpr TernaryFormat kFormats[] = {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask,
                                      TernaryFormat::kTrans, TernaryFormat::kLanes};

/// Bytes at an address that is a multiple of 8.
class Aligned {
 public:
  explicit Aligned(const Bytes& bytes) : words_((bytes.size() + 7) / 8), size_(bytes.size()) {
    std::copy(bytes.begin(), bytes.end(), data());
  }
  std::uint8_t* data() { return reinterpret_cast<std::uint8_t*>(words_.data()); }
  std::span<std::uint8_t> span() { return {data(), size_}; }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t size_;
};

std::vector<std::int8_t> random_codes(std::size_t n, std::uint64_t seed, unsigned zeros_in_8 = 4) {
  std::mt19937_64 random(seed);
  std::vector<std::int8_t> codes(n);
  for (auto& code : codes) code = static_cast<std::int8_t>(random() % 8 < zeros_in_8 ? 0 : random() % 2 == 0 ? 1 : -1);
  return codes;
}

Bytes packed(std::span<const std::int8_t> codes, TernaryFormat format, int num_workers) {
  Aligned payload(Bytes(
      static_cast<std::size_t>(payload_bytes(format, static_cast<std::int64_t>(codes.size()), num_workers)), 0xa5));
  const std::int64_t bytes = pack_codes(codes, format, num_workers, payload.span());
  return {payload.data(), payload.data() + bytes};
}

/// Unpacked code; lanes of one worker are unpacked with the bias of a sum over all workers.
std::int16_t expected_code(std::int8_t code, TernaryFormat format, int num_workers) {
  return static_cast<std::int16_t>(format == TernaryFormat::kLanes ? code + 1 - num_workers : code);
}

TEST(PackCodes, WritesGoldenBytes) {
  const std::vector<std::int8_t> codes = {1, -1, 0, 1, 0, 0, -1, -1, 1, 0};
  EXPECT_EQ(packed(codes, TernaryFormat::kT2, 1), (Bytes{0x4d, 0xf0, 0x01, 0x00}));
  EXPECT_EQ(packed(codes, TernaryFormat::kT5, 1), (Bytes{0x92, 0x88, 0x00, 0x00}));
  EXPECT_EQ(packed(codes, TernaryFormat::kTMask, 1), (Bytes{0, 0, 0, 0, 1, 0, 0, 0, 0xcb, 0x01, 0, 0, 0x1a, 0, 0, 0}));
  EXPECT_EQ(packed(codes, TernaryFormat::kTrans, 1), (Bytes{0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0xcb, 0x01, 0x1a, 0, 0, 0}));
  EXPECT_EQ(packed(codes, TernaryFormat::kLanes, 4), (Bytes{0x02, 0x21, 0x11, 0x00, 0x12, 0x00, 0x00, 0x00}));
}

TEST(PackCodes, MatchesTheReferenceAndUnpacksAtEveryShortLength) {
  testing::for_each_target([&](const std::string& target) {
    for (std::size_t n = 0; n <= 700; ++n) {
      const auto codes = random_codes(n, n);
      for (const TernaryFormat format : kFormats) {
        for (const int workers : {1, 3, 16}) {
          if (format != TernaryFormat::kLanes && workers != 1) continue;
          const Bytes bytes = packed(codes, format, workers);
          ASSERT_EQ(bytes, reference::pack(codes, static_cast<int>(format), workers))
              << target << ", " << to_string(format) << " of " << n;
          Aligned payload(bytes);
          const PackedCodes view{format, payload.span(), static_cast<std::int64_t>(n), workers};
          ASSERT_NO_THROW(check_payload(view));
          std::vector<std::int16_t> unpacked(n, 99);
          unpack_codes(view, 0, unpacked);
          for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(unpacked[i], expected_code(codes[i], format, workers));
        }
      }
    }
  });
}

TEST(PackCodes, RoundTripsLongRunsOfEverySparsity) {
  for (const unsigned zeros : {0u, 1u, 6u, 8u}) {
    const auto codes = random_codes(3 * 4096 + 77, zeros, zeros);
    for (const TernaryFormat format : kFormats) {
      Aligned payload(packed(codes, format, 1));
      const PackedCodes view{format, payload.span(), static_cast<std::int64_t>(codes.size()), 1};
      ASSERT_NO_THROW(check_payload(view));
      std::vector<std::int16_t> unpacked(codes.size());
      unpack_codes(view, 0, unpacked);
      EXPECT_TRUE(std::equal(codes.begin(), codes.end(), unpacked.begin())) << to_string(format);
    }
  }
}

TEST(PackCodes, RefusesOtherValues) {
  const std::vector<std::int8_t> codes = {2};
  std::uint64_t payload;
  EXPECT_THROW(pack_codes(codes, TernaryFormat::kT2, 1, {reinterpret_cast<std::uint8_t*>(&payload), 4}),
               InvalidArgument);
}

TEST(PackCodes, RefusesAShortPayload) {
  const std::vector<std::int8_t> codes(17, 1);
  std::uint64_t payload;
  EXPECT_THROW(pack_codes(codes, TernaryFormat::kT2, 1, {reinterpret_cast<std::uint8_t*>(&payload), 4}),
               InvalidArgument);
}

TEST(PackCodes, TakesNothingAndWritesNothing) {
  EXPECT_EQ(pack_codes({}, TernaryFormat::kT2, 1, {}), 0);
  EXPECT_EQ(pack_codes({}, TernaryFormat::kT5, 1, {}), 0);
  EXPECT_EQ(pack_codes({}, TernaryFormat::kLanes, 1, {}), 0);
}

TEST(UnpackCodes, ReadsAnyRange) {
  const auto codes = random_codes(9000, 5);
  std::mt19937_64 random(6);
  for (const TernaryFormat format : kFormats) {
    const int workers = format == TernaryFormat::kLanes ? 5 : 1;
    Aligned payload(packed(codes, format, workers));
    const PackedCodes view{format, payload.span(), 9000, workers};
    for (int trial = 0; trial < testing::scaled(3000, 300); ++trial) {
      const std::size_t first = random() % 9001;
      const std::size_t count = random() % (trial % 2 == 0 ? 20u : 9001u) % (9001 - first);
      std::vector<std::int16_t> out(count);
      unpack_codes(view, static_cast<std::int64_t>(first), out);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(out[i], expected_code(codes[first + i], format, workers)) << to_string(format) << " " << first + i;
      }
    }
  }
}

TEST(UnpackCodes, RefusesARangeOutside) {
  Aligned payload(packed(random_codes(20, 1), TernaryFormat::kT2, 1));
  const PackedCodes view{TernaryFormat::kT2, payload.span(), 20, 1};
  std::vector<std::int16_t> out(10);
  EXPECT_THROW(unpack_codes(view, 11, out), InvalidArgument);
  EXPECT_THROW(unpack_codes(view, -1, out), InvalidArgument);
  EXPECT_NO_THROW(unpack_codes(view, 10, out));
}

TEST(T5, TableDecodesEveryByte) {
  const auto& table = cpu::t5_table();
  for (int byte = 0; byte < 256; ++byte) {
    for (int i = 0, rest = byte; i < 8; ++i, rest /= 3) {
      const int expected = byte < 243 && i < 5 ? rest % 3 - 1 : 0;
      ASSERT_EQ(table[byte][i], expected) << byte << ", " << i;
    }
  }
}

TEST(T5, EveryRunOfFiveCodesHasAByteOfItsOwn) {
  for (int value = 0; value < 243; ++value) {
    std::vector<std::int8_t> codes;
    for (int i = 0, rest = value; i < 5; ++i, rest /= 3) codes.push_back(static_cast<std::int8_t>(rest % 3 - 1));
    ASSERT_EQ(packed(codes, TernaryFormat::kT5, 1), (Bytes{static_cast<std::uint8_t>(value), 0, 0, 0}));
  }
}

class CheckPayload : public ::testing::Test {
 protected:
  CheckPayload() : codes_(random_codes(4096 + 1003, 9)) {}
  /// Expects that an encoder's payload passes, and is refused after `damage`.
  template <class Damage>
  void expect_refused(TernaryFormat format, int workers, const Damage& damage) {
    Bytes bytes = packed(codes_, format, workers);
    const auto n = static_cast<std::int64_t>(codes_.size());
    {
      Aligned good(bytes);
      ASSERT_NO_THROW(check_payload({format, good.span(), n, workers}));
    }
    damage(bytes);
    Aligned bad(bytes);
    EXPECT_THROW(check_payload({format, bad.span(), n, workers}), CommunicationError);
  }
  std::vector<std::int8_t> codes_;
};

TEST_F(CheckPayload, RefusesEveryWrongLength) {
  for (const TernaryFormat format : kFormats) {
    for (const std::size_t removed : {1u, 4u, 8u}) {
      expect_refused(format, 3, [&](Bytes& bytes) {
        bytes.erase(bytes.end() - static_cast<std::ptrdiff_t>(removed), bytes.end());
      });
    }
    expect_refused(format, 3, [](Bytes& bytes) { bytes.clear(); });
    for (const std::size_t added : {1u, 4u, 8u}) {
      expect_refused(format, 3, [&](Bytes& bytes) { bytes.resize(bytes.size() + added); });
    }
  }
}

TEST_F(CheckPayload, RefusesCode10OfT2Anywhere) {
  for (const std::size_t at : {0u, 1u, 77u, 1273u}) {
    for (int pair = 0; pair < 4; ++pair) {
      expect_refused(TernaryFormat::kT2, 1, [&](Bytes& bytes) {
        bytes[at] = static_cast<std::uint8_t>((bytes[at] & ~(3 << 2 * pair)) | 2 << 2 * pair);
      });
    }
  }
}

TEST_F(CheckPayload, RefusesPaddingOfT2) {
  codes_.resize(4096 + 1001);  // 9 codes in the last word
  expect_refused(TernaryFormat::kT2, 1, [](Bytes& bytes) { bytes.back() = 0x40; });
  expect_refused(TernaryFormat::kT2, 1, [](Bytes& bytes) { bytes[bytes.size() - 2] = 0x04; });
}

TEST_F(CheckPayload, RefusesBytesAbove242OfT5) {
  for (const std::uint8_t value : {std::uint8_t{243}, std::uint8_t{255}}) {
    expect_refused(TernaryFormat::kT5, 1, [&](Bytes& bytes) { bytes[500] = value; });
  }
}

TEST_F(CheckPayload, RefusesPaddingOfT5) {
  // 5099 codes: 1020 bytes, the last with 4 codes.
  expect_refused(TernaryFormat::kT5, 1, [](Bytes& bytes) { bytes[1019] = 81; });
  codes_.resize(5091);  // 1019 bytes, the last with one code
  expect_refused(TernaryFormat::kT5, 1, [](Bytes& bytes) { bytes[1018] = 3; });
  expect_refused(TernaryFormat::kT5, 1, [](Bytes& bytes) { bytes[1019] = 1; });
}

TEST_F(CheckPayload, RefusesWrongOffsetsOfTmask) {
  for (const std::size_t word : {0u, 1u, 2u}) {
    expect_refused(TernaryFormat::kTMask, 1, [&](Bytes& bytes) { bytes[4 * word] ^= 1; });
    expect_refused(TernaryFormat::kTMask, 1, [&](Bytes& bytes) { bytes[4 * word + 3] ^= 0x80; });
  }
}

TEST_F(CheckPayload, RefusesMaskBitsPastTheEndOfTmask) {
  expect_refused(TernaryFormat::kTMask, 1, [](Bytes& bytes) {
    const auto masks_end = static_cast<std::size_t>(tmask_parts(4096 + 1003).signs_offset);
    bytes[masks_end - 1] |= 0x80;
  });
}

TEST_F(CheckPayload, RefusesMaskBitsThatNeedMoreSigns) {
  expect_refused(TernaryFormat::kTMask, 1, [](Bytes& bytes) { std::fill_n(bytes.begin() + 12, 64, 0xff); });
}

TEST_F(CheckPayload, RefusesSignBitsWithoutANonZero) {
  codes_.assign(4096 + 10, 0);
  codes_[3] = 1;         // chunk 0: one sign in byte 0
  codes_[4096 + 2] = 1;  // chunk 1: one sign in byte 1
  const auto signs = static_cast<std::size_t>(tmask_parts(4096 + 10).signs_offset);
  expect_refused(TernaryFormat::kTMask, 1, [&](Bytes& bytes) { bytes[signs] = 0x02; });
  expect_refused(TernaryFormat::kTMask, 1, [&](Bytes& bytes) { bytes[signs + 1] = 0x80; });
  expect_refused(TernaryFormat::kTMask, 1, [&](Bytes& bytes) { bytes[signs + 2] = 1; });  // padding bytes
}

TEST_F(CheckPayload, RefusesALaneAbove2N) {
  // N = 5: lanes of 4 bits hold 0..10.
  expect_refused(TernaryFormat::kLanes, 5, [](Bytes& bytes) { bytes[100] = 0x0b; });
  expect_refused(TernaryFormat::kLanes, 5, [](Bytes& bytes) { bytes[100] = 0xf0; });
}

TEST_F(CheckPayload, AcceptsALaneOf2N) {
  Bytes bytes(8, 0xaa);  // sixteen lanes of 10
  Aligned payload(bytes);
  EXPECT_NO_THROW(check_payload({TernaryFormat::kLanes, payload.span(), 16, 5}));
}

TEST_F(CheckPayload, RefusesPaddingOfLanes) {
  expect_refused(TernaryFormat::kLanes, 5, [](Bytes& bytes) { bytes.back() = 0x10; });  // 5099 = 16 * 318 + 11
  // N = 3: 21 lanes of 3 bits leave one bit of each word unused.
  expect_refused(TernaryFormat::kLanes, 3, [](Bytes& bytes) { bytes[7] |= 0x80; });
}

TEST_F(CheckPayload, NeverReadsOutsideRandomBytes) {
  // Random bytes are refused, or unpacked within bounds (checked by the address sanitizer).
  std::mt19937_64 random(3);
  int accepted = 0;
  for (int trial = 0; trial < testing::scaled(20000, 4000); ++trial) {
    const TernaryFormat format = kFormats[random() % 4];
    const auto n = static_cast<std::int64_t>(random() % 70);
    Bytes bytes(static_cast<std::size_t>(payload_bytes(format, n, 2)));
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random() % 4 == 0 ? random() : 0);
    Aligned payload(bytes);
    const PackedCodes view{format, payload.span(), n, 2};
    try {
      check_payload(view);
    } catch (const CommunicationError&) {
      continue;
    }
    ++accepted;
    std::vector<std::int16_t> out(static_cast<std::size_t>(n));
    unpack_codes(view, 0, out);
    for (const std::int16_t code : out) ASSERT_LE(std::abs(code), 2);
  }
  EXPECT_GT(accepted, 0);
}

TEST(AddLanes, SumsTheCodesOfAllWorkers) {
  for (const int workers : {1, 2, 3, 4, 7, 8, 16, 31, 32}) {
    constexpr std::size_t n = 1000;
    std::vector<int> sums(n, 0);
    std::vector<std::uint64_t> lanes;
    for (int worker = 0; worker < workers; ++worker) {
      // All plus, all minus, and mixed, so that lanes reach both limits.
      auto codes = random_codes(n, static_cast<std::uint64_t>(worker), 3);
      for (std::size_t i = 0; i < 100; ++i) codes[i] = 1;
      for (std::size_t i = 100; i < 200; ++i) codes[i] = -1;
      for (std::size_t i = 0; i < n; ++i) sums[i] += codes[i];
      Aligned payload(packed(codes, TernaryFormat::kLanes, workers));
      const std::span<const std::uint64_t> words(reinterpret_cast<std::uint64_t*>(payload.data()),
                                                 payload.span().size() / 8);
      if (worker == 0) {
        lanes.assign(words.begin(), words.end());
      } else {
        add_lanes(lanes, words);
      }
    }
    const PackedCodes view{
        TernaryFormat::kLanes, {reinterpret_cast<const std::uint8_t*>(lanes.data()), lanes.size() * 8}, n, workers};
    ASSERT_NO_THROW(check_payload(view));
    std::vector<std::int16_t> out(n);
    unpack_codes(view, 0, out);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(out[i], sums[i]) << workers << " workers, " << i;
  }
}

TEST(AddLanes, RefusesAnotherLength) {
  std::vector<std::uint64_t> a(2);
  const std::vector<std::uint64_t> b(3);
  EXPECT_THROW(add_lanes(a, b), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::ternary_pack_test
