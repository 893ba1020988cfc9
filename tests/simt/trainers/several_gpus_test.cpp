// A process with several GPUs whose streams are threads: it must not allocate, load modules or instantiate graphs while
// a GPU waits for another one. ctest sets SIMT_STREAMS=threads.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/pinned_buffer.h"
#include "kernels/runtime/stream_timer.h"
#include "tests/nets/branched_net.h"
#include "tests/simt/trainers/stream_communicator.h"
#include "tests/support/bits.h"
#include "tests/trainers/device_runs.h"
#include "trainers/options/train_devices.h"

namespace terngrad::trainers_several_gpus_test {
namespace {

using testing::bits_of;
using testing::DeviceRun;
using ::testing::ElementsAre;
using testing::Meeting;
using testing::StreamCommunicator;

class SeveralGpus : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("SIMT_DEVICES", "4", 1);
    if (!simt::streams_are_threads()) GTEST_SKIP() << "streams run everything at once: SIMT_STREAMS=threads";
  }
};

DeviceRun run_of(int num_gpus, int first_gpu = 0) {
  DeviceRun run{
      .run = {.num_workers = 4, .codec = "ternary", .total_steps = 4, .batch_size = 4, .net = test::branched_net(0.6f)},
      .num_replicas = num_gpus,
      .max_burst = 2,
      .can_capture_ranks = true,
      .floating_from = 2,
      .first_gpu = first_gpu};
  const auto meeting = std::make_shared<Meeting>(num_gpus);
  if (num_gpus > 1) {
    run.communicator_of = [meeting](int rank) { return std::make_shared<StreamCommunicator>(meeting, rank); };
  }
  return run;
}

std::vector<std::uint32_t> parameters_after(const DeviceRun& run) {
  const auto trainer = testing::make_device_trainer(run);
  trainer->run();
  return bits_of(trainer->parameters());
}

// Contract B3.
TEST_F(SeveralGpus, OfAProcessHaveTheBitsOfOne) {
  const char* const starts = std::getenv("TERNGRAD_STARTS");
  const int count = starts == nullptr ? 1 : std::atoi(starts);
  const std::vector<std::uint32_t> one = parameters_after(run_of(1));
  for (int start = 0; start < count; ++start) {
    for (const int num_gpus : {2, 4}) {
      for (const bool overlap : {false, true}) {
        DeviceRun run = run_of(num_gpus);
        run.run.bucket_bytes = overlap ? 1 : 0;
        run.run.overlap = overlap;
        EXPECT_EQ(parameters_after(run), one) << num_gpus << " GPUs, overlap " << overlap << ", start " << start;
      }
    }
  }
}

TEST_F(SeveralGpus, UploadExamplesBesideTheirSteps) {
  const auto parameters_of = [](int num_gpus, const std::shared_ptr<const Dataset>& dataset) {
    DeviceRun run = run_of(num_gpus);
    run.run.total_steps = 12;
    run.run.dataset = dataset;
    return parameters_after(run);
  };
  const auto digits = testing::small_digits(40, testing::kSmallImage);
  const std::vector<std::uint32_t> resident = parameters_of(1, digits);
  for (const int num_gpus : {1, 2, 4}) {
    EXPECT_EQ(parameters_of(num_gpus, testing::streamed(digits)), resident) << num_gpus << " GPUs";
  }
}

TEST_F(SeveralGpus, FromTheFirstTooOldOneOnTheyAreNotThere) {
  const std::string too_old =
      " (SIMT emulation) has compute capability 7.0, and this build has code from 7.5 on: build with "
      "CMAKE_CUDA_ARCHITECTURES for it, or hide it by CUDA_VISIBLE_DEVICES";
  struct Case {
    const char* capabilities;
    int count;
    std::string reason;
  };
  for (const Case& c : {Case{"70", 0, "GPU 0" + too_old}, Case{"75", 4, ""}, Case{"90,80,70", 2, "GPU 2" + too_old}}) {
    setenv("SIMT_COMPUTE_CAPABILITY", c.capabilities, 1);
    EXPECT_EQ(num_cuda_devices(), c.count);
    EXPECT_EQ(cuda_unavailable_reason(), c.reason);
    if (c.count != 2) continue;
    try {
      choose_devices("cuda", {.count = 3}, "tf32");
      ADD_FAILURE() << "took a GPU that is too old";
    } catch (const UsageError& error) {
      EXPECT_EQ(std::string(error.what()),
                "--num_gpus 3: this process sees 2 GPUs (GPU 2" + too_old + "); accepted: 1 to 2");
    }
  }
  unsetenv("SIMT_COMPUTE_CAPABILITY");
}

/// Runs `work` in new threads, whose current GPU is 0. @returns the GPUs on which it created a context
template <class Work>
std::vector<int> gpus_with_a_context_after(const Work& work) {
  simt::forget_contexts();
  std::jthread(work).join();
  std::vector<int> gpus;
  for (int gpu = 0; gpu < 4; ++gpu) {
    if (simt::has_context(gpu)) gpus.push_back(gpu);
  }
  return gpus;
}

TEST_F(SeveralGpus, HaveContextsOnlyWhereTheProcessWorks) {
  EXPECT_THAT(gpus_with_a_context_after([] { parameters_after(run_of(1, 3)); }), ElementsAre(3));
  EXPECT_THAT(gpus_with_a_context_after([] { parameters_after(run_of(2, 1)); }), ElementsAre(1, 2));
}

TEST_F(SeveralGpus, HaveNoContextsOfTimersPinnedMemoryAndWhatIsDestroyedLate) {
  EXPECT_THAT(gpus_with_a_context_after([] {
                std::shared_ptr<Stream> stream;
                std::shared_ptr<StreamTimer> timer;
                std::shared_ptr<PinnedBuffer<float>> pinned;
                std::shared_ptr<Buffer<float>> buffer;
                std::jthread([&] {
                  stream = std::make_shared<Stream>(Device::cuda(2));
                  timer = std::make_shared<StreamTimer>(stream->device());
                  pinned = std::make_shared<PinnedBuffer<float>>(4, stream->device());
                  buffer = std::make_shared<Buffer<float>>(4, stream->device());
                  timer->start(*stream);
                  timer->stop(*stream);
                  stream->synchronize();
                }).join();
                // This thread's current GPU is 0.
                EXPECT_GE(timer->seconds(), 0);
                EXPECT_TRUE(stream->is_done());
              }),
              ElementsAre(2));
}

/// Counterexample to DeviceTrainer: both GPUs allocate between two operations.
void allocate_between_operations() {
  setenv("SIMT_PATIENCE", "0.3", 1);
  const auto meeting = std::make_shared<Meeting>(2);
  std::vector<std::jthread> gpus;
  for (int rank = 0; rank < 2; ++rank) {
    gpus.emplace_back([meeting, rank] {
      StreamCommunicator communicator(meeting, rank);
      Stream stream(Device::cuda(rank));
      Buffer<std::uint64_t> values(8, stream.device());
      communicator.all_reduce_sum(values.span(), stream);
      const Buffer<float> more(100, stream.device());
      communicator.all_reduce_sum(values.span(), stream);
      stream.synchronize();
    });
  }
}

TEST_F(SeveralGpus, ThatAllocateBetweenOperationsHang) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // Depends on the order of two threads: the first to allocate waits for the operation of the other.
  EXPECT_EXIT(for (int attempt = 0; attempt < 1000; ++attempt) allocate_between_operations(),
              ::testing::ExitedWithCode(134),
              "cudaMalloc of GPU [01] waits for streams that do not end:\nsimt: stream [0-9]+ of GPU [01] waits for "
              "all_reduce_sum");
}

}  // namespace
}  // namespace terngrad::trainers_several_gpus_test
