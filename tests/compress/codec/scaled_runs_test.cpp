#include "compress/codec/scaled_runs.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad::scaled_runs_test {
namespace {

TEST(ScaledRuns, AreWholeTensorsOrTheirBlocks) {
  Layout layout;
  layout.add("a", {1000});
  layout.add("empty", {0});
  layout.add("b", {128});
  EXPECT_EQ(statistics_slices(layout, {0, 1, 2}, 0), (std::vector<Slice>{{0, 0, 1000}, {2, 0, 128}}));
  EXPECT_EQ(statistics_slices(layout, {2, 0}, 512), (std::vector<Slice>{{2, 0, 128}, {0, 0, 512}, {0, 512, 488}}));
}

TEST(ScaledRuns, ASliceTouchesTheScalersOfItsBlocks) {
  EXPECT_EQ(num_block_scalers(1000, 0), 1);
  EXPECT_EQ(num_block_scalers(0, 0), 0);
  EXPECT_EQ(num_block_scalers(1000, 512), 2);
  const auto range = [](const Slice& slice, std::int64_t block) {
    const Codec::ScalerRange found = block_scaler_range(slice, block);
    return std::pair(found.first, found.count);
  };
  EXPECT_EQ(range({0, 8192, 100}, 0), std::pair(std::int64_t{0}, std::int64_t{1}));
  EXPECT_EQ(range({0, 4096, 4096}, 3072), std::pair(std::int64_t{1}, std::int64_t{2}));
  EXPECT_EQ(range({0, 4096, 0}, 64).second, 0);
}

TEST(ScaledRuns, RefuseBlocksThatKernelsDoNotTake) {
  EXPECT_NO_THROW(require_block_elements(0, "x"));
  EXPECT_NO_THROW(require_block_elements(64, "x"));
  for (const std::int64_t block : {-64L, 63L, 65L, 2 * kMaxBlockElements}) {
    EXPECT_THROW(require_block_elements(block, "x"), InvalidArgument) << block;
  }
}

}  // namespace
}  // namespace terngrad::scaled_runs_test
