#include "trainers/run/memory_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "datasets/dataset.h"
#include "kernels/runtime/errors.h"
#include "tests/support/thread_mailbox.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/options/train_options.h"
#include "trainers/run/dataset_factory.h"
#include "trainers/run/memory_estimate.h"

namespace terngrad::memory_check_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

TrainOptions options_with(std::int64_t num_nodes) {
  TrainOptions o;
  o.benchmark_mode = true;
  o.image_size = 28;
  o.batch_size = num_nodes;
  o.num_nodes = static_cast<int>(num_nodes);
  return o;
}

TEST(CheckMemory, RefusesWhatNoMachineHas) {
  const TrainOptions small = options_with(4);
  const auto dataset = open_dataset(small, Subset::kTrain);
  EXPECT_NO_THROW(check_memory(small, *dataset, 4, /*is_cpu=*/true));
  // 5 MB per worker for LeNet's gradient: 5 PB.
  const TrainOptions huge = options_with(1'000'000'000);
  EXPECT_THAT(message_of<UsageError>([&] { check_memory(huge, *dataset, 1'000'000'000, /*is_cpu=*/true); }),
              AllOf(HasSubstr("memory"), HasSubstr("--num_nodes")));
}

TEST(CheckAsyncMemory, IsOfTheRanksThatHaveWorkers) {
  const TrainOptions huge = options_with(1'000'000'000);
  const auto dataset = open_dataset(huge, Subset::kTrain);
  const auto office = std::make_shared<testing::PostOffice>(2);
  const testing::ThreadMailbox server(office, 0);
  const testing::ThreadMailbox workers(office, 1);
  EXPECT_NO_THROW(check_async_memory(huge, *dataset, &server, /*is_cpu=*/true));
  EXPECT_THROW(check_async_memory(huge, *dataset, &workers, /*is_cpu=*/true), UsageError);
  EXPECT_THROW(check_async_memory(huge, *dataset, nullptr, /*is_cpu=*/true), UsageError);
}

TEST(MemoryUse, HasTheMeansAndMemoriesOfGroups) {
  TrainOptions o = options_with(8);
  o.grad_bits = 1;
  o.codec_memory = "ef";
  EXPECT_EQ(memory_use(o, 8, /*is_cpu=*/true).num_senders, 8);
  EXPECT_EQ(memory_use(o, 8, /*is_cpu=*/true).num_groups, 0);
  o.workers_per_group = 4;
  EXPECT_EQ(memory_use(o, 8, /*is_cpu=*/true).num_senders, 2);
  EXPECT_EQ(memory_use(o, 8, /*is_cpu=*/true).num_groups, 2);
  // Half of a group: only its first process encodes, so a bound from below has no memory.
  EXPECT_EQ(memory_use(o, 2, /*is_cpu=*/true).num_senders, 0);
  EXPECT_EQ(memory_use(o, 2, /*is_cpu=*/true).num_groups, 1);
}

TEST(MemoryUse, IsByOptions) {
  TrainOptions o = options_with(8);
  o.batch_size = 32;
  o.threads = 3;
  o.threads_per_worker = 1;
  const MemoryUse use = memory_use(o, 8, /*is_cpu=*/true);
  EXPECT_EQ(use.num_workers, 8);
  EXPECT_EQ(use.examples_per_worker, 4);
  EXPECT_EQ(use.num_slots, 1);
  EXPECT_EQ(use.slices_at_once, 3);
  EXPECT_FALSE(use.has_replicas);
  EXPECT_EQ(memory_use(o, 8, /*is_cpu=*/false).slices_at_once, 0);
  o.threads_per_worker = 3;
  EXPECT_EQ(memory_use(o, 8, /*is_cpu=*/true).slices_at_once, 1) << "one worker after the other";
  o.optimizer = "adam";
  EXPECT_EQ(memory_use(o, 8, /*is_cpu=*/true).num_slots, 2);
  o.optimizer = "gd";
  EXPECT_EQ(memory_use(o, 8, /*is_cpu=*/true).num_slots, 0);
}

TEST(MemoryUse, OfAsynchronousRanksIsThatOfAServerOrOfWorkers) {
  TrainOptions o = options_with(8);
  o.strategy = TrainStrategy::kAsync;
  const MemoryUse alone = async_memory_use(o, 0, 1, /*is_cpu=*/true);
  EXPECT_TRUE(alone.has_parameters && alone.has_replicas);
  EXPECT_EQ(alone.num_workers, 8);
  const MemoryUse server = async_memory_use(o, 0, 4, /*is_cpu=*/true);
  EXPECT_TRUE(server.has_parameters);
  EXPECT_EQ(server.num_workers, 0);
  const MemoryUse last = async_memory_use(o, 3, 4, /*is_cpu=*/true);
  EXPECT_FALSE(last.has_parameters);
  EXPECT_EQ(last.num_workers, 3);
}

}  // namespace
}  // namespace terngrad::memory_check_test
