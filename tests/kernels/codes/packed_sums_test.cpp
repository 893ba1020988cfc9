#include "kernels/codes/cpu/packed_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/codes/ternary_pack.h"
#include "support/reference.h"
#include "support/simd_targets.h"

namespace terngrad::packed_sums_test {
namespace {

using reference::Bytes;

std::vector<std::int8_t> random_codes(std::size_t count, double density, unsigned seed) {
  std::mt19937 random(seed);
  std::bernoulli_distribution is_nonzero(density);
  std::vector<std::int8_t> codes(count);
  for (std::int8_t& code : codes) code = is_nonzero(random) ? static_cast<std::int8_t>(1 - 2 * (random() % 2)) : 0;
  return codes;
}

TEST(PackedSums, ReadsEveryT5ByteFromEveryDigit) {
  // All bytes from 0 to 242, in one payload and in three different ones.
  std::vector<std::vector<std::uint8_t>> storage(3, std::vector<std::uint8_t>(244));
  for (std::size_t i = 0; i < 243; ++i) {
    for (std::size_t k = 0; k < 3; ++k) storage[k][i] = static_cast<std::uint8_t>(i * (k + 1) % 243);
  }
  const std::vector<const std::uint8_t*> payloads{storage[0].data(), storage[1].data(), storage[2].data()};
  std::vector<std::int8_t> room(cpu::kT5SumRoom);
  testing::for_each_target([&](const std::string& target) {
    for (const std::size_t num_payloads : {1u, 3u}) {
      for (std::int64_t first = 0; first < 12; ++first) {
        const std::int64_t count = 243 * 5 - first;
        const std::int8_t* sums = cpu::sum_t5_codes({payloads.data(), num_payloads}, 244, first, count, room.data());
        for (std::int64_t i = 0; i < count; ++i) {
          const auto at = static_cast<std::size_t>(first + i);
          int expected = 0;
          for (std::size_t k = 0; k < num_payloads; ++k) expected += cpu::t5_table()[storage[k][at / 5]][at % 5];
          ASSERT_EQ(sums[i], expected) << target << ", code " << at << " of " << num_payloads;
        }
      }
    }
  });
}

TEST(PackedSums, AddsUpDenseAndSparseMasks) {
  testing::for_each_target([&](const std::string& target) {
    for (const double density : {0.0, 0.3, 0.99, 1.0}) {
      for (const std::size_t count : {1u, 31u, 32u, 33u, 64u, 100u, 4096u}) {
        std::vector<int> expected(count);
        std::vector<Bytes> packed;
        std::vector<cpu::TMaskChunk> chunks;
        for (unsigned k = 0; k < 5; ++k) {
          const std::vector<std::int8_t> codes = random_codes(count, density, k);
          for (std::size_t i = 0; i < count; ++i) expected[i] += codes[i];
          packed.push_back(reference::pack(codes, static_cast<int>(CodeFormat::kTMask), 1));
        }
        const TMaskParts parts = tmask_parts(static_cast<std::int64_t>(count));
        for (const Bytes& payload : packed) {
          chunks.push_back({.masks = payload.data() + parts.masks_offset,
                            .num_mask_bytes = parts.signs_offset - parts.masks_offset,
                            .signs = {payload.data() + parts.signs_offset, payload.data() + payload.size()}});
        }
        std::vector<std::int8_t> sums(4096);
        cpu::sum_tmask_codes(chunks, static_cast<std::int64_t>(count), sums.data());
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(sums[i], expected[i]) << target << ", " << i << " of " << count << ", density " << density;
        }
      }
    }
  });
}

}  // namespace
}  // namespace terngrad::packed_sums_test
