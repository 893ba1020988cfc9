#include "kernels/codes/pack_sums.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/codes/ternary.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/errors.h"
#include "support/cuda_device.h"
#include "support/reference.h"

namespace terngrad::pack_sums_test {
namespace {

using testing::to_device;
using testing::to_host;
using CudaPackSums = testing::CudaTest;

constexpr int kWorkerCounts[] = {1, 2, 3, 4, 5, 8, 16, 127, 128, 300, 1000, 16383};
constexpr int kLevels[] = {1, 2, 14, 254};

/// Sums of codes with counts from 0 to m, including both ends.
std::vector<int> random_integers(std::size_t n, int num_workers, int levels, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const int bias = lane_bias(num_workers, levels);
  const int most = levels * num_workers - bias;
  std::vector<int> integers(n);
  for (int& value : integers) {
    value = static_cast<int>(random() % static_cast<std::uint64_t>(most + bias + 1)) - bias;
  }
  if (n > 1) integers[0] = -bias;
  if (n > 1) integers[1] = most;
  return integers;
}

std::vector<std::uint64_t> packed(std::span<const float> sums, int workers, int levels) {
  const std::int64_t bytes = payload_bytes(CodeFormat::kLanes, static_cast<std::int64_t>(sums.size()), workers, levels);
  std::vector<std::uint64_t> words(static_cast<std::size_t>(bytes) / 8, ~std::uint64_t{0});
  pack_sums(sums, workers, levels, reinterpret_cast<std::uint8_t*>(words.data()));
  return words;
}

TEST(PackSums, MatchesTheReferenceAndUnpacks) {
  for (const int levels : kLevels) {
    for (const int workers : kWorkerCounts) {
      for (const std::size_t n : {0u, 1u, 3u, 15u, 16u, 17u, 100u, 5000u}) {
        const std::vector<int> integers = random_integers(n, workers, levels, n + 1);
        const std::vector<std::uint64_t> words =
            packed(std::vector<float>(integers.begin(), integers.end()), workers, levels);
        const auto* bytes = reinterpret_cast<const std::uint8_t*>(words.data());
        const std::span<const std::uint8_t> payload(bytes, 8 * words.size());
        ASSERT_EQ(std::vector<std::uint8_t>(payload.begin(), payload.end()),
                  reference::pack_lanes(integers, lane_bias(workers, levels), workers, levels));
        const PackedCodes codes{CodeFormat::kLanes, payload, static_cast<std::int64_t>(n), workers, levels};
        check_payload(codes);
        if (levels * workers > 32767) continue;  // exceeds 16 bits
        std::vector<std::int16_t> out(n);
        unpack_codes(codes, 0, out);
        for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(out[i], integers[i]) << workers;
      }
    }
  }
}

TEST(PackSums, OfTernaryCodesHasTwoLevels) {
  const std::vector<float> sums = {-5, 5, 0, 1, 2, 3, 4, -1};
  std::vector<std::uint64_t> words(1);
  pack_sums(sums, 5, reinterpret_cast<std::uint8_t*>(words.data()));
  EXPECT_EQ(words, packed(sums, 5, 2));
  EXPECT_EQ(words[0], 0x498765a0u);  // 4 bits per lane
}

TEST(PackSums, OfLanesAboveTheirLastLevelAreRefused) {
  std::vector<std::uint64_t> words = packed(std::vector<float>{35, -35, 0}, 5, 14);  // 7 bits, at most 70
  const PackedCodes codes{CodeFormat::kLanes, {reinterpret_cast<const std::uint8_t*>(words.data()), 8}, 3, 5, 14};
  EXPECT_NO_THROW(check_payload(codes));
  words[0] += 1;
  EXPECT_THROW(check_payload(codes), CommunicationError);
}

/// Slices of sizes around a tile's, consecutive in one buffer, at all alignments of float32.
struct Slices {
  int workers;
  int levels;
  std::vector<std::size_t> sizes;
  std::vector<float> sums;
  std::vector<std::size_t> first_word;  // and one past the last
  std::vector<std::uint64_t> expected;

  explicit Slices(int num_workers, int lane_levels = 2) : workers(num_workers), levels(lane_levels) {
    const auto tile = static_cast<std::size_t>(256 * lanes_per_word(lane_bits(workers, levels)));
    sizes = {1, 0, 3, 17, tile - 1, tile, tile + 1, 100, 2 * tile + 5};
    first_word.push_back(0);
    for (const std::size_t n : sizes) {
      const std::vector<int> integers = random_integers(n, workers, levels, n + 1);
      const std::vector<std::uint64_t> words =
          packed(std::vector<float>(integers.begin(), integers.end()), workers, levels);
      sums.insert(sums.end(), integers.begin(), integers.end());
      expected.insert(expected.end(), words.begin(), words.end());
      first_word.push_back(expected.size());
    }
  }
  std::vector<SumPackTask> tasks(const float* from, std::uint64_t* to) const {
    std::vector<SumPackTask> result;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      result.push_back({.sums = from,
                        .count = static_cast<std::int64_t>(sizes[i]),
                        .payload = reinterpret_cast<std::uint8_t*>(to + first_word[i])});
      from += sizes[i];
    }
    return result;
  }
};

TEST(PackSums, OfManySlicesIsThatOfEach) {
  for (const int workers : {1, 3, 300}) {
    const Slices slices(workers);
    std::vector<std::uint64_t> words(slices.expected.size());
    Stream cpu(Device::cpu(), 1);
    SumPacker(workers).run(slices.tasks(slices.sums.data(), words.data()), cpu);
    EXPECT_EQ(words, slices.expected);
  }
}

TEST(PackSums, RefusesWhatNoLaneHolds) {
  EXPECT_THROW(SumPacker(0), InvalidArgument);
  EXPECT_THROW(SumPacker(16384), InvalidArgument);
  EXPECT_NO_THROW(SumPacker(16383));
  EXPECT_NO_THROW(SumPacker(16383, 254));
  EXPECT_THROW(SumPacker(16383, 4096), InvalidArgument);
  Stream cpu(Device::cpu(), 1);
  const float sum = 1;
  std::uint64_t words[2] = {};
  const SumPackTask task{.sums = &sum, .count = 1, .payload = reinterpret_cast<std::uint8_t*>(words) + 4};
  EXPECT_THROW(SumPacker(3).run({&task, 1}, cpu), InvalidArgument);
}

TEST_F(CudaPackSums, GivesTheCpusBytes) {
  Stream cuda(Device::cuda());
  for (const int levels : kLevels) {
    for (const int workers : kWorkerCounts) {
      const Slices slices(workers, levels);
      const Buffer<float> sums = to_device<float>(slices.sums, cuda);
      Buffer<std::uint64_t> words(static_cast<std::int64_t>(slices.expected.size()), Device::cuda());
      SumPacker(workers, levels, Device::cuda()).run(slices.tasks(sums.data(), words.data()), cuda);
      ASSERT_EQ(to_host<std::uint64_t>(words.span(), cuda), slices.expected) << workers << " workers, " << levels;
    }
  }
}

TEST_F(CudaPackSums, RunsFromAGraphAndWithoutTasks) {
  Stream cuda(Device::cuda());
  const Slices slices(5);
  Buffer<float> sums = to_device<float>(std::vector<float>(slices.sums.size()), cuda);
  Buffer<std::uint64_t> words(static_cast<std::int64_t>(slices.expected.size()), Device::cuda());
  SumPacker packer(5, Device::cuda());
  packer.run({}, cuda);
  const auto tasks = slices.tasks(sums.data(), words.data());
  packer.run(tasks, cuda);
  const CapturedGraph graph(cuda, [&] { packer.run(tasks, cuda); });
  copy<float>(slices.sums, sums.span(), cuda);
  graph.launch(cuda);
  EXPECT_EQ(to_host<std::uint64_t>(words.span(), cuda), slices.expected);
}

TEST_F(CudaPackSums, RefusesAnotherDevicesStream) {
  Stream cpu(Device::cpu(), 1);
  SumPacker packer(5, Device::cuda());
  EXPECT_THROW(packer.run({}, cpu), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::pack_sums_test
