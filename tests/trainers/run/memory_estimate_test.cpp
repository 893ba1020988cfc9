#include "trainers/run/memory_estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/small_training.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::memory_estimate_test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;
using ::testing::StartsWith;

NetPlan lenet(int num_classes = 10) { return plan_net(net_spec("lenet"), {28, 28, 1}, num_classes); }

std::string refusal(const NetPlan& plan, const MemoryUse& use, double limit) {
  return message_of<UsageError>(
      [&] { require_memory(estimate_memory(plan, use), {.bytes = limit, .subject = "this machine"}); });
}

TEST(MemoryEstimate, SumsWhatAllRunsAllocate) {
  const NetPlan plan = lenet();
  const auto parameters = 4.0 * static_cast<double>(plan.layout.flat_elements());
  double outputs = 0;
  for (const LayerPlan& layer : plan.layers) outputs += static_cast<double>(layer.output.num_elements());
  const std::vector<MemoryPart> parts = estimate_memory(plan, {.num_workers = 6,
                                                               .examples_per_worker = 5,
                                                               .buffers_per_worker = 2,
                                                               .shared_buffers = 4,
                                                               .slices_at_once = 3,
                                                               .batches_at_once = 7});
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[0].bytes, 4 * parameters);
  EXPECT_EQ(parts[1].bytes, 6 * 2 * parameters);
  EXPECT_EQ(parts[2].bytes, 3 * 5 * outputs * 4);
  EXPECT_EQ(parts[3].bytes, 7 * 6 * 5 * 28 * 28 * 4);
}

TEST(RequireMemory, RunsThatFitPass) {
  const std::vector<MemoryPart> parts = {{.bytes = 600, .what = "one", .lower = "--a"},
                                         {.bytes = 400, .what = "other", .lower = "--b"}};
  EXPECT_NO_THROW(require_memory(parts, {.bytes = 1000, .subject = "this machine"}));
  EXPECT_THROW(require_memory(parts, {.bytes = 999, .subject = "this machine"}), UsageError);
}

TEST(RequireMemory, ManyWorkersAreNamedWithTheirOption) {
  EXPECT_THAT(
      refusal(lenet(), {.num_workers = 16383, .examples_per_worker = 1, .shared_buffers = 4, .data = "mnist"}, 25e9),
      AllOf(StartsWith("this run needs at least 82."), HasSubstr("GB of memory, and this machine has 25.00 GB: "),
            HasSubstr("GB for the gradients of 16383 workers"), EndsWith("; lower --num_nodes"),
            Not(HasSubstr("mean gradient"))));
}

TEST(RequireMemory, LargeBatchesAreNamedWithTheirOption) {
  EXPECT_THAT(
      refusal(lenet(), {.num_workers = 1, .examples_per_worker = 1'000'000, .slices_at_once = 1, .batches_at_once = 3},
              25e9),
      AllOf(HasSubstr("for the activations of 1000000 examples, "), HasSubstr("3 batches of 1000000 examples"),
            EndsWith("; lower --batch_size")));
}

TEST(RequireMemory, ManyClassesAreNamedWithTheirData) {
  EXPECT_THAT(refusal(lenet(1'000'001), {.num_workers = 1, .shared_buffers = 4, .data = "npy in 'tiny'"}, 1e9),
              AllOf(HasSubstr("images of 28 x 28 x 1 in 1000001 classes of data set npy in 'tiny'"),
                    EndsWith("; lower --image_size or the number of classes")));
}

}  // namespace
}  // namespace terngrad::memory_estimate_test
