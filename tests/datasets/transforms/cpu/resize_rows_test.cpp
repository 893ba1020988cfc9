#include "datasets/transforms/cpu/resize_rows.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kernels/random/philox.h"
#include "tests/datasets/data_files.h"
#include "tests/support/simd_targets.h"

namespace terngrad::resize_rows_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> some_values(std::size_t count, std::uint64_t step) {
  const DrawKey key{.seed = 6, .step = step, .worker = 0, .purpose = DrawPurpose::kSyntheticData};
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(draw_uniform(key, i) - 0.25f);
  return values;
}

TEST(ResizeRows, BytesBecomeFloats) {
  const Bytes bytes = counting_bytes(1000);
  for (const std::size_t count : {0u, 1u, 15u, 16u, 37u, 1000u}) {
    testing::for_each_target([&](const std::string& target) {
      std::vector<float> out(count + 1, -1);
      cpu::bytes_to_floats(bytes.data(), count, out.data());
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], static_cast<float>(bytes[i])) << target;
      ASSERT_EQ(out[count], -1);
    });
  }
}

TEST(ResizeRows, ColumnsAreSumsInOrder) {
  constexpr std::size_t kPixels = 50;
  std::vector<float> row = some_values(3 * kPixels, 1);
  row.push_back(kNan);  // must not be read
  for (const std::size_t taps : {1u, 2u, 3u, 4u, 5u, 9u}) {
    for (const std::size_t count : {1u, 2u, 17u}) {
      const std::vector<float> weights = some_values(count * taps, 2);
      std::vector<int> first;
      for (std::size_t i = 0; i < count; ++i) first.push_back(static_cast<int>(i * 13 % (kPixels - taps + 1)));
      first.back() = static_cast<int>(kPixels - taps);
      std::vector<float> expected;
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t c = 0; c < 3; ++c) {
          float sum = 0;
          for (std::size_t t = 0; t < taps; ++t) {
            sum += weights[i * taps + t] * row[(static_cast<std::size_t>(first[i]) + t) * 3 + c];
          }
          expected.push_back(sum);
        }
      }
      testing::for_each_target([&](const std::string& target) {
        std::vector<float> out(3 * count + cpu::kRowPadding);
        cpu::resize_columns(row.data(), first.data(), weights.data(), taps, count, out.data());
        out.resize(3 * count);
        EXPECT_EQ(out, expected) << target << ", " << taps << " of " << count;
      });
    }
  }
}

TEST(ResizeRows, RowsAreSumsInOrder) {
  for (const std::size_t taps : {1u, 2u, 4u, 7u}) {
    for (const std::size_t count : {1u, 16u, 37u, 672u}) {
      std::vector<std::vector<float>> rows;
      std::vector<const float*> pointers;
      for (std::size_t t = 0; t < taps; ++t) rows.push_back(some_values(count, 10 + t));
      for (const std::vector<float>& row : rows) pointers.push_back(row.data());
      const std::vector<float> weights = some_values(taps, 3);
      std::vector<float> expected(count);
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t t = 0; t < taps; ++t) expected[i] += weights[t] * rows[t][i];
      }
      testing::for_each_target([&](const std::string& target) {
        std::vector<float> out(count);
        cpu::weigh_rows(pointers.data(), weights.data(), taps, count, out.data());
        EXPECT_EQ(out, expected) << target << ", " << taps << " of " << count;
      });
    }
  }
}

}  // namespace
}  // namespace terngrad::resize_rows_test
