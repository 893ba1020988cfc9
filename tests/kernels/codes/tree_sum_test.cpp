#include "kernels/codes/tree_sum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "kernels/codes/ternarize.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/slice.h"
#include "support/bits.h"
#include "support/gradients.h"
#include "support/reference.h"
#include "support/simd_targets.h"
#include "support/tree_leaves.h"

namespace terngrad::tree_sum_test {
namespace {

using testing::bits_of;
using testing::kLeafFormats;
using testing::TreeLeaves;

std::vector<float> run(MeanTask task, const TreeLeaves& leaves, int threads = 1) {
  const std::vector<MeanLeaf> workers = leaves.host_workers();
  std::vector<float> out(static_cast<std::size_t>(task.count), -99.0f);
  task.workers = workers;
  task.out = out.data();
  Stream stream(Device::cpu(), threads);
  TreeSummer().run({&task, 1}, stream);
  return out;
}

TEST(TreeSummer, AddsDecodedLeavesInTheOrderOfTheFixedTree) {
  for (const LeafFormat format : kLeafFormats) {
    for (const int num_workers : {1, 2, 3, 7, 8, 9, 17}) {
      for (const std::int64_t count : {0, 1, 63, 4096, 9000}) {
        const TreeLeaves leaves(format, num_workers, count, 4096, 192, 1);
        const float scale = 1.0f / static_cast<float>(num_workers);
        std::vector<std::uint32_t> want;
        std::vector<float> column(static_cast<std::size_t>(num_workers));
        for (std::int64_t i = 0; i < count; ++i) {
          for (std::size_t k = 0; k < column.size(); ++k) column[k] = leaves.element(k, i);
          want.push_back(bits_of(reference::tree_sum(column) * scale));
        }
        const MeanTask task{.format = format, .first = 4096, .count = count, .block_elements = 192, .scale = scale};
        for (const int threads : {1, 3}) {
          ASSERT_EQ(bits_of(run(task, leaves, threads)), want)
              << to_string(format) << ", " << num_workers << " workers, " << count;
        }
      }
    }
  }
}

TEST(TreeSummer, TakesTheScalersOfColumns) {
  for (const std::int64_t columns : {1, 7, 64, 5000}) {
    const TreeLeaves leaves(LeafFormat::kSides, 3, 9000, 4096, 0, 1, 0, columns);
    std::vector<std::uint32_t> want;
    std::vector<float> values(3);
    for (std::int64_t i = 0; i < 9000; ++i) {
      for (std::size_t k = 0; k < 3; ++k) values[k] = leaves.element(k, i);
      want.push_back(bits_of(reference::tree_sum(values)));
    }
    const MeanTask task{.format = LeafFormat::kSides, .first = 4096, .count = 9000, .columns = columns};
    for (const int threads : {1, 3}) ASSERT_EQ(bits_of(run(task, leaves, threads)), want) << columns;
  }
}

TEST(DecodeLeaf, GivesAnyPartOfALeaf) {
  for (const LeafFormat format : kLeafFormats) {
    const TreeLeaves leaves(format, 1, 9000, 4096, 192, 1);
    const MeanTask task{.format = format, .first = 4096, .count = 9000, .block_elements = 192};
    const std::vector<MeanLeaf> workers = leaves.host_workers();
    testing::for_each_target([&](const std::string& target) {
      for (const std::int64_t first : {0, 1, 191, 4095, 8999, 9000}) {
        for (const std::int64_t count : {0, 1, 2, 65, 4097, 8999}) {
          if (first + count > 9000) continue;
          std::vector<float> out(static_cast<std::size_t>(count));
          decode_leaf(task, workers[0], first, out);
          for (std::int64_t i = 0; i < count; ++i) {
            ASSERT_EQ(bits_of(out[static_cast<std::size_t>(i)]), bits_of(leaves.element(0, first + i)))
                << target << ", " << to_string(format) << ", " << i << " from " << first;
          }
        }
      }
    });
  }
}

TEST(TreeSummer, RunsEveryTask) {
  const TreeLeaves a(LeafFormat::kFloat32, 3, 100, 0, 0, 1);
  const TreeLeaves b(LeafFormat::kT5, 2, 5000, 0, 0, 2);
  const MeanTask task_a{.format = LeafFormat::kFloat32, .count = 100};
  const MeanTask task_b{.format = LeafFormat::kT5, .count = 5000, .scale = 0.5f};
  const std::vector<float> want_a = run(task_a, a);
  const std::vector<float> want_b = run(task_b, b);
  const std::vector<MeanLeaf> workers_a = a.host_workers();
  const std::vector<MeanLeaf> workers_b = b.host_workers();
  std::vector<float> out_a(100);
  std::vector<float> out_b(5000);
  MeanTask tasks[] = {task_a, task_b};
  tasks[0].workers = workers_a;
  tasks[0].out = out_a.data();
  tasks[1].workers = workers_b;
  tasks[1].out = out_b.data();
  Stream stream(Device::cpu(), 1);
  TreeSummer summer;
  summer.run(tasks, stream);
  EXPECT_EQ(bits_of(out_a), bits_of(want_a));
  EXPECT_EQ(bits_of(out_b), bits_of(want_b));
}

TEST(LeafFormat, HasNamesAndTernaryCounterparts) {
  EXPECT_EQ(to_string(LeafFormat::kFloat32), "fp32");
  EXPECT_EQ(to_string(LeafFormat::kBfloat16), "bf16");
  for (const CodeFormat format : {CodeFormat::kT2, CodeFormat::kT5, CodeFormat::kTMask, CodeFormat::kTrans,
                                  CodeFormat::kQ4, CodeFormat::kQ8, CodeFormat::kE4M3, CodeFormat::kN8, CodeFormat::kN4,
                                  CodeFormat::kBits, CodeFormat::kE2, CodeFormat::kE3, CodeFormat::kE4}) {
    EXPECT_EQ(to_string(leaf_format(format)), to_string(format));
  }
  EXPECT_THROW(leaf_format(TernaryFormat::kLanes), InvalidArgument);
}

class TreeSummerRefuses : public ::testing::Test {
 protected:
  void expect_refused() {
    Stream stream(Device::cpu(), 1);
    task_.workers = workers_;
    EXPECT_THROW(TreeSummer().run({&task_, 1}, stream), InvalidArgument);
  }
  TreeLeaves leaves_{LeafFormat::kT2, 2, 100, 0, 0, 1};
  std::vector<MeanLeaf> workers_ = leaves_.host_workers();
  std::vector<float> out_ = std::vector<float>(100);
  MeanTask task_{.format = LeafFormat::kT2, .count = 100, .out = out_.data()};
};

TEST_F(TreeSummerRefuses, NoWorkers) {
  workers_.clear();
  expect_refused();
}
TEST_F(TreeSummerRefuses, APayloadThatIsTooShort) {
  workers_[1].payload = workers_[1].payload.first(workers_[1].payload.size() - 4);
  expect_refused();
}
TEST_F(TreeSummerRefuses, FloatsInTheRoomOfCodes) {
  for (const LeafFormat format : {LeafFormat::kFloat32, LeafFormat::kBfloat16}) {
    task_.format = format;
    expect_refused();
  }
}
TEST_F(TreeSummerRefuses, AMisalignedPayload) {
  task_.count = 80;
  workers_[0].payload = workers_[0].payload.subspan(2);
  expect_refused();
}
TEST_F(TreeSummerRefuses, CodesWithoutScalers) {
  workers_[1].scalers = nullptr;
  expect_refused();
}
TEST_F(TreeSummerRefuses, AStartInsideAChunk) {
  task_.first = 64;
  expect_refused();
}
TEST_F(TreeSummerRefuses, ColumnsOfOthersThanSides) {
  task_.columns = 10;
  expect_refused();
}
TEST_F(TreeSummerRefuses, ABlockThatSplitsA64) {
  task_.block_elements = 96;
  expect_refused();
}

}  // namespace
}  // namespace terngrad::tree_sum_test
