#include "datasets/batch_order.h"

#include <gtest/gtest.h>

#include <vector>

#include "datasets/sets/constant_images.h"
#include "datasets/shuffle.h"
#include "kernels/runtime/errors.h"

namespace terngrad::batch_order_test {
namespace {

ConstantImages set_of(std::int64_t num_examples) {
  return {"set", {.height = 1, .width = 1, .channels = 1, .num_classes = 2, .num_examples = num_examples}, 1};
}

/// Position p of the joint stream has example permutation(p / 30)[p mod 30], for all ranges of workers.
TEST(BatchOrder, FollowsThePermutationsOfTheEpochs) {
  const ConstantImages set = set_of(30);
  for (const std::int64_t per_worker : {1, 3, 20}) {
    for (const int first : {0, 1, 2}) {
      for (int local = 1; local <= 4 - first; ++local) {
        const PipelineOptions options{.batch_size = 4 * per_worker,
                                      .num_workers = 4,
                                      .first_local_worker = first,
                                      .num_local_workers = local,
                                      .seed = 11};
        BatchOrder order(&set, options);
        ASSERT_EQ(order.local_batch(), local * per_worker);
        std::vector<std::uint32_t> permutation;
        for (std::uint64_t step = 0; step < 9; ++step) {
          const std::uint64_t begin = step * static_cast<std::uint64_t>(4 * per_worker);
          EXPECT_EQ(order.epoch(step), begin / 30);
          for (std::int64_t i = 0; i < order.local_batch(); ++i) {
            const std::uint64_t p = begin + static_cast<std::uint64_t>(first * per_worker + i);
            epoch_permutation(11, p / 30, 30, permutation);
            const OrderedExample example = order.at(step, i);
            ASSERT_EQ(example.index, permutation[p % 30]) << "step " << step << ", place " << i;
            ASSERT_EQ(example.epoch, p / 30);
          }
        }
      }
    }
  }
}

TEST(BatchOrder, StepsMayBeAskedForInAnyOrder) {
  const ConstantImages set = set_of(7);
  BatchOrder forward(&set, {.batch_size = 5});
  std::vector<std::uint32_t> indices;
  for (std::uint64_t step = 0; step < 6; ++step) indices.push_back(forward.at(step, 4).index);
  BatchOrder backward = forward;
  for (std::uint64_t step = 6; step-- > 0;) EXPECT_EQ(backward.at(step, 4).index, indices[step]);
}

TEST(BatchOrder, TakesTheCallersExamples) {
  const ConstantImages set = set_of(7);
  PipelineOptions options{.batch_size = 6, .num_workers = 3, .first_local_worker = 1, .num_local_workers = 2};
  options.shuffle.example_at = [](std::uint64_t step, std::int64_t place) {
    return static_cast<std::int64_t>(step) + place;
  };
  BatchOrder order(&set, options);
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(order.at(1, i).index, i + 3);
  EXPECT_EQ(order.at(2, 0).epoch, 2u);  // position 14 of examples of 7
  EXPECT_EQ(order.at(2, 2).index, 6u);
  EXPECT_THROW(order.at(2, 3), InvalidArgument);
}

TEST(BatchOrder, RefusesWhatPipelineRefuses) {
  const ConstantImages set = set_of(7);
  EXPECT_THROW(BatchOrder(nullptr, {.batch_size = 5}), InvalidArgument);
  EXPECT_THROW(BatchOrder(&set, {.batch_size = 0}), InvalidArgument);
  EXPECT_THROW(BatchOrder(&set, {.batch_size = 5, .num_workers = 2}), InvalidArgument);
  EXPECT_THROW(BatchOrder(&set, {.batch_size = 4, .num_workers = 2, .first_local_worker = 2}), InvalidArgument);
  BatchOrder order(&set, {.batch_size = 7});
  EXPECT_THROW(order.at(std::uint64_t{1} << 40, 0), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::batch_order_test
