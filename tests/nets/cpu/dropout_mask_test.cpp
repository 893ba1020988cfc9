#include "nets/cpu/dropout_mask.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/runtime/cpu/simd.h"
#include "tests/nets/reference_net.h"

namespace terngrad::cpu::dropout_mask_test {
namespace {

/// By definition; dropped elements are 0, even if the input is not finite.
std::vector<float> expected_output(const DrawKey& key, std::uint64_t first_draw, float keep_prob,
                                   const std::vector<float>& input) {
  std::vector<float> output(input.size());
  for (std::size_t i = 0; i < input.size(); ++i) {
    output[i] = draw_uniform(key, first_draw + i) < keep_prob ? input[i] * (1 / keep_prob) : 0.0f;
  }
  return output;
}

TEST(ApplyDropout, EverySimdTargetFollowsTheDefinition) {
  const DrawKey key{
      .seed = 0x123456789abcdefull, .step = 0xab12345678ull, .worker = 77, .purpose = DrawPurpose::kDropout};
  // The last range crosses 2^32 blocks after three blocks.
  for (const std::uint64_t first_draw : {std::uint64_t{0}, std::uint64_t{4}, ((std::uint64_t{1} << 32) - 3) * 4}) {
    for (const std::size_t count : {0u, 1u, 3u, 4u, 5u, 7u, 8u, 31u, 32u, 33u, 64u, 100u, 1000u}) {
      for (const float keep_prob : {0.5f, 0.8f, 0x1p-24f, 1 - 0x1p-24f}) {
        const auto input = test::random_floats(count, 3);
        const auto expected = expected_output(key, first_draw, keep_prob, input);
        for (const SimdTarget& target : simd_targets()) {
          force_simd_target(target.name);
          std::vector<float> output(count, NAN);
          apply_dropout(key, first_draw, keep_prob, input.data(), static_cast<std::int64_t>(count), output.data());
          EXPECT_EQ(output, expected) << target.name << ", " << count << " from " << first_draw << ", " << keep_prob;
        }
        force_simd_target("");
      }
    }
  }
}

TEST(ApplyDropout, WorksInPlaceAndDropsWhatIsNotFinite) {
  const DrawKey key{.seed = 1, .purpose = DrawPurpose::kDropout};
  std::vector<float> values(100, std::numeric_limits<float>::quiet_NaN());
  apply_dropout(key, 0, 0.5f, values.data(), 100, values.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::isnan(values[i]), draw_uniform(key, i) < 0.5f) << i;
  }
}

}  // namespace
}  // namespace terngrad::cpu::dropout_mask_test
