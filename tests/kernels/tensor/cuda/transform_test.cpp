// Checks and transforms of gradients on a GPU against the CPU backend, bit for bit.
#include "kernels/tensor/transform.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <string>
#include <vector>

#include "kernels/optimizer/optimizer.h"
#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/gradients.h"
#include "support/guarded_array.h"

namespace terngrad::cuda_transform_test {
namespace {

using testing::bits_of;
using testing::GuardedArray;
using CudaTransform = testing::CudaTest;

/// Infinities, NaN, and the values around them and around zero.
constexpr std::uint32_t kSpecial[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xffffffffu,
                                      0x7f7fffffu, 0xff7fffffu, 0x00000000u, 0x80000000u, 0x00000001u, 0x807fffffu};

std::vector<float> with_specials(std::size_t n) {
  std::vector<float> values = testing::gaussian(n, n);
  for (std::size_t i = 0; i < n; i += 2) values[i] = std::bit_cast<float>(kSpecial[i / 2 % std::size(kSpecial)]);
  return values;
}

/// Lengths 0 to 70 and around a block's, at all alignments.
template <class Body>
void for_each_case(const Body& body) {
  std::vector<std::size_t> lengths;
  for (std::size_t n = 0; n <= 70; ++n) lengths.push_back(n);
  lengths.insert(lengths.end(), {2047, 2048, 2049, 4095, 4096, 4097, 20011});
  for (const std::size_t n : lengths) {
    for (const std::size_t start : {0u, 1u, 2u, 3u}) {
      body(n, start);
      if (::testing::Test::HasFailure()) FAIL() << "length " << n << ", start " << start;
    }
  }
}

TEST_F(CudaTransform, ReplacesWhatTheCpuReplaces) {
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  for_each_case([&](std::size_t n, std::size_t start) {
    std::vector<float> expected = with_specials(n);
    GuardedArray<float> found(expected, start, cuda);
    const std::int64_t num_replaced = zero_nonfinite(expected, cpu);
    EXPECT_EQ(all_finite(found.span(), cuda), num_replaced == 0);
    EXPECT_EQ(zero_nonfinite(found.span(), cuda), num_replaced);
    EXPECT_EQ(bits_of(found.values()), bits_of(expected));
    EXPECT_EQ(zero_nonfinite(found.span(), cuda), 0);
    EXPECT_TRUE(all_finite(found.span(), cuda));
  });
}

TEST_F(CudaTransform, FindsOneAtAnyPlace) {
  Stream cuda(Device::cuda());
  for (std::size_t place = 0; place < 2100; place += place < 70 ? 1 : 29) {
    std::vector<float> values(2100, 2.5f);
    values[place] = std::numeric_limits<float>::quiet_NaN();
    GuardedArray<float> found(values, 1, cuda);
    ASSERT_FALSE(all_finite(found.span(), cuda)) << place;
    ASSERT_EQ(zero_nonfinite(found.span(), cuda), 1) << place;
    values[place] = 0;
    ASSERT_EQ(found.values(), values) << place;
  }
}

TEST_F(CudaTransform, CountsWhereAllAreReplaced) {
  Stream cuda(Device::cuda());
  GuardedArray<float> found(std::vector<float>(50001, -std::numeric_limits<float>::infinity()), 2, cuda);
  EXPECT_EQ(zero_nonfinite(found.span(), cuda), 50001);
  EXPECT_EQ(bits_of(found.values()), std::vector<std::uint32_t>(50001, 0));
}

TEST_F(CudaTransform, GathersTheAnswersOfSeveralCallsOnTheDevice) {
  Stream cuda(Device::cuda());
  Buffer<std::uint32_t> flag(1, Device::cuda());
  Buffer<std::int64_t> count = testing::to_device<std::int64_t>(std::vector<std::int64_t>{1ll << 40}, cuda);
  fill_zero(flag.span(), cuda);
  const auto flag_now = [&] { return testing::to_host<std::uint32_t>(flag.span(), cuda)[0]; };
  GuardedArray<float> finite(std::vector<float>(3000, 1.0f), 0, cuda);
  GuardedArray<float> hostile(with_specials(3000), 0, cuda);
  find_nonfinite(finite.span(), flag.data(), cuda);
  EXPECT_EQ(flag_now(), 0u);
  find_nonfinite(hostile.span(), flag.data(), cuda);
  EXPECT_EQ(flag_now(), 1u);
  find_nonfinite(finite.span(), flag.data(), cuda);
  EXPECT_EQ(flag_now(), 1u);
  for (int i = 0; i < 2; ++i) {
    GuardedArray<float> again(with_specials(3000), 0, cuda);
    zero_nonfinite(again.span(), count.data(), cuda);
    zero_nonfinite(finite.span(), count.data(), cuda);
  }
  EXPECT_EQ(testing::to_host<std::int64_t>(count.span(), cuda)[0], (1ll << 40) + 2 * 750);
}

TEST_F(CudaTransform, ItsFlagSkipsAnUpdate) {
  Stream cuda(Device::cuda());
  Buffer<std::uint32_t> flag(1, Device::cuda());
  for (const float last : {1.0f, std::numeric_limits<float>::infinity()}) {
    GuardedArray<float> weights(std::vector<float>{5, 6}, 0, cuda);
    GuardedArray<float> gradient(std::vector<float>{1, last}, 0, cuda);
    fill_zero(flag.span(), cuda);
    find_nonfinite(gradient.span(), flag.data(), cuda);
    update_gd(weights.span(), gradient.span(), 1, cuda, {.skip = flag.data()});
    EXPECT_EQ(weights.values(), last == 1 ? (std::vector<float>{4, 5}) : (std::vector<float>{5, 6}));
  }
}

TEST_F(CudaTransform, ScalesAsTheCpuDoes) {
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  for (const float factor : {0.1f, 1.0f, 3e-39f, 0.0f, -1e30f}) {
    const Buffer<float> factor_on_device = testing::to_device<float>(std::vector<float>{factor}, cuda);
    for_each_case([&](std::size_t n, std::size_t start) {
      std::vector<float> expected = with_specials(n);
      GuardedArray<float> by_value(expected, start, cuda);
      GuardedArray<float> by_pointer(expected, start, cuda);
      scale(expected, factor, cpu);
      scale(by_value.span(), factor, cuda);
      scale(by_pointer.span(), factor_on_device.data(), cuda);
      testing::expect_same_values(by_value.values(), expected, "by value");
      testing::expect_same_values(by_pointer.values(), expected, "by pointer");
    });
  }
}

TEST_F(CudaTransform, MultipliesLikeTheCpu) {
  for (const std::size_t count : {0u, 1u, 5u, 300u}) {
    const std::vector<float> a = testing::gaussian(count, 1);
    const std::vector<float> b = testing::gaussian(count, 2);
    Stream cpu(Device::cpu(), 1);
    Stream cuda(Device::cuda());
    std::vector<float> expected(count);
    multiply(a, b, expected, cpu);
    const Buffer<float> a_on_device = testing::to_device<float>(a, cuda);
    const Buffer<float> b_on_device = testing::to_device<float>(b, cuda);
    Buffer<float> out(static_cast<std::int64_t>(count), Device::cuda());
    multiply(a_on_device.span(), b_on_device.span(), out.span(), cuda);
    EXPECT_EQ(testing::to_host<float>(out.span(), cuda), expected);
  }
  Stream cpu(Device::cpu(), 1);
  std::vector<float> two(2);
  std::vector<float> three(3);
  EXPECT_THROW(multiply(two, three, two, cpu), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_transform_test
