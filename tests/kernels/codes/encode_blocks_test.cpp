#include "kernels/codes/encode_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/codes/ternarize.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/statistics.h"
#include "support/simd_targets.h"

namespace terngrad::encode_blocks_test {
namespace {

constexpr DrawKey kKey{7, 3, 1, DrawPurpose::kTernarize};

std::vector<float> values_of(std::int64_t n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    values[static_cast<std::size_t>(i)] =
        draw_uniform({1, 0, 0, DrawPurpose::kSyntheticData}, static_cast<std::uint64_t>(i)) - 0.5f;
  }
  return values;
}

struct Encoded {
  std::vector<float> scalers;
  std::vector<std::uint32_t> words;
  friend bool operator==(const Encoded&, const Encoded&) = default;
};

Encoded make_room(std::int64_t n, std::int64_t block) {
  return {std::vector<float>(static_cast<std::size_t>(num_blocks(0, n, block))),
          std::vector<std::uint32_t>(static_cast<std::size_t>((n + 15) / 16))};
}

Encoded in_one_pass(const std::vector<float>& values, std::int64_t block, double clip, ScalerRule rule,
                    Stream& stream) {
  const auto n = static_cast<std::int64_t>(values.size());
  Encoded result = make_room(n, block);
  const EncodeBlocksTask task{.gradient = values.data(),
                              .count = n,
                              .draw_offset = 128,
                              .block_elements = block,
                              .scalers = result.scalers.data(),
                              .payload = reinterpret_cast<std::uint8_t*>(result.words.data())};
  encode_blocks({&task, 1}, clip, rule, kKey, stream);
  return result;
}

Encoded in_two_passes(const std::vector<float>& values, std::int64_t block, double clip, ScalerRule rule,
                      Stream& stream) {
  const auto n = static_cast<std::int64_t>(values.size());
  Encoded result = make_room(n, block);
  for (std::size_t b = 0; b < result.scalers.size(); ++b) {
    const std::size_t first = b * static_cast<std::size_t>(block);
    const std::size_t count = std::min(static_cast<std::size_t>(block), values.size() - first);
    const Statistics statistics = measure(std::span(values).subspan(first, count), stream);
    result.scalers[b] = local_scaler(statistics, static_cast<std::int64_t>(count), clip, rule);
  }
  const TernarizeTask task{.gradient = values.data(),
                           .first = 0,
                           .count = n,
                           .draw_offset = 128,
                           .block_elements = block,
                           .scalers = result.scalers.data(),
                           .clips = nullptr,
                           .payload = reinterpret_cast<std::uint8_t*>(result.words.data())};
  std::int64_t bytes = 0;
  ternarize({&task, 1}, {}, kKey, {&bytes, 1}, stream);
  return result;
}

TEST(EncodeBlocks, OnePassGivesTheBitsOfTwo) {
  testing::for_each_target([](const std::string& target) {
    for (const std::int64_t n : {0, 1, 63, 4095, 4096, 4097, 8192, 32768, 32769, 100000}) {
      for (const std::int64_t block : {4096, 8192, 32768}) {
        for (int threads = 1; threads <= 4; ++threads) {
          Stream stream(Device::cpu(), threads);
          const std::vector<float> values = values_of(n);
          EXPECT_EQ(in_one_pass(values, block, 2.5, ScalerRule::kPaper, stream),
                    in_two_passes(values, block, 2.5, ScalerRule::kPaper, stream))
              << target << ", " << n << " elements in blocks of " << block << ", " << threads << " threads";
        }
      }
    }
  });
}

TEST(EncodeBlocks, TakesBlocksOfMoreChunksThanTheTreeHasSlots) {
  Stream stream(Device::cpu(), 2);
  const std::int64_t block = kChunkElements * static_cast<std::int64_t>(kStatisticsSlots + 3);
  const std::vector<float> values = values_of(block + 5000);
  EXPECT_EQ(in_one_pass(values, block, 0, ScalerRule::kOriginal, stream),
            in_two_passes(values, block, 0, ScalerRule::kOriginal, stream));
}

TEST(EncodeBlocks, NonFiniteBlockGivesNanScalerAndZeroCodes) {
  Stream stream(Device::cpu(), 1);
  std::vector<float> values = values_of(3 * kChunkElements);
  values[5000] = std::numeric_limits<float>::infinity();
  const Encoded encoded = in_one_pass(values, kChunkElements, 0, ScalerRule::kPaper, stream);
  EXPECT_TRUE(std::isfinite(encoded.scalers[0]));
  EXPECT_TRUE(std::isnan(encoded.scalers[1]));
  for (std::size_t word = 256; word < 512; ++word) ASSERT_EQ(encoded.words[word], 0u) << word;
  EXPECT_TRUE(std::isfinite(encoded.scalers[2]));
}

TEST(EncodeBlocks, MisalignedBlocksAreRefused) {
  Stream stream(Device::cpu(), 1);
  EXPECT_THROW(in_one_pass(values_of(10), 64, 0, ScalerRule::kPaper, stream), InvalidArgument);
  EXPECT_THROW(in_one_pass(values_of(10), 4097, 0, ScalerRule::kPaper, stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::encode_blocks_test
