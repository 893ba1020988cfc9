#include "kernels/sparse/top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"
#include "support/gradients.h"
#include "support/simd_targets.h"

namespace terngrad::top_k_test {
namespace {

std::uint32_t magnitude(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu; }

/// Reference by sorting.
std::vector<std::uint32_t> sorted_top(const std::vector<float>& values, std::int64_t k) {
  std::vector<std::uint32_t> places(values.size());
  std::iota(places.begin(), places.end(), 0u);
  std::ranges::stable_sort(places, std::ranges::greater(), [&](std::uint32_t i) { return magnitude(values[i]); });
  places.resize(static_cast<std::size_t>(k));
  std::ranges::sort(places);
  return places;
}

std::vector<std::uint32_t> selected(const std::vector<float>& values, std::int64_t k, int num_threads = 1) {
  Stream stream(Device::cpu(), num_threads);
  TopKSelector selector;
  const auto places =
      selector.run(values.data(), ElementType::kFloat32, static_cast<std::int64_t>(values.size()), k, stream);
  return {places.begin(), places.end()};
}

void expect_top(const std::vector<float>& values, std::int64_t k, int num_threads = 1) {
  EXPECT_EQ(selected(values, k, num_threads), sorted_top(values, k)) << k << " of " << values.size();
}

TEST(TopK, CountsWhatIsKept) {
  EXPECT_EQ(top_k_count(0, 0.5), 0);
  EXPECT_EQ(top_k_count(1, 0.001), 1);
  EXPECT_EQ(top_k_count(100, 0.01), 1);
  EXPECT_EQ(top_k_count(101, 0.01), 2);
  EXPECT_EQ(top_k_count(7, 1), 7);
  EXPECT_EQ(top_k_count(1 << 20, 1e-9), 1);
}

TEST(TopK, FindsTheLargestOfRunsOfAnyLength) {
  testing::for_each_target([&](const std::string&) {
    for (const std::int64_t n : {1, 2, 15, 16, 17, 255, 4095, 4096, 4097, 70000}) {
      const std::vector<float> values = testing::gaussian(static_cast<std::size_t>(n), 5);
      for (const double density : {0.001, 0.01, 0.1, 0.5, 1.0}) expect_top(values, top_k_count(n, density));
      expect_top(values, 0);
    }
  });
}

TEST(TopK, DoesNotDependOnThreads) {
  const std::vector<float> values = testing::gaussian(300000, 6);
  for (const int num_threads : {2, 3, 8}) expect_top(values, 3000, num_threads);
}

TEST(TopK, OfEqualMagnitudesTakesTheFirst) {
  std::vector<float> values = testing::gaussian(100000, 7);
  for (float& value : values) value = std::round(value * 2) / 2;  // few magnitudes, of both signs
  for (const std::int64_t k : {1, 100, 5000, 60000}) expect_top(values, k);
  expect_top(std::vector<float>(70000, -3.0f), 700);
}

TEST(TopK, FillsUpWithZerosWhereFewElementsAreNot) {
  std::vector<float> values(200000, 0.0f);
  for (std::size_t i = 0; i < values.size(); i += 3) values[i] = -0.0f;
  expect_top(values, 10);
  for (const std::size_t place : {7u, 4096u, 150001u, 199999u}) values[place] = 1e-40f * static_cast<float>(place);
  for (const std::int64_t k : {1, 4, 5, 2000, 100000}) expect_top(values, k);
}

// The selector samples at equal distances: here it sees only large elements, or none.
TEST(TopK, IsExactWhereTheSampleMisleads) {
  constexpr std::size_t kElements = 1 << 18;
  constexpr std::size_t kDistance = kElements / 16384;
  for (const bool sampled_are_large : {true, false}) {
    std::vector<float> values = testing::gaussian(kElements, 8);
    for (std::size_t i = 0; i < kElements; ++i) {
      if ((i % kDistance == 0) == sampled_are_large) values[i] *= 1e6f;
    }
    for (const std::int64_t k : {100, 16384, 16385, 30000}) expect_top(values, k);
  }
}

// The selector starts with a guess from its last run of the same size, which may be wrong.
TEST(TopK, DoesNotDependOnTheRunBefore) {
  constexpr std::int64_t kCount = 5000;
  constexpr std::int64_t kKept = 50;
  Stream stream(Device::cpu(), 1);
  TopKSelector selector;
  for (const float factor : {1.0f, 1.02f, 0.9f, 1e-3f, 1e3f, 0.0f, 1e-42f, 1.0f}) {
    std::vector<float> values = testing::gaussian(kCount, 31);
    for (float& value : values) value *= factor;
    const auto places = selector.run(values.data(), ElementType::kFloat32, kCount, kKept, stream);
    EXPECT_EQ(std::vector<std::uint32_t>(places.begin(), places.end()), sorted_top(values, kKept)) << factor;
  }
}

TEST(TopK, TakesElementsOf16Bits) {
  const std::vector<float> values = testing::gaussian(10000, 9);
  std::vector<std::uint16_t> bf16, fp16;
  std::vector<float> of_bf16, of_fp16;
  for (const float value : values) {
    bf16.push_back(to_bfloat16(value));
    fp16.push_back(to_float16(value));
    of_bf16.push_back(from_bfloat16(bf16.back()));
    of_fp16.push_back(from_float16(fp16.back()));
  }
  Stream stream;
  TopKSelector selector;
  const auto as_vector = [](std::span<const std::uint32_t> places) {
    return std::vector<std::uint32_t>(places.begin(), places.end());
  };
  EXPECT_EQ(as_vector(selector.run(bf16.data(), ElementType::kBfloat16, 10000, 300, stream)), sorted_top(of_bf16, 300));
  EXPECT_EQ(as_vector(selector.run(fp16.data(), ElementType::kFloat16, 10000, 300, stream)), sorted_top(of_fp16, 300));
}

TEST(TopK, RefusesMoreThanThereAre) {
  Stream stream;
  TopKSelector selector;
  const float value = 1;
  EXPECT_THROW(selector.run(&value, ElementType::kFloat32, 1, 2, stream), InvalidArgument);
  EXPECT_THROW(selector.run(&value, ElementType::kFloat32, 1, -1, stream), InvalidArgument);
  EXPECT_THROW(selector.run(&value, ElementType::kFloat32, std::int64_t{1} << 32, 1, stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::top_k_test
