#include "trainers/hooks/gradient_dump_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/support/bits.h"
#include "tests/support/thread_communicator.h"
#include "tests/trainers/fake_run.h"
#include "tests/trainers/small_training.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/io/atomic_file.h"
#include "trainers/io/safetensors.h"

namespace terngrad::gradient_dump_hook_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::make_small_trainer;
using testing::run_ranks;
using testing::shown_by;
using testing::SmallRun;
using testing::state_bits;
using testing::TemporaryDirectory;

SmallRun four_workers() { return {.num_workers = 4, .total_steps = 5, .batch_size = 8}; }

std::vector<std::string> names_in(const fs::path& folder) { return Folder(folder).names(); }

/// Bits by "<steps done>/worker-000w/<tensor>", for the workers of this process.
using Gradients = std::map<std::string, std::vector<std::uint32_t>>;

class Recorder final : public Hook {
 public:
  explicit Recorder(Gradients& gradients) : gradients_(gradients) {}
  HookVerdict after_step(const TrainingView& training, const StepView& step) override {
    for (int worker = 0; worker < training.num_local_workers; ++worker) {
      for (int index = 0; index < training.net.layout().num_segments(); ++index) {
        const std::string tensor = training.net.layout().segment(index).name;
        gradients_[std::to_string(training.steps_done) + "/worker-000" + std::to_string(worker) + "/" + tensor] =
            testing::bits_of(step.worker_gradient(worker, index));
      }
    }
    EXPECT_EQ(testing::bits_of(step.gradient(0)), testing::bits_of(step.worker_gradient(0, 0)));
    return HookVerdict::kContinue;
  }

 private:
  Gradients& gradients_;
};

/// Runs on ranks that are threads, each with its own hook. @returns the chief's output
std::string run_dumped(int num_ranks, const SmallRun& run, const GradientDumpOptions& options,
                       std::vector<std::uint32_t>* bits = nullptr) {
  return shown_by([&](ProgressDisplay& display) {
    const auto errors = run_ranks(num_ranks, [&](const std::shared_ptr<Communicator>& communicator) {
      SmallRun own = run;
      own.communicator = communicator;
      const std::unique_ptr<Trainer> trainer = make_small_trainer(own);
      const bool is_chief = communicator->rank() == 0;
      trainer->add_hook(is_chief ? make_gradient_dump_hook(options, display)
                                 : make_gradient_sender_hook(options.dump_steps));
      trainer->run();
      if (is_chief && bits != nullptr) *bits = state_bits(*trainer);
    });
    for (const auto& error : errors) {
      if (error) std::rethrow_exception(error);
    }
  });
}

TEST(GradientDumpHook, WritesEveryWorkersGradientOfEveryNthStep) {
  const TemporaryDirectory folder;
  Gradients gradients;
  shown_by([&](ProgressDisplay& display) {
    const std::unique_ptr<Trainer> trainer = make_small_trainer(four_workers());
    trainer->add_hook(make_gradient_dump_hook({.run = Folder(folder.path()), .dump_steps = 2}, display));
    trainer->add_hook(std::make_unique<Recorder>(gradients));
    trainer->run();
  });
  ASSERT_THAT(names_in(folder / "gradients"),
              ElementsAre("step-0000000002.safetensors", "step-0000000004.safetensors"));
  const SafetensorsFile file = SafetensorsFile::read(folder / "gradients" / "step-0000000004.safetensors");
  EXPECT_EQ(file.metadata(), (TensorMetadata{{"step", "4"}, {"num_workers", "4"}, {"net", "lenet"}}));
  EXPECT_EQ(file.tensors().size(), 4u * 8u);
  EXPECT_EQ(file.tensors().front().name, "worker-0000/conv1/weights");
  for (const TensorRecord& tensor : file.tensors()) {
    ASSERT_EQ(tensor.type, TensorType::kF32);
    std::vector<std::uint32_t> bits(tensor.bytes.size() / 4);
    std::memcpy(bits.data(), tensor.bytes.data(), tensor.bytes.size());
    EXPECT_EQ(bits, gradients.at("4/" + tensor.name)) << tensor.name;
  }
  EXPECT_NE(gradients.at("4/worker-0000/conv1/weights"), gradients.at("4/worker-0003/conv1/weights"));
}

TEST(GradientDumpHook, WritesTheSameForAnyNumberOfRanksAndChangesNoBit) {
  const std::unique_ptr<Trainer> plain = make_small_trainer(four_workers());
  plain->run();
  std::string expected;
  for (const int num_ranks : {1, 2, 3}) {
    SCOPED_TRACE(num_ranks);
    const TemporaryDirectory folder;
    std::vector<std::uint32_t> bits;
    run_dumped(num_ranks, four_workers(), {.run = Folder(folder.path()), .dump_steps = 3}, &bits);
    EXPECT_EQ(bits, state_bits(*plain));
    ASSERT_THAT(names_in(folder / "gradients"), ElementsAre("step-0000000003.safetensors"));
    const std::string written = read_file_text(folder / "gradients" / "step-0000000003.safetensors");
    if (num_ranks == 1) expected = written;
    EXPECT_TRUE(written == expected);
  }
}

TEST(GradientDumpHook, AFileThatCannotBeWrittenStopsTheRunOrIsShown) {
  for (const int num_ranks : {1, 2}) {
    const TemporaryDirectory folder;
    folder.write("gradients", "in the way");
    GradientDumpOptions options{.run = Folder(folder.path()), .dump_steps = 2};
    const std::string message = testing::message_of<DataError>([&] { run_dumped(num_ranks, four_workers(), options); });
    EXPECT_THAT(message, HasSubstr("gradients"));
    options.continues_after_errors = true;
    const std::string shown = run_dumped(num_ranks, four_workers(), options);
    EXPECT_THAT(shown, HasSubstr("step 2: "));
    EXPECT_THAT(shown, HasSubstr("step 4: "));
    EXPECT_THAT(shown, HasSubstr("training continues"));
  }
}

TEST(GradientDumpHook, RemovesWhatAKilledProcessBegan) {
  const TemporaryDirectory folder;
  fs::create_directory(folder / "gradients");
  folder.write("gradients/.step-0000000002.safetensors.0.tmp", "half");
  folder.write("gradients/step-0000000001.safetensors", "an earlier run's");
  run_dumped(1, four_workers(), {.run = Folder(folder.path()), .dump_steps = 5});
  EXPECT_THAT(names_in(folder / "gradients"),
              ElementsAre("step-0000000001.safetensors", "step-0000000005.safetensors"));
}

}  // namespace
}  // namespace terngrad::gradient_dump_hook_test
