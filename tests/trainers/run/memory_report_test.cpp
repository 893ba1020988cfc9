#include "trainers/run/memory_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/support/heap.h"
#include "tests/trainers/train_runs.h"
#include "trainers/launch/process_group.h"
#include "trainers/loop/trainer.h"
#include "trainers/options/train_options.h"
#include "trainers/run/train_factory.h"

namespace terngrad::memory_report_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::CommandOutcome;
using testing::expect_usage_error;
using ::testing::HasSubstr;
using testing::heap_bytes;
using testing::message_of;
using ::testing::Not;
using testing::SmallMnist;
using testing::TemporaryDirectory;
using testing::train;
using testing::operator+;

MemoryPart part(const std::string& name, double bytes) {
  return {.name = name, .bytes = bytes, .what = "", .lower = ""};
}

TEST(MemoryTable, HasALineForEachPartAndAColumnForEqualProcesses) {
  const std::vector<MemoryPart> server = {part("parameters", 2e6), part("messages", 5e6)};
  const std::vector<MemoryPart> worker = {part("parameters", 2e6), part("gradients", 1.5e6), part("messages", 3e6)};
  const std::vector<std::vector<MemoryPart>> of_processes = {server, worker, worker};
  EXPECT_EQ(memory_table(of_processes, {.bytes = 8e9, .subject = "this machine"}),
            "host memory of this run in MB (10^6 bytes)\n"
            "                              process 0    each of 1-2\n"
            "parameters                         2.00           2.00\n"
            "gradients                             -           1.50\n"
            "messages                           5.00           3.00\n"
            "total                              7.00           6.50\n"
            "all 3 processes together 20.00 MB\n"
            "not counted: the program and its libraries, scratch memory of layers and codecs, checkpoints being read\n"
            "this machine has 8000.00 MB\n");
}

TEST(MemoryTable, KeepsTheOrderOfPartsThatNotAllProcessesHave) {
  const std::vector<std::vector<MemoryPart>> of_processes = {
      {part("parameters", 1), part("messages", 1)},
      {part("gradients", 1), part("batches", 1), part("messages", 1), part("data", 1)}};
  const std::string table = memory_table(of_processes, {.bytes = 1, .subject = "this machine"});
  std::vector<std::size_t> places;
  for (const char* name : {"\nparameters", "\ngradients", "\nbatches", "\nmessages", "\ndata", "\ntotal"}) {
    places.push_back(table.find(name));
    EXPECT_NE(places.back(), std::string::npos) << name;
  }
  EXPECT_TRUE(std::ranges::is_sorted(places)) << table;
}

TEST(MemoryTable, SaysNothingOfALimitThatNobodyKnows) {
  const std::vector<std::vector<MemoryPart>> of_processes = {{part("parameters", 2e6)}};
  const std::string table =
      memory_table(of_processes, {.bytes = std::numeric_limits<double>::infinity(), .subject = "this machine"});
  EXPECT_THAT(table, AllOf(HasSubstr("total                              2.00\n"), Not(HasSubstr("this machine")),
                           Not(HasSubstr("together"))));
}

/// A run without data, of many parameters and examples beside what is not counted.
TrainOptions large_options() {
  TrainOptions o;
  o.benchmark_mode = true;
  o.device = "cpu";
  o.image_size = 28;
  o.num_nodes = 4;
  o.batch_size = 256;
  o.max_steps = 3;
  o.threads = 2;
  o.threads_per_worker = 1;
  return o;
}

/// What a run has allocated after two steps.
std::int64_t allocated(const TrainOptions& o) {
  const std::int64_t before = *heap_bytes();
  std::int64_t after = 0;
  TrainSetup setup = make_train_setup(o);
  setup.trainer->add_hook(at_step(2, [&](const TrainingView&, const StepView&) {
    after = *heap_bytes();
    return HookVerdict::kContinue;
  }));
  setup.trainer->run();
  return after - before;
}

TEST(MemoryReport, IsWhatARunAllocates) {
  if (!heap_bytes()) GTEST_SKIP() << "the heap's size is not known here";
  const ProcessGroup alone;
  struct Case {
    const char* name;
    void (*change)(TrainOptions&);
  };
  const Case cases[] = {
      {"fp32", [](TrainOptions&) {}},
      {"one worker",
       [](TrainOptions& o) {
         o.num_nodes = 1;
         o.optimizer = "adam";
       }},
      {"ternary", [](TrainOptions& o) { o.grad_bits = 1; }},
      {"gather",
       [](TrainOptions& o) {
         o.grad_bits = 16;
         o.exchange = TrainExchange::kAllGather;
       }},
      {"servers that update",
       [](TrainOptions& o) {
         o.strategy = TrainStrategy::kParameterServers;
         o.pull = Pull::kParameters;
       }},
      {"asynchronous",
       [](TrainOptions& o) {
         o.strategy = TrainStrategy::kAsync;
         o.scaler_sharing = "none";
         o.grad_bits = 1;
       }},
  };
  for (const Case& each : cases) {
    TrainOptions o = large_options();
    each.change(o);
    const double expected = total_bytes(memory_of_process(o, alone));
    const auto found = static_cast<double>(allocated(o));
    EXPECT_GT(found, 0.9 * expected) << each.name << ": " << found << " of " << expected;
    // oneDNN's scratch memory and copies of weights are not counted, which depend on the processor; nor is what storage
    // for parcels keeps free, a quarter of it all with fp32.
    EXPECT_LT(found, 1.4 * expected) << each.name << ": " << found << " of " << expected;
  }
}

TEST(MemoryReport, GrowsWithWhatTakesMemory) {
  const ProcessGroup alone;
  const double base = total_bytes(memory_of_process(large_options(), alone));
  const auto grows = [&](void (*change)(TrainOptions&)) {
    TrainOptions o = large_options();
    change(o);
    return total_bytes(memory_of_process(o, alone)) > base;
  };
  EXPECT_TRUE(grows([](TrainOptions& o) { o.num_nodes = 8; }));
  EXPECT_TRUE(grows([](TrainOptions& o) { o.batch_size = 512; }));
  EXPECT_TRUE(grows([](TrainOptions& o) { o.threads = 4; }));
  EXPECT_TRUE(grows([](TrainOptions& o) { o.optimizer = "adam"; }));
  EXPECT_TRUE(grows([](TrainOptions& o) { o.strategy = TrainStrategy::kAsync; }));
  EXPECT_TRUE(grows([](TrainOptions& o) { o.floating_grad_epoch = 2; }));
  EXPECT_FALSE(grows([](TrainOptions& o) { o.grad_bits = 1; }));
  EXPECT_TRUE(grows([](TrainOptions& o) { o.codec = "terngrad_ef"; }));
}

TEST(MemoryReport, OptionsThatARunIsRefusedForAre) {
  const ProcessGroup alone;
  TrainOptions o = large_options();
  o.grad_bits = 1;
  o.codec_for = {"conv9*=ternary"};
  EXPECT_THAT(message_of<UsageError>([&] { memory_of_process(o, alone); }), HasSubstr("conv9*"));
  o = large_options();
  o.benchmark_mode = false;
  o.dataset = "mnist";
  o.data_dir = "/nowhere";
  EXPECT_THAT(message_of<UsageError>([&] { memory_of_process(o, alone); }), HasSubstr("--data_dir /nowhere"));
}

TEST(TrainCommand, MemoryIsPrintedAndNothingElseDone) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const std::vector<std::string> options =
      mnist.options(folder / "run") + std::vector<std::string>{"--memory", "--device", "cpu", "--num_nodes", "2"};
  const CommandOutcome outcome = train(options);
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("process 0\n"), HasSubstr("\ngradients of workers "), HasSubstr("\nmessages "),
                    HasSubstr("\ndata sets "), HasSubstr("\nevaluation "), HasSubstr("\ntotal ")));
  EXPECT_FALSE(fs::exists(folder / "run"));
  // Nor does a folder that holds something matter.
  folder.write("notes.txt", "mine");
  EXPECT_EQ(train(options + std::vector<std::string>{"--train_dir", folder.path().string()}).out, outcome.out);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  expect_usage_error(train({"--memory", "--memory=true", "--max_steps", "-1"}), {"--max_steps"});
}

}  // namespace
}  // namespace terngrad::memory_report_test
