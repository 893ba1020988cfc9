#include "kernels/codes/code_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "kernels/codes/levels.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/slice.h"
#include "kernels/tensor/worker_tree.h"
#include "support/bits.h"
#include "support/gradients.h"
#include "support/reference.h"
#include "support/sanitized.h"
#include "support/simd_targets.h"

namespace terngrad::code_sum_test {
namespace {

using reference::Bytes;
using testing::bits_of;

constexpr CodeFormat kFormats[] = {CodeFormat::kT2,    CodeFormat::kT5, CodeFormat::kTMask,
                                   CodeFormat::kTrans, CodeFormat::kQ4, CodeFormat::kQ8};

struct Workers {
  Workers(int num_workers, std::size_t n, CodeFormat format, bool all_plus = false) : sums(n, 0) {
    const int levels = format == CodeFormat::kLanes ? 1 : levels_of(format);
    for (int worker = 0; worker < num_workers; ++worker) {
      std::mt19937_64 random(static_cast<std::uint64_t>(worker) + n);
      std::vector<std::int8_t> codes(n);
      for (std::size_t i = 0; i < n; ++i) {
        codes[i] = static_cast<std::int8_t>(
            all_plus ? levels : static_cast<int>(random() % static_cast<unsigned>(2 * levels + 1)) - levels);
        sums[i] += codes[i];
      }
      const Bytes packed = reference::pack(codes, static_cast<int>(format), num_workers);
      storage.emplace_back((packed.size() + 7) / 8);
      if (!packed.empty()) std::memcpy(storage.back().data(), packed.data(), packed.size());
      bytes.push_back(static_cast<std::int64_t>(packed.size()));
    }
    for (const auto& words : storage) payloads.push_back(reinterpret_cast<const std::uint8_t*>(words.data()));
  }
  std::vector<std::vector<std::uint64_t>> storage;
  std::vector<const std::uint8_t*> payloads;
  std::vector<std::int64_t> bytes;
  std::vector<int> sums;
};

CodeSumTask task_of(TernaryFormat format, const float* scales, std::int64_t first = 0,
                    std::int64_t block_elements = 0) {
  CodeSumTask task;
  task.format = format;
  task.scales = scales;
  task.first = first;
  task.block_elements = block_elements;
  return task;
}

std::vector<float> run(const Workers& workers, CodeSumTask task, std::size_t n, int threads = 1) {
  std::vector<float> out(n, -99.0f);
  task.payloads = workers.payloads;
  task.payload_bytes = workers.bytes;
  task.num_workers = static_cast<int>(workers.payloads.size());
  task.count = static_cast<std::int64_t>(n);
  task.out = out.data();
  Stream stream(Device::cpu(), threads);
  aggregate_code_sums({&task, 1}, stream);
  return out;
}

std::vector<float> expected(const Workers& workers, float scale) {
  std::vector<float> out;
  for (const int sum : workers.sums) out.push_back(static_cast<float>(sum) * scale);
  return out;
}

TEST(AggregateCodeSums, IsTheScaledSumAtEveryLength) {
  const float scale = 0.1f;
  testing::for_each_target([&](const std::string& target) {
    for (const TernaryFormat format : kFormats) {
      for (std::int64_t n = 0; n <= 1100; n += testing::kLengthStep) {
        const Workers workers(3, static_cast<std::size_t>(n), format);
        const auto out = run(workers, task_of(format, &scale), static_cast<std::size_t>(n));
        ASSERT_EQ(bits_of(out), bits_of(expected(workers, scale)))
            << target << ", " << to_string(format) << " of " << n;
      }
    }
  });
}

TEST(AggregateCodeSums, DoesNotDependOnThreadsAroundChunks) {
  const float scale = 0.3f;
  for (const TernaryFormat format : kFormats) {
    for (const std::size_t n : {4095u, 4096u, 4097u, 8191u, 12289u, 64u * 4096 + 1234}) {
      const Workers workers(4, n, format);
      const auto want = bits_of(expected(workers, scale));
      testing::for_each_target([&](const std::string& target) {
        for (const int threads : {1, 2, 3, 4}) {
          ASSERT_EQ(bits_of(run(workers, task_of(format, &scale), n, threads)), want) << target << n;
        }
      });
    }
  }
}

TEST(AggregateCodeSums, CountsManyWorkers) {
  // Capacities: 127 for a signed byte, 257 bytes for 16 bits; larger numbers of workers use another code path.
  const float scale = 1;
  for (const int n : {1, 2, 126, 127, 128, 129, 257, 258, 300}) {
    for (const TernaryFormat format : kFormats) {
      for (const bool all_plus : {false, true}) {
        const Workers workers(n, 700, format, all_plus);
        testing::for_each_target([&](const std::string& target) {
          ASSERT_EQ(run(workers, task_of(format, &scale), 700), expected(workers, 1))
              << target << ", " << to_string(format) << ", " << n;
        });
      }
    }
  }
}

TEST(AggregateCodeSums, TakesAScalePerBlock) {
  for (const TernaryFormat format : kFormats) {
    for (const std::int64_t block : {64, 192, 4096, 4160, 10048}) {
      for (const std::int64_t first : {0, 4096, 12288}) {
        for (const std::size_t n : {1u, 64u, 65u, 9000u}) {
          const Workers workers(3, n, format);
          std::vector<float> scales;
          for (std::int64_t b = first / block; b <= (first + static_cast<std::int64_t>(n) - 1) / block; ++b) {
            scales.push_back(0.1f * static_cast<float>(b + 1));
          }
          const auto out = run(workers, task_of(format, scales.data(), first, block), n);
          for (std::size_t i = 0; i < n; ++i) {
            const auto b = static_cast<std::size_t>((first + static_cast<std::int64_t>(i)) / block - first / block);
            ASSERT_EQ(bits_of(out[i]), bits_of(static_cast<float>(workers.sums[i]) * scales[b])) << block << " " << i;
          }
        }
      }
    }
  }
}

TEST(AggregateCodeSums, WritesToAnyAlignment) {
  const float scale = 0.1f;
  const Workers workers(3, 5000, TernaryFormat::kT2);
  testing::for_each_target([&](const std::string& target) {
    for (std::size_t start = 0; start < 16; ++start) {
      std::vector<float> out(start + 5000 + 16, 7.0f);
      CodeSumTask task{.payloads = workers.payloads,
                       .payload_bytes = workers.bytes,
                       .num_workers = 3,
                       .count = 5000,
                       .scales = &scale,
                       .out = out.data() + start};
      Stream stream(Device::cpu(), 1);
      aggregate_code_sums({&task, 1}, stream);
      ASSERT_EQ(bits_of(std::span<const float>(out).subspan(start, 5000)), bits_of(expected(workers, scale))) << target;
      for (std::size_t i = 0; i < out.size(); ++i) {
        if (i < start || i >= start + 5000) {
          ASSERT_EQ(out[i], 7.0f);
        }
      }
    }
  });
}

TEST(AggregateCodeSums, ReadsLanesOfSumsAndOfSingleWorkers) {
  constexpr std::size_t n = 5000;
  for (const int num_workers : {1, 3, 8}) {
    const Workers each(num_workers, n, TernaryFormat::kLanes);
    const float scale = 0.25f;
    EXPECT_EQ(run(each, task_of(TernaryFormat::kLanes, &scale), n), expected(each, scale));
    const Bytes total = reference::pack_lanes(each.sums, num_workers, num_workers);
    std::vector<std::uint64_t> words(total.size() / 8);
    std::memcpy(words.data(), total.data(), total.size());
    const auto* payload = reinterpret_cast<const std::uint8_t*>(words.data());
    const auto bytes = static_cast<std::int64_t>(total.size());
    std::vector<float> out(n);
    const CodeSumTask task{.format = TernaryFormat::kLanes,
                           .payloads = {&payload, 1},
                           .payload_bytes = {&bytes, 1},
                           .num_workers = num_workers,
                           .count = n,
                           .scales = &scale,
                           .out = out.data()};
    Stream stream(Device::cpu(), 2);
    aggregate_code_sums({&task, 1}, stream);
    EXPECT_EQ(out, expected(each, scale)) << num_workers;
  }
}

TEST(AggregateCodeSums, ReadsLanesOfLevels) {
  constexpr std::size_t n = 5000;
  for (const int levels : {7, 127}) {
    for (const int num_workers : {1, 3, 1000}) {  // up to 18 bits per lane
      const int m = 2 * levels;
      std::mt19937_64 random(static_cast<std::uint64_t>(num_workers));
      std::vector<int> sums(n);
      const int most = levels * (num_workers - 1);
      for (int& sum : sums) sum = static_cast<int>(random() % static_cast<unsigned>(2 * most + 1)) - most;
      sums[0] = most;
      sums[1] = -most;
      // Two messages of summed lanes: all workers but the last, and the last one, whose codes are 0.
      const Bytes last = reference::pack_lanes(std::vector<int>(n, 0), levels, num_workers, m);
      const Bytes others = reference::pack_lanes(sums, most, num_workers, m);
      std::vector<std::uint64_t> words(2 * last.size() / 8);
      std::memcpy(words.data(), last.data(), last.size());
      std::memcpy(words.data() + last.size() / 8, others.data(), others.size());
      const std::uint8_t* payloads[] = {reinterpret_cast<const std::uint8_t*>(words.data()),
                                        reinterpret_cast<const std::uint8_t*>(words.data() + last.size() / 8)};
      const auto bytes = static_cast<std::int64_t>(last.size());
      const std::int64_t lengths[] = {bytes, bytes};
      const float scale = 0.3f;
      std::vector<float> out(n);
      const CodeSumTask task{.format = CodeFormat::kLanes,
                             .payloads = payloads,
                             .payload_bytes = lengths,
                             .num_workers = num_workers,
                             .count = n,
                             .scales = &scale,
                             .out = out.data(),
                             .lane_levels = m};
      testing::for_each_target([&](const std::string& target) {
        Stream stream(Device::cpu(), 2);
        aggregate_code_sums({&task, 1}, stream);
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_EQ(bits_of(out[i]), bits_of(static_cast<float>(sums[i]) * scale)) << target << i;
        }
      });
    }
  }
}

class AggregateRefuses : public ::testing::Test {
 protected:
  void expect_refused() {
    Stream stream(Device::cpu(), 1);
    EXPECT_THROW(aggregate_code_sums({&task_, 1}, stream), InvalidArgument);
  }
  Workers workers_{2, 100, TernaryFormat::kT2};
  float scale_ = 1;
  std::vector<float> out_ = std::vector<float>(100);
  CodeSumTask task_{.payloads = workers_.payloads,
                    .payload_bytes = workers_.bytes,
                    .num_workers = 2,
                    .count = 100,
                    .scales = &scale_,
                    .out = out_.data()};
};

TEST_F(AggregateRefuses, PayloadsOfAnotherLength) {
  workers_.bytes[1] -= 4;
  expect_refused();
  workers_.bytes[1] += 8;
  expect_refused();
}
TEST_F(AggregateRefuses, FewerLengthsThanPayloads) {
  task_.payload_bytes = task_.payload_bytes.first(1);
  expect_refused();
}
TEST_F(AggregateRefuses, AStartInsideAChunk) {
  task_.first = 64;
  expect_refused();
}
TEST_F(AggregateRefuses, ABlockThatSplitsA64) {
  task_.block_elements = 96;
  expect_refused();
}
TEST_F(AggregateRefuses, MoreWorkersThanSixteenBitsHold) {
  const std::vector<const std::uint8_t*> payloads(16384, workers_.payloads[0]);
  const std::vector<std::int64_t> bytes(16384, workers_.bytes[0]);
  task_.payloads = payloads;
  task_.payload_bytes = bytes;
  expect_refused();
}

TEST_F(AggregateRefuses, LanesWhoseSumsFloatsDoNotHold) {
  task_.format = CodeFormat::kLanes;
  task_.num_workers = 16383;
  task_.lane_levels = 2 * 1025;
  expect_refused();
}

/// Sums of subtrees from `aggregate_tree`, used as leaves.
TEST(AggregateTree, SumsOverSubtreesGiveTheSameBits) {
  constexpr std::size_t kCount = 5000;
  Stream stream(Device::cpu(), 2);
  for (int num_workers = 1; num_workers <= 11; ++num_workers) {
    std::vector<std::vector<float>> workers;
    for (int k = 0; k < num_workers; ++k) {
      workers.push_back(testing::gaussian(kCount, static_cast<std::uint64_t>(k), std::exp2(k % 5)));
    }
    const auto sum = [&](std::span<const int> sizes, const std::vector<std::vector<float>>& leaves, float scale) {
      const DecodeLeaf leaf = [&](int i, std::int64_t first, std::span<float> out) {
        std::copy_n(leaves[static_cast<std::size_t>(i)].begin() + first, out.size(), out.begin());
      };
      std::vector<float> out(kCount);
      aggregate_tree(sizes, kCount, leaf, scale, out.data(), stream);
      return out;
    };
    const float scale = 1.0f / static_cast<float>(num_workers);
    const std::vector<float> expected = sum(std::vector<int>(workers.size(), 1), workers, scale);
    for (int middle = 0; middle <= num_workers; ++middle) {
      std::vector<int> sizes = subtrees_within(num_workers, 0, middle);
      const std::vector<int> others = subtrees_within(num_workers, middle, num_workers - middle);
      sizes.insert(sizes.end(), others.begin(), others.end());
      std::vector<std::vector<float>> sums;
      auto next = workers.begin();
      for (const int size : sizes) {
        sums.push_back(sum(std::vector<int>(static_cast<std::size_t>(size), 1), {next, next + size}, 1.0f));
        next += size;
      }
      ASSERT_EQ(sum(sizes, sums, scale), expected) << middle << " of " << num_workers;
    }
  }
}

TEST(AggregateTree, RefusesLeavesThatAreNoSubtrees) {
  Stream stream(Device::cpu(), 1);
  std::vector<float> out(1);
  const DecodeLeaf leaf = [](int, std::int64_t, std::span<float> values) { std::ranges::fill(values, 0.0f); };
  const std::vector<int> sizes = {1, 2};
  EXPECT_THROW(aggregate_tree(sizes, 1, leaf, 1.0f, out.data(), stream), InvalidArgument);
}

TEST(AggregateTree, AddsInTheOrderOfTheFixedTree) {
  for (int num_workers = 1; num_workers <= 17; num_workers += testing::kIsThreadSanitized ? 4 : 1) {
    for (const std::size_t n : {0u, 1u, 5u, 4096u, 4097u, 20000u}) {
      std::vector<std::vector<float>> leaves;
      for (int k = 0; k < num_workers; ++k) {
        leaves.push_back(testing::gaussian(n, static_cast<std::uint64_t>(k), std::exp2(k % 5)));
      }
      const float scale = 1.0f / static_cast<float>(num_workers);
      std::vector<std::uint32_t> want;
      std::vector<float> column(static_cast<std::size_t>(num_workers));
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t k = 0; k < column.size(); ++k) column[k] = leaves[k][i];
        want.push_back(bits_of(reference::tree_sum(column) * scale));
      }
      const DecodeLeaf leaf = [&](int worker, std::int64_t first, std::span<float> out) {
        std::copy_n(leaves[static_cast<std::size_t>(worker)].begin() + first, out.size(), out.begin());
      };
      testing::for_each_target([&](const std::string& target) {
        for (const int threads : {1, 2, 4}) {
          Stream stream(Device::cpu(), threads);
          std::vector<float> out(n);
          aggregate_tree(num_workers, static_cast<std::int64_t>(n), leaf, scale, out.data(), stream);
          ASSERT_EQ(bits_of(out), want) << target << ", " << num_workers << " workers, " << n;
        }
      });
    }
  }
}

TEST(AggregateTree, RefusesNoWorkers) {
  Stream stream(Device::cpu(), 1);
  float out;
  EXPECT_THROW(aggregate_tree(
                   0, 1, [](int, std::int64_t, std::span<float>) {}, 1, &out, stream),
               InvalidArgument);
}

TEST(CodeSums, StreamingStoresWriteTheSameAtEveryAlignment) {
  std::vector<std::uint32_t> words(kChunkElements / 16);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint32_t>(i * 2654435761u) & 0x55555555u;
  const std::vector<const std::uint32_t*> payloads = {words.data(), words.data(), words.data()};
  testing::for_each_target([&](const std::string& target) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{17}, std::size_t{4095}, std::size_t{4096}}) {
      for (std::size_t start = 0; start < 16; ++start) {
        Buffer<float> cached(static_cast<std::int64_t>(count));
        Buffer<float> streamed(static_cast<std::int64_t>(count + 32));
        std::fill_n(streamed.data(), count + 32, -1.0f);
        const auto n = static_cast<std::int64_t>(count);
        cpu::sum_t2_tile(payloads, n, 0.1f, cached.data(), cpu::Stores::kCached);
        cpu::sum_t2_tile(payloads, n, 0.1f, streamed.data() + start, cpu::Stores::kStreaming);
        EXPECT_TRUE(std::equal(cached.data(), cached.data() + n, streamed.data() + start)) << target << " at " << start;
        EXPECT_EQ(streamed.data()[start + count], -1.0f) << target << ": wrote past the end";
        if (start > 0) {
          EXPECT_EQ(streamed.data()[start - 1], -1.0f) << target << ": wrote before the start";
        }
      }
    }
  });
}

}  // namespace
}  // namespace terngrad::code_sum_test
