// What a process does whose GPU waits for another in vain. Only the emulation has a stream that hangs when it is told
// to.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "kernels/errors.h"
#include "tests/nets/branched_net.h"
#include "tests/support/sanitized.h"
#include "tests/trainers/device_runs.h"

namespace terngrad::trainers_lost_gpu_test {
namespace {

using ::testing::AllOf;
using testing::DeviceRun;
using ::testing::HasSubstr;

// Of which processes wait one half for GPUs, and one for each other: more than one is ever behind another on a busy
// machine.
constexpr double kTimeout = testing::scaled(4.0, 8.0);

/// A rank of two whose operations wait for ever, until the group is given up.
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

/// Trains as one of two processes. @returns the words of its failure
std::string words_of_run(const std::shared_ptr<Communicator>& communicator, HangingCommunicator*& gpu,
                         bool overlap = false) {
  DeviceRun run{.run = {.num_workers = 2,
                        .codec = "ternary",
                        .total_steps = 5,
                        .batch_size = 2,
                        .communicator = communicator,
                        .net = test::branched_net(1.0f),
                        .bucket_bytes = 1,
                        .overlap = overlap},
                .timeout_seconds = kTimeout,
                .on_hang = [](const std::string&) {}};  // steps of a busy machine may take as long
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
  std::string words;
  double seconds = 0;
  const auto errors = testing::run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
    if (communicator->rank() == 1) {
      // It agrees on the first burst, and is not heard of again.
      std::uint32_t length = ~std::uint32_t{1};
      communicator->all_reduce_max({&length, 1});
      EXPECT_EQ(~length, 1u);
      return;
    }
    HangingCommunicator* gpu = nullptr;
    const auto begin = std::chrono::steady_clock::now();
    words = words_of_run(communicator, gpu);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  });
  for (const auto& error : errors) EXPECT_FALSE(error);
  EXPECT_EQ(words, "another rank has not come");  // with MPI: its name and host
  EXPECT_GE(seconds, kTimeout);
  EXPECT_LT(seconds, 60);
}

TEST(LostGpu, ProcessesThatAllWaitSaySo) {
  const std::string waited = "[DeviceReplica] cuda:0 has waited for other GPUs for " +
                             std::to_string(static_cast<int>(kTimeout / 2)) + " seconds";
  // What waits may be the stream itself, or what runs beside the backward pass.
  for (const bool overlap : {false, true}) {
    std::vector<std::string> words(2);
    testing::run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
      HangingCommunicator* gpu = nullptr;
      words[static_cast<std::size_t>(communicator->rank())] = words_of_run(communicator, gpu, overlap);
    });
    for (const std::string& said : words) {
      EXPECT_THAT(said, AllOf(HasSubstr("rank 0: " + waited), HasSubstr("; rank 1: " + waited)));
    }
  }
}

}  // namespace
}  // namespace terngrad::trainers_lost_gpu_test
