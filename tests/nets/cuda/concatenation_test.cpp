#include "nets/cuda/concatenation.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/cuda_device.h"
#include "support/guarded_array.h"
#include "tests/nets/reference_net.h"

namespace terngrad::cuda::concatenation_test {
namespace {

using terngrad::testing::GuardedArray;
using test::random_floats;
using CudaConcatenation = terngrad::testing::CudaTest;

std::size_t size_of(std::int64_t pixels, int channels) { return static_cast<std::size_t>(pixels * channels); }

TEST_F(CudaConcatenation, InputsLieSideBySideAndComeApartAgain) {
  Stream stream(Device::cuda());
  const std::vector<std::vector<int>> splits = {{4}, {1, 1}, {3, 5, 2}, {4, 8, 16}, {64, 96, 32}, {8, 3, 4}, {2, 4, 2}};
  for (const std::vector<int>& split : splits) {
    int channels = 0;
    for (const int count : split) channels += count;
    for (const std::int64_t pixels : {0, 1, 3, 100}) {
      for (const std::size_t start : {0u, 1u}) {
        SCOPED_TRACE(::testing::Message() << channels << " channels, " << pixels << " pixels, start " << start);
        const std::vector<float> whole = random_floats(size_of(pixels, channels), 1);
        GuardedArray<float> joined(std::vector<float>(whole.size(), 77.0f), start, stream);
        int first = 0;
        for (const int count : split) {
          std::vector<float> part;
          for (std::int64_t p = 0; p < pixels; ++p) {
            const auto at = whole.begin() + p * channels + first;
            part.insert(part.end(), at, at + count);
          }
          GuardedArray<float> whole_there(whole, start, stream);
          GuardedArray<float> part_there(std::vector<float>(part.size(), 77.0f), start, stream);
          copy_channels({whole_there.data(), channels, first}, {part_there.data(), count, 0}, count, pixels, stream);
          ASSERT_EQ(part_there.values(), part);
          copy_channels({part_there.data(), count, 0}, {joined.data(), channels, first}, count, pixels, stream);
          first += count;
        }
        ASSERT_EQ(joined.values(), whole);
      }
    }
  }
}

TEST_F(CudaConcatenation, OtherChannelsStay) {
  Stream stream(Device::cuda());
  GuardedArray<float> from(std::vector<float>{1, 2, 3, 4, 5, 6}, 0, stream);
  GuardedArray<float> to(std::vector<float>(8, 9.0f), 0, stream);
  copy_channels({from.data(), 3, 1}, {to.data(), 4, 2}, 2, 2, stream);
  EXPECT_EQ(to.values(), (std::vector<float>{9, 9, 2, 3, 9, 9, 5, 6}));
  copy_channels({from.data(), 3, 3}, {to.data(), 4, 4}, 0, 2, stream);
  EXPECT_EQ(to.values(), (std::vector<float>{9, 9, 2, 3, 9, 9, 5, 6}));
}

TEST_F(CudaConcatenation, CopiesLessThanWholePacks) {
  Stream stream(Device::cuda());
  const std::vector<float> values = random_floats(3 * 8, 1);
  GuardedArray<float> from(values, 0, stream);
  for (const int count : {1, 2, 3}) {
    GuardedArray<float> to(std::vector<float>(3 * 4, 9.0f), 0, stream);
    copy_channels({from.data(), 8, 4}, {to.data(), 4, 0}, count, 3, stream);
    std::vector<float> expected(3 * 4, 9.0f);
    for (std::size_t p = 0; p < 3; ++p) {
      for (std::size_t c = 0; c < static_cast<std::size_t>(count); ++c) expected[p * 4 + c] = values[p * 8 + 4 + c];
    }
    EXPECT_EQ(to.values(), expected) << count;
  }
}

TEST_F(CudaConcatenation, RefusesChannelsBeyondThoseThereAre) {
  Stream stream(Device::cuda());
  EXPECT_THROW(copy_channels({nullptr, 3, 1}, {nullptr, 9, 0}, 3, 1, stream), InvalidArgument);
  EXPECT_THROW(copy_channels({nullptr, 9, 0}, {nullptr, 3, 1}, 3, 1, stream), InvalidArgument);
  EXPECT_THROW(copy_channels({nullptr, 9, -1}, {nullptr, 3, 0}, 3, 1, stream), InvalidArgument);
  EXPECT_THROW(copy_channels({nullptr, 9, 0}, {nullptr, 3, 0}, -1, 1, stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda::concatenation_test
