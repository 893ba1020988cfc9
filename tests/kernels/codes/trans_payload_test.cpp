#include "kernels/codes/trans_payload.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/errors.h"
#include "support/reference_trans.h"

namespace terngrad::trans_payload_test {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::vector<std::int8_t> random_codes(std::size_t n, double nonzeros, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::bernoulli_distribution is_nonzero(nonzeros);
  std::vector<std::int8_t> codes(n);
  for (auto& code : codes) code = static_cast<std::int8_t>(!is_nonzero(random) ? 0 : random() % 2 == 0 ? 1 : -1);
  return codes;
}

Bytes packed(const std::vector<std::int8_t>& codes) {
  const auto n = static_cast<std::int64_t>(codes.size());
  std::vector<std::uint32_t> words(static_cast<std::size_t>(payload_bytes(CodeFormat::kTrans, n, 1)) / 4);
  auto* const payload = reinterpret_cast<std::uint8_t*>(words.data());
  const std::int64_t bytes = pack_codes(codes, CodeFormat::kTrans, 1, {payload, 4 * words.size()});
  return {payload, payload + bytes};
}

TEST(TransPayload, HasTheBytesOfTheExample) {
  // The 18 codes of docs/wire-format.md.
  const std::vector<std::int8_t> codes = {0, -1, 0, -1, -1, -1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0};
  EXPECT_EQ(packed(codes), (Bytes{0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0x3a, 0x50, 0x01, 0x0f, 0, 0}));
  EXPECT_EQ(packed({}), (Bytes{0, 0, 0, 0}));
}

TEST(TransPayload, IsAsLongAsTheFormatSays) {
  // H(0.29) + 0.29 = 1.159 bits, headers included.
  for (const auto& [nonzeros, most] : {std::pair(0.29, 1.20), std::pair(0.318, 1.26), std::pair(0.05, 0.38)}) {
    const std::size_t n = 1 << 20;
    const double bits = 8 * static_cast<double>(packed(random_codes(n, nonzeros)).size()) / static_cast<double>(n);
    EXPECT_LE(bits, most);
    const double entropy = -nonzeros * std::log2(nonzeros) - (1 - nonzeros) * std::log2(1 - nonzeros);
    EXPECT_LE(bits, entropy + nonzeros + 0.04);
  }
}

TEST(TransPayload, MaxBytesIsReachedByMasksThatAreNotCoded) {
  for (const std::size_t n : {0u, 1u, 8u, 9u, 31u, 4095u, 4096u, 4097u, 9000u}) {
    for (const double nonzeros : {0.5, 1.0}) {
      const auto most = static_cast<std::size_t>(payload_bytes(CodeFormat::kTrans, static_cast<std::int64_t>(n), 1));
      EXPECT_LE(packed(random_codes(n, nonzeros)).size(), most) << n;
    }
  }
  EXPECT_EQ(trans_parts(4097).num_chunks, 2);
  EXPECT_EQ(trans_parts(4097).records_offset, 12);
  EXPECT_EQ(trans_parts(4097).max_bytes, 12 + 1032);  // 1026 + 4, filled up
  EXPECT_EQ(min_payload_bytes(CodeFormat::kTrans, 4097), 12);
  // The maximum number of offsets that 32 bits can hold.
  EXPECT_LT(trans_parts(kMaxTransElements).num_chunks * (kMaxTransRecordBytes / 2), std::int64_t{1} << 32);
  EXPECT_GE((trans_parts(kMaxTransElements).num_chunks + 1) * (kMaxTransRecordBytes / 2), std::int64_t{1} << 32);
}

class CheckTrans : public ::testing::Test {
 protected:
  static constexpr std::int64_t kNumCodes = 4096 + 1003;

  /// Copies to the exact length, so that the address sanitizer detects reads past the end.
  static void check(const Bytes& bytes) {
    const auto exact = std::make_unique<std::uint8_t[]>(bytes.size());
    std::memcpy(exact.get(), bytes.data(), bytes.size());
    check_payload({CodeFormat::kTrans, {exact.get(), bytes.size()}, kNumCodes, 1});
  }

  template <class Damage>
  void expect_refused(const Damage& damage) {
    Bytes damaged = bytes_;
    damage(damaged);
    EXPECT_THROW(check(damaged), CommunicationError);
  }

  std::vector<std::int8_t> codes_ = random_codes(kNumCodes, 0.2);
  Bytes bytes_ = packed(codes_);
};

TEST_F(CheckTrans, AcceptsOnlyWhatAnEncoderWrites) {
  ASSERT_NO_THROW(check(bytes_));
  int num_refused = 0;
  for (std::size_t at = 0; at < bytes_.size(); ++at) {
    Bytes damaged = bytes_;
    damaged[at] = static_cast<std::uint8_t>(damaged[at] ^ 1u << (at % 8));
    try {
      check(damaged);
    } catch (const CommunicationError&) {
      ++num_refused;
      continue;
    }
    std::vector<std::int16_t> codes(kNumCodes);
    unpack_codes({CodeFormat::kTrans, damaged, kNumCodes, 1}, 0, codes);
    ASSERT_EQ(reference::pack_trans(std::vector<std::int8_t>(codes.begin(), codes.end())), damaged) << at;
  }
  // Bit flips in signs give valid payloads; about 200 signs take few of the bytes.
  EXPECT_GT(num_refused, static_cast<int>(bytes_.size() / 2));
}

TEST_F(CheckTrans, RefusesOtherLengths) {
  expect_refused([](Bytes& bytes) { bytes.resize(bytes.size() - 4); });
  expect_refused([](Bytes& bytes) { bytes.resize(bytes.size() + 4); });
  expect_refused([](Bytes& bytes) { bytes.resize(8); });
  expect_refused([](Bytes& bytes) { bytes.clear(); });
}

TEST_F(CheckTrans, RefusesWrongOffsets) {
  for (const std::size_t word : {0u, 1u, 2u}) {
    expect_refused([&](Bytes& bytes) { bytes[4 * word] ^= 1; });
    expect_refused([&](Bytes& bytes) { bytes[4 * word + 3] ^= 0x80; });
  }
  expect_refused([](Bytes& bytes) { std::swap_ranges(bytes.begin() + 4, bytes.begin() + 8, bytes.begin() + 8); });
}

TEST_F(CheckTrans, RefusesSignBitsWithoutANonZeroAndPadding) {
  codes_.assign(kNumCodes, 0);
  codes_[3] = 1;  // chunk 0: a byte of signs and one of padding
  std::size_t end = 0;
  for (std::size_t i = 4096; i < 4200 && end + 2 != bytes_.size(); ++i) {  // until the records do not fill whole words
    codes_[i] = -1;
    bytes_ = packed(codes_);
    end = 12 + 2 * static_cast<std::size_t>(bytes_[8] + 256 * bytes_[9]);
  }
  ASSERT_EQ(end + 2, bytes_.size());
  ASSERT_NO_THROW(check(bytes_));
  const std::size_t second = 12 + 2 * static_cast<std::size_t>(bytes_[4]);
  ASSERT_EQ(bytes_[second - 1], 0);
  expect_refused([&](Bytes& bytes) { bytes[second - 1] = 1; });
  expect_refused([&](Bytes& bytes) { bytes[second - 2] |= 0x02; });
  expect_refused([&](Bytes& bytes) { bytes[end] = 1; });
  expect_refused([&](Bytes& bytes) { bytes[end + 1] = 1; });
}

}  // namespace
}  // namespace terngrad::trans_payload_test
