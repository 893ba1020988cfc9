// A process whose GPU waits for another one until the timeout. Needs the emulation, whose streams can be made to hang.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "tests/nets/branched_net.h"
#include "tests/trainers/device_runs.h"

namespace terngrad::trainers_lost_gpu_test {
namespace {

using ::testing::AllOf;
using testing::DeviceRun;
using ::testing::HasSubstr;

// Timeout of GPUs, always reached, so it also works on slow machines.
constexpr double kGpuTimeout = 0.1;

/// One of two ranks. Its operations hang until abandon().
class HangingCommunicator final : public DeviceCommunicator {
 public:
  explicit HangingCommunicator(int rank) : rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return 2; }
  void check() override { ++num_checks; }
  void abandon() noexcept override {
    if (stream_ != nullptr) *stream_->hangs = false;
  }
  int num_checks = 0;

 protected:
  void submit_all_gather(std::span<const DeviceGather>, Stream& stream) override { hang(stream); }
  void submit_all_reduce_sum(std::span<std::uint64_t>, Stream& stream) override { hang(stream); }
  void submit_all_reduce_max(std::span<std::uint32_t>, Stream& stream) override { hang(stream); }
  void submit_all_to_all(const std::uint8_t*, std::span<const ByteRange>, std::uint8_t*, std::span<const ByteRange>,
                         Stream& stream) override {
    hang(stream);
  }
  void submit_broadcast(std::span<std::uint8_t>, int, Stream& stream) override { hang(stream); }

 private:
  void hang(Stream& stream) {
    stream_ = static_cast<cudaStream_t>(stream.native());
    *stream_->hangs = true;
  }
  int rank_;
  cudaStream_t stream_ = nullptr;
};

/// Trains as one of two processes and returns the error message.
/// @param timeout  seconds; after a GPU timeout the processes wait half of it for each other
std::string words_of_run(const std::shared_ptr<Communicator>& communicator, HangingCommunicator*& gpu, double timeout,
                         bool overlap = false) {
  DeviceRun run{.run = {.num_workers = 2,
                        .codec = "ternary",
                        .total_steps = 5,
                        .batch_size = 2,
                        .communicator = communicator,
                        .net = test::branched_net(1.0f),
                        .bucket_bytes = 1,
                        .overlap = overlap},
                .timeout_seconds = timeout,
                .gpu_timeout_seconds = kGpuTimeout,
                .on_hang = [](const std::string&) {}};  // ignored: steps may take that long on a busy machine
  run.gpus = std::make_shared<testing::Meeting>(2);
  run.communicator_of = [&](int rank) {
    auto made = std::make_shared<HangingCommunicator>(rank);
    gpu = made.get();
    return made;
  };
  const auto trainer = testing::make_device_trainer(run);
  try {
    trainer->run();
  } catch (const CommunicationError& error) {
    EXPECT_GT(gpu->num_checks, 0);
    return error.what();
  }
  return "no failure";
}

TEST(LostGpu, AProcessThatIsWaitedForIsMissedByTheOthersInTime) {
  constexpr double kTimeout = 0.4;  // always reached
  std::string words;
  double seconds = 0;
  const auto errors = testing::run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
    if (communicator->rank() == 1) {
      // Agrees on the first burst, then stays silent.
      std::uint32_t length = ~std::uint32_t{1};
      communicator->all_reduce_max({&length, 1});
      EXPECT_EQ(~length, 1u);
      return;
    }
    HangingCommunicator* gpu = nullptr;
    const auto begin = std::chrono::steady_clock::now();
    words = words_of_run(communicator, gpu, kTimeout);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  });
  for (const auto& error : errors) EXPECT_FALSE(error);
  EXPECT_EQ(words, "another rank has not come");  // with MPI: rank and host
  EXPECT_GE(seconds, kGpuTimeout + kTimeout / 2);
  EXPECT_LT(seconds, 60);
}

TEST(LostGpu, ProcessesThatAllWaitSaySo) {
  // Half of it exceeds any delay between processes on a busy machine.
  constexpr double kTimeout = 60;
  const std::string waited = "[DeviceReplica] cuda:0 has waited for other GPUs for 0.1 seconds";
  // Either the stream itself waits, or the exchange beside the backward pass.
  for (const bool overlap : {false, true}) {
    std::vector<std::string> words(2);
    testing::run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
      HangingCommunicator* gpu = nullptr;
      words[static_cast<std::size_t>(communicator->rank())] = words_of_run(communicator, gpu, kTimeout, overlap);
    });
    for (const std::string& said : words) {
      EXPECT_THAT(said, AllOf(HasSubstr("rank 0: " + waited), HasSubstr("; rank 1: " + waited)));
    }
  }
}

/// One of two ranks, which receives its own data as the other's, by copies that CUDA graphs can capture.
class EchoCommunicator final : public DeviceCommunicator {
 public:
  explicit EchoCommunicator(int rank) : rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return 2; }
  void check() override {}
  void abandon() noexcept override { graphs_when_given_up = simt::live_graphs; }
  int graphs_when_given_up = -1;

 protected:
  void submit_all_gather(std::span<const DeviceGather> gathers, Stream& stream) override {
    for (const DeviceGather& gather : gathers) {
      const ByteRange& own = gather.parts[static_cast<std::size_t>(rank_)];
      const ByteRange& other = gather.parts[static_cast<std::size_t>(1 - rank_)];
      const auto count = static_cast<std::size_t>(std::min(own.count, other.count));
      copy<std::uint8_t>({gather.buffer + own.offset, count}, std::span(gather.buffer + other.offset, count), stream);
    }
  }
  void submit_all_reduce_sum(std::span<std::uint64_t>, Stream&) override { ADD_FAILURE() << "nothing is summed"; }
  void submit_all_reduce_max(std::span<std::uint32_t>, Stream&) override {}
  void submit_all_to_all(const std::uint8_t*, std::span<const ByteRange>, std::uint8_t*, std::span<const ByteRange>,
                         Stream&) override {
    ADD_FAILURE() << "nothing is scattered";
  }
  void submit_broadcast(std::span<std::uint8_t>, int, Stream&) override {}

 private:
  int rank_;
};

// NCCL counts graphs with operations of a communicator, and waits for them when the communicator is destroyed.
TEST(LostGpu, GraphsAreGoneBeforeTheGroupIsGivenUp) {
  const auto errors = testing::run_ranks(2, [](const std::shared_ptr<Communicator>& communicator) {
    DeviceRun run{.run = {.num_workers = 2,
                          .codec = "ternary",
                          .total_steps = 9,
                          .batch_size = 2,
                          .communicator = communicator,
                          .net = test::branched_net(1.0f)},
                  .can_capture_ranks = true,
                  .algorithm = ExchangeAlgorithm::kAllGather};
    run.gpus = std::make_shared<testing::Meeting>(2);
    std::shared_ptr<EchoCommunicator> gpu;
    run.communicator_of = [&](int rank) { return gpu = std::make_shared<EchoCommunicator>(rank); };
    const auto trainer = testing::make_device_trainer(run);
    trainer->add_hook(at_step(
        4,
        [](const TrainingView&, const StepView&) -> HookVerdict {
          EXPECT_EQ(simt::live_graphs, 1);
          TERNGRAD_THROW(DataError, "no room");
        },
        HookRanks::kEvery));
    EXPECT_THROW(trainer->run(), DataError);
    EXPECT_EQ(gpu->graphs_when_given_up, 0);
  });
  for (const auto& error : errors) EXPECT_FALSE(error);
}

}  // namespace
}  // namespace terngrad::trainers_lost_gpu_test
