#include "kernels/sparse/sparse_encoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/codes/sparse_cases.h"
#include "support/simd_targets.h"

namespace terngrad::sparse_encoder_test {
namespace {

using testing::SparseCase;

/// Payload of the first k elements of each run, after sorting all.
std::vector<std::uint8_t> expected_payload(const SparseCase& c) {
  std::vector<float> values = c.values;
  if (!c.is_finite) std::ranges::fill(values, 0.0f);
  std::vector<std::uint32_t> places;
  std::vector<float> kept;
  const std::int64_t run = c.shape.block_elements == 0 ? c.shape.num_elements : c.shape.block_elements;
  for (std::int64_t first = 0; first < c.shape.num_elements; first += run) {
    const std::int64_t count = std::min(run, c.shape.num_elements - first);
    std::vector<std::uint32_t> of_run(static_cast<std::size_t>(count));
    std::iota(of_run.begin(), of_run.end(), static_cast<std::uint32_t>(first));
    std::ranges::stable_sort(of_run, std::ranges::greater(), [&](std::uint32_t i) { return std::fabs(values[i]); });
    of_run.resize(static_cast<std::size_t>(top_k_count(count, c.shape.density)));
    std::ranges::sort(of_run);
    for (const std::uint32_t place : of_run) {
      places.push_back(place);
      kept.push_back(values[place]);
    }
  }
  std::vector<std::uint64_t> words(static_cast<std::size_t>((max_sparse_bytes(c.shape) + 7) / 8));
  auto* const payload = reinterpret_cast<std::uint8_t*>(words.data());
  const std::int64_t bytes = write_sparse(c.shape, places, kept, payload);
  return {payload, payload + bytes};
}

TEST(SparseEncoder, WritesTheLargestElementsOfSlicesAndBlocks) {
  testing::for_each_target([&](const std::string& target) {
    for (const std::int64_t block : {0, 256, 4096, 16384}) {
      for (const SparseValues sent : {SparseValues::kFloat32, SparseValues::kBfloat16}) {
        for (const SparseCase& c : testing::sparse_cases(block, sent)) {
          ASSERT_EQ(testing::encoded_on_cpu(c), expected_payload(c)) << c.name << ", block " << block << ", " << target;
        }
      }
    }
  });
}

TEST(SparseEncoder, DoesNotDependOnThreads) {
  for (const std::int64_t block : {0, 1024}) {
    const SparseFormat format = block == 0 ? SparseFormat::kRuns : SparseFormat::kLocal;
    const SparseCase c = testing::sparse_case("many", testing::gaussian(200000, 5), format, 0.01, block);
    for (const int num_threads : {2, 3, 7}) {
      EXPECT_EQ(testing::encoded_on_cpu(c, num_threads), testing::encoded_on_cpu(c)) << block;
    }
  }
}

TEST(SparseEncoder, RefusesWhatItCannotRead) {
  std::vector<std::uint64_t> payload(100);
  const std::vector<float> values(64);
  const SparseEncodeTask good{.values = values.data(),
                              .shape = {.num_elements = 60, .density = 0.1},
                              .payload = reinterpret_cast<std::uint8_t*>(payload.data())};
  Stream stream(Device::cpu(), 1);
  std::vector<std::int64_t> bytes(2);
  const auto run = [&](SparseEncodeTask second) {
    const std::vector<SparseEncodeTask> tasks = {good, second};
    SparseEncoder().run(tasks, bytes, stream);
  };
  EXPECT_NO_THROW(run(good));
  SparseEncodeTask bad = good;
  bad.type = ElementType::kBfloat16;
  EXPECT_THROW(run(bad), InvalidArgument) << "another element type";
  bad = good;
  bad.payload += 4;
  EXPECT_THROW(run(bad), InvalidArgument) << "a misaligned payload";
  bad = good;
  bad.values = reinterpret_cast<const std::byte*>(values.data()) + 2;
  EXPECT_THROW(run(bad), InvalidArgument) << "misaligned values";
  bad = good;
  bad.shape.num_elements = 0;
  EXPECT_THROW(run(bad), InvalidArgument) << "no elements";
  bytes.resize(1);
  EXPECT_THROW(run(good), InvalidArgument) << "lengths of fewer payloads";
}

}  // namespace
}  // namespace terngrad::sparse_encoder_test
