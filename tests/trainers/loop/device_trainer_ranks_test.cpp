// Training on the GPUs of several processes (here threads) with one or more GPUs each: results, reports, stops and
// failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "datasets/sets/transformed_images.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "tests/nets/branched_net.h"
#include "tests/support/bits.h"
#include "tests/support/cuda_device.h"
#include "tests/support/sanitized.h"
#include "tests/trainers/device_runs.h"
#include "tests/trainers/expected_identity.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/hooks/checkpoint_hook.h"
#include "trainers/hooks/replica_check.h"
#include "trainers/hooks/state_gather.h"
#include "trainers/run/training_state.h"

namespace terngrad::device_trainer_ranks_test {
namespace {

using ::testing::AllOf;
using testing::bits_of;
using ::testing::Contains;
using testing::DeviceRun;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Meeting;
using ::testing::Not;
using ::testing::SizeIs;
using testing::SmallRun;
using ::testing::StartsWith;
using testing::TemporaryDirectory;
class CudaDeviceTrainerRanks : public testing::CudaTest {};

/// Number of processes, and GPUs per process.
struct Split {
  int processes = 1;
  int gpus = 1;
};

/// Called with each process's trainer.
using WithTrainer = std::function<void(Trainer&, int process)>;

/// Runs on all processes concurrently. @returns each process's exception or null
std::vector<std::exception_ptr> run_split(DeviceRun run, const Split& split, const WithTrainer& before,
                                          const WithTrainer& after = {}) {
  run.num_replicas = split.gpus;
  run.gpus = std::make_shared<Meeting>(split.processes * split.gpus);
  return testing::run_ranks(split.processes, [&](const std::shared_ptr<Communicator>& communicator) {
    DeviceRun own = run;
    own.run.communicator = communicator;
    const std::unique_ptr<DeviceTrainer> trainer = testing::make_device_trainer(own);
    before(*trainer, communicator->rank());
    trainer->run();
    if (after) after(*trainer, communicator->rank());
  });
}

/// Final state and reports of a run, without times.
struct Result {
  std::vector<std::uint32_t> parameters, ema, slots;
  std::vector<std::vector<std::uint32_t>> states;  // per worker
  std::vector<double> losses, accuracies;
  std::vector<std::int64_t> sent, received;
  std::int64_t clipped = 0;

  friend bool operator==(const Result&, const Result&) = default;
};

/// Records numbers of each step without synchronization, so that bursts have full length.
class Recorder final : public Hook {
 public:
  explicit Recorder(Result& result) : result_(result) {}
  HookVerdict after_step(const TrainingView&, const StepView& step) override {
    result_.losses.push_back(step.loss);
    result_.accuracies.push_back(step.accuracy);
    result_.sent.push_back(step.report.sent_bytes());
    result_.received.push_back(step.report.received_bytes());
    result_.clipped += step.transform_counts.clipped_gradients;
    return HookVerdict::kContinue;
  }
  std::uint64_t next_sync_step(std::uint64_t) const override { return kNoSyncStep; }

 private:
  Result& result_;
};

/// Runs and compares the parameters of all processes.
Result result_of(const DeviceRun& run, const Split& split, const WithTrainer& before = {}) {
  Result result;
  std::mutex mutex;
  std::vector<std::vector<std::uint32_t>> parameters(static_cast<std::size_t>(split.processes));
  result.states.resize(static_cast<std::size_t>(run.run.num_workers));
  const auto prepare = [&](Trainer& trainer, int process) {
    if (before) before(trainer, process);
    trainer.add_hook(std::make_unique<Recorder>(result));  // called on the first process only
  };
  const auto errors = run_split(run, split, prepare, [&](Trainer& trainer, int process) {
    const std::lock_guard lock(mutex);
    parameters[static_cast<std::size_t>(process)] = bits_of(trainer.parameters());
    for (int worker = 0; worker < trainer.num_local_workers(); ++worker) {
      result.states[static_cast<std::size_t>(trainer.first_local_worker() + worker)] = bits_of(trainer.state(worker));
    }
    if (process != 0) return;
    result.ema = bits_of(trainer.ema().shadow());
    for (const Optimizer::Slot& slot : trainer.slots()) result.slots = bits_of(slot.values);
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  EXPECT_THAT(parameters, Each(parameters[0]));
  result.parameters = parameters[0];
  return result;
}

DeviceRun small_run(int num_workers, std::uint64_t steps) {
  return {.run = {.num_workers = num_workers,
                  .codec = "ternary",
                  .total_steps = steps,
                  .batch_size = num_workers,
                  .net = test::branched_net(0.6f)}};
}

std::string words_of(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    return caught.what();
  }
}

std::vector<std::string> words_of(const std::vector<std::exception_ptr>& errors) {
  std::vector<std::string> words;
  for (const std::exception_ptr& error : errors) words.push_back(words_of(error));
  return words;
}

const std::vector<Split> kSplits = {{1, 4}, {2, 1}, {2, 2}, {4, 1}};

// Contract B3.
TEST_F(CudaDeviceTrainerRanks, ChangeNothing) {
  for (const char* codec : {"fp32", "ternary"}) {
    DeviceRun run = small_run(4, 3);
    run.run.codec = codec;
    run.clip_by_global_norm = 1e-3;
    const Result one = result_of(run, {1, 1});
    EXPECT_EQ(one.clipped, 12);
    for (const Split& split : kSplits) {
      if (testing::kIsSanitized && split.processes * split.gpus == 2) continue;
      EXPECT_TRUE(result_of(run, split) == one) << codec << " " << split.processes << " x " << split.gpus;
    }
  }
}

TEST_F(CudaDeviceTrainerRanks, WorkersThatDoNotDivideEvenlyChangeNothing) {
  const DeviceRun run = small_run(5, 2);
  const Result one = result_of(run, {1, 1});
  for (const Split& split : {Split{2, 2}, Split{3, 1}}) {
    EXPECT_TRUE(result_of(run, split) == one) << split.processes << " x " << split.gpus;
  }
}

TEST_F(CudaDeviceTrainerRanks, ExchangesChangeNothing) {
  DeviceRun run = small_run(4, 2);
  run.algorithm = ExchangeAlgorithm::kAllGather;
  const Result gathered = result_of(run, {1, 1});
  for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kScatterReduce, ExchangeAlgorithm::kIntegerSum}) {
    run.algorithm = algorithm;
    EXPECT_EQ(result_of(run, {2, 2}).parameters, gathered.parameters) << word_of(algorithm);
  }
}

/// Synchronizes every N steps, on all processes or on the first.
class Looker final : public Hook {
 public:
  Looker(std::uint64_t period, bool everywhere) : period_(period), everywhere_(everywhere) {}
  HookVerdict after_step(const TrainingView& training, const StepView&) override {
    // Bursts end where any hook synchronizes, also on another process.
    const bool looks = training.steps_done % period_ == 0;
    EXPECT_TRUE(!looks || training.steps_computed == training.steps_done);
    return HookVerdict::kContinue;
  }
  std::uint64_t next_sync_step(std::uint64_t steps_done) const override { return next_multiple(period_, steps_done); }
  bool on_every_rank() const override { return everywhere_; }

 private:
  std::uint64_t period_;
  bool everywhere_;
};

TEST_F(CudaDeviceTrainerRanks, ProcessesWhoseHooksLookAtDifferentStepsRunTheSameBursts) {
  const DeviceRun run = small_run(2, 11);
  const Result plain = result_of(run, {2, 1});
  const Result looked_at = result_of(run, {2, 1}, [](Trainer& trainer, int process) {
    if (process == 0) trainer.add_hook(std::make_unique<Looker>(3, false));
    if (process == 1) trainer.add_hook(std::make_unique<Looker>(4, true));
  });
  EXPECT_TRUE(looked_at == plain);
}

/// Requests a stop from a step on, without synchronization.
class Stopper final : public Hook {
 public:
  Stopper(std::uint64_t step, std::vector<std::uint64_t>& asked) : step_(step), asked_(asked) {}
  HookVerdict after_step(const TrainingView& training, const StepView&) override {
    EXPECT_EQ(training.stop_delay, 1u);
    if (training.steps_done < step_ || training.steps_done < training.steps_computed) return HookVerdict::kContinue;
    asked_.push_back(training.steps_done);
    if (training.stops_now) last_ = training.steps_done;
    return HookVerdict::kStop;
  }
  void after_train(const TrainingView& training) override { EXPECT_EQ(training.steps_done, last_); }
  std::uint64_t next_sync_step(std::uint64_t) const override { return kNoSyncStep; }
  bool on_every_rank() const override { return true; }

 private:
  std::uint64_t step_;
  std::vector<std::uint64_t>& asked_;
  std::uint64_t last_ = 0;
};

TEST_F(CudaDeviceTrainerRanks, StopTogetherAfterTheStepAfterTheBurstThatAsked) {
  for (const int asking : {0, 1}) {
    std::mutex mutex;
    std::vector<std::uint64_t> asked;
    std::vector<std::uint64_t> steps;
    std::vector<std::vector<std::uint32_t>> parameters;
    const auto errors = run_split(
        small_run(2, 40), {2, 1},
        [&](Trainer& trainer, int process) {
          if (process == asking) trainer.add_hook(std::make_unique<Stopper>(4, asked));
          if (process != asking) trainer.add_hook(std::make_unique<Looker>(1000, true));
        },
        [&](Trainer& trainer, int) {
          const std::lock_guard lock(mutex);
          parameters.push_back(bits_of(trainer.parameters()));
        });
    EXPECT_THAT(words_of(errors), Each(""));
    // Requested at the end of a burst, and again after the one further step that all agreed on.
    ASSERT_THAT(asked, SizeIs(2)) << asking;
    EXPECT_EQ(asked[1], asked[0] + 1);
    EXPECT_LT(asked[1], 40u);
    EXPECT_EQ(parameters[0], parameters[1]);
  }
}

// Contract B4, also with another split.
TEST_F(CudaDeviceTrainerRanks, ContinueFromEachOthersCheckpoints) {
  const DeviceRun run = small_run(4, 5);
  const Result whole = result_of(run, {1, 1});
  CheckpointState state;
  state.net = "branched";
  ProgressDisplay display(stderr, ProgressDisplay::Mode::kSilent);
  std::vector<std::byte> saved;
  for (const Split& saving : {Split{1, 1}, Split{2, 2}}) {
    const TemporaryDirectory folder;
    result_of(run, saving, [&](Trainer& trainer, int process) {
      if (process == 0) {
        trainer.add_hook(std::make_unique<CheckpointHook>(
            CheckpointHookOptions{.folder = Folder(folder.path()), .save_steps = 2}, state, [] {}, display));
      } else {
        trainer.add_hook(make_state_sender_hook({.save_steps = 2}));
      }
    });
    const Checkpoint checkpoint = load_checkpoint(checkpoint_path(folder.path(), 2));
    const std::vector<std::byte> content(checkpoint.content().begin(), checkpoint.content().end());
    if (saved.empty()) saved = content;
    EXPECT_TRUE(content == saved) << saving.processes;
    for (const Split& going_on : {Split{1, 2}, Split{2, 1}}) {
      const Result resumed = result_of(run, going_on, [&](Trainer& trainer, int) {
        restore(checkpoint, testing::expected_identity(state), run.run.total_steps, trainer);
      });
      EXPECT_TRUE(resumed.parameters == whole.parameters && resumed.states == whole.states &&
                  resumed.ema == whole.ema && resumed.slots == whole.slots)
          << saving.processes << " " << going_on.processes;
    }
  }
}

/// Forwards to threads; subclasses change parts.
class PassingCommunicator : public DeviceCommunicator {
 public:
  PassingCommunicator(std::shared_ptr<Meeting> meeting, int rank) : inner_(std::move(meeting), rank) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void check() override {}
  void abandon() noexcept override { inner_.abandon(); }

 protected:
  void submit_all_gather(std::span<const DeviceGather> gathers, Stream& stream) override {
    inner_.all_gather(gathers, stream);
  }
  void submit_all_reduce_sum(std::span<std::uint64_t> values, Stream& stream) override {
    inner_.all_reduce_sum(values, stream);
  }
  void submit_all_reduce_max(std::span<std::uint32_t> values, Stream& stream) override {
    inner_.all_reduce_max(values, stream);
  }
  void submit_all_to_all(const std::uint8_t* outgoing, std::span<const ByteRange> to, std::uint8_t* incoming,
                         std::span<const ByteRange> from, Stream& stream) override {
    inner_.all_to_all(outgoing, to, incoming, from, stream);
  }
  void submit_broadcast(std::span<std::uint8_t> bytes, int root, Stream& stream) override {
    inner_.broadcast(bytes, root, stream);
  }

 private:
  testing::ThreadDeviceCommunicator inner_;
};

/// Loses the first rank's part of the largest gathered buffer.
class ForgetfulCommunicator final : public PassingCommunicator {
 public:
  ForgetfulCommunicator(std::shared_ptr<Meeting> meeting, int rank, bool forgets)
      : PassingCommunicator(std::move(meeting), rank), forgets_(forgets) {}

 protected:
  void submit_all_gather(std::span<const DeviceGather> gathers, Stream& stream) override {
    PassingCommunicator::submit_all_gather(gathers, stream);
    const auto count_of = [](const DeviceGather& gather) { return gather.parts[0].count; };
    const DeviceGather& largest = *std::ranges::max_element(gathers, {}, count_of);
    const ByteRange& part = largest.parts[0];
    if (forgets_ && part.count > 64) {
      fill_zero(std::span(largest.buffer + part.offset, static_cast<std::size_t>(part.count)), stream);
    }
  }

 private:
  bool forgets_;
};

/// Damages the initial parameters of the second process.
void damage(Trainer& trainer, int process) {
  if (process == 1) trainer.parameters()[3] += 0.5f;
}

TEST_F(CudaDeviceTrainerRanks, ReplicasThatDriftApartAreFound) {
  const auto check = [](Trainer& trainer, int) { trainer.add_hook(make_replica_check_hook(2)); };
  EXPECT_THAT(words_of(run_split(small_run(2, 4), {2, 1}, check)), Each(""));
  EXPECT_THAT(words_of(run_split(small_run(2, 4), {2, 1},
                                 [&](Trainer& trainer, int process) {
                                   check(trainer, process);
                                   damage(trainer, process);
                                 })),
              Each(AllOf(StartsWith("step 2: the replicas have drifted apart"), HasSubstr("of rank 1"))));
}

TEST_F(CudaDeviceTrainerRanks, EveryGpusReplicaIsCompared) {
  for (const Split& split : {Split{1, 2}, Split{2, 2}}) {
    EXPECT_THAT(words_of(run_split(small_run(4, 4), split,
                                   [](Trainer& trainer, int) { trainer.add_hook(make_replica_check_hook(2)); })),
                Each(""));
  }
  // The last GPU receives other payloads than the rest.
  DeviceRun run = small_run(4, 4);
  run.algorithm = ExchangeAlgorithm::kAllGather;
  const auto gpus = std::make_shared<Meeting>(4);
  run.communicator_of = [&](int rank) { return std::make_shared<ForgetfulCommunicator>(gpus, rank, rank == 3); };
  EXPECT_THAT(
      words_of(run_split(run, {2, 2}, [](Trainer& trainer, int) { trainer.add_hook(make_replica_check_hook(2)); })),
      Each(AllOf(StartsWith("step 2: the replicas have drifted apart"),
                 HasSubstr("of GPU 1 of rank 1 is not that of GPU 0 of rank 0"))));
}

TEST_F(CudaDeviceTrainerRanks, TakeOverTheFirstOnesReplica) {
  DeviceRun run = small_run(4, 5);
  const Result plain = result_of(run, {1, 1});
  run.run.rebroadcast_steps = 2;
  EXPECT_TRUE(result_of(run, {2, 2}) == plain);
  // Every two steps, so that after step 4 all have the first replica; equal replicas stay equal in step 5.
  std::mutex mutex;
  std::vector<std::vector<std::uint32_t>> bits(2);
  const auto errors = run_split(run, {2, 2}, damage, [&](Trainer& trainer, int process) {
    const std::lock_guard lock(mutex);
    bits[static_cast<std::size_t>(process)] = bits_of(trainer.parameters());
  });
  EXPECT_THAT(words_of(errors), Each(""));
  EXPECT_EQ(bits[0], bits[1]);
}

/// Digits of which the first is unreadable, or NaN, from its third visit on. Each step reads the examples.
std::shared_ptr<const Dataset> broken_digits(bool is_nan) {
  return transformed_images(
      testing::small_digits(8, testing::kSmallImage),
      [is_nan](std::int64_t index, const ExampleVisit& visit, std::span<float> image) {
        if (index != 0 || visit.epoch < 2) return;
        if (!is_nan) throw DataError("example 0 is damaged");
        image[0] = NAN;
      },
      /*is_augmented=*/true);
}

TEST_F(CudaDeviceTrainerRanks, WhatIsNotFiniteStopsAllWithTheSameWords) {
  DeviceRun run = small_run(2, 40);
  run.run.batch_size = 4;
  run.run.dataset = broken_digits(/*is_nan=*/true);
  const auto none = [](Trainer&, int) {};
  const std::string alone = words_of(run_split(run, {1, 1}, none))[0];
  ASSERT_THAT(alone, HasSubstr("holds NaN or infinity"));
  EXPECT_THAT(words_of(run_split(run, {2, 1}, none)), Each(alone));
}

TEST_F(CudaDeviceTrainerRanks, AnErrorOfOnesDataEndsAll) {
  DeviceRun run = small_run(2, 40);
  run.run.batch_size = 4;
  run.run.dataset = broken_digits(/*is_nan=*/false);
  const std::vector<std::string> words = words_of(run_split(run, {2, 1}, [](Trainer&, int) {}));
  EXPECT_THAT(words, Contains(HasSubstr("example 0 is damaged")));
  for (const std::string& word : words) EXPECT_NE(word, "");
}

/// Fails, or blocks the caller, from an operation on.
class FailingCommunicator final : public PassingCommunicator {
 public:
  /// @param last  number of successful gathers
  FailingCommunicator(std::shared_ptr<Meeting> meeting, int rank, int last, std::function<void()> failure)
      : PassingCommunicator(std::move(meeting), rank), last_(last), failure_(std::move(failure)) {}

 protected:
  void submit_all_gather(std::span<const DeviceGather> gathers, Stream& stream) override {
    if (++count_ > last_) failure_();
    PassingCommunicator::submit_all_gather(gathers, stream);
  }

 private:
  int last_;
  int count_ = 0;
  std::function<void()> failure_;
};

TEST_F(CudaDeviceTrainerRanks, AGpuThatFailsEndsAll) {
  for (const int failing : {0, 3}) {
    DeviceRun run = small_run(4, 40);
    const auto gpus = std::make_shared<Meeting>(4);
    run.communicator_of = [&](int rank) -> std::shared_ptr<DeviceCommunicator> {
      const int last = rank == failing ? 7 : 1000000;
      return std::make_shared<FailingCommunicator>(gpus, rank, last, [] { throw DeviceError("the GPU is gone"); });
    };
    const std::vector<std::string> words = words_of(run_split(run, {2, 2}, [](Trainer&, int) {}));
    EXPECT_EQ(words[static_cast<std::size_t>(failing / 2)], "the GPU is gone");
    EXPECT_THAT(words[static_cast<std::size_t>(1 - failing / 2)], HasSubstr("another rank failed"));
  }
}

TEST_F(CudaDeviceTrainerRanks, ABurstInWhichALibraryHangsIsSaidAndEnded) {
  DeviceRun run = small_run(2, 40);
  run.timeout_seconds = 0.5;
  const auto gpus = std::make_shared<Meeting>(2);
  std::mutex mutex;
  std::set<std::string> said;
  std::atomic<bool> is_hanging = false;
  std::atomic<bool> is_over = false;
  run.on_hang = [&](const std::string& doing) {
    {
      const std::lock_guard lock(mutex);
      said.insert(doing);
    }
    // Replaces the end of the process. On a slow machine this may be called in a burst that does not hang, so it waits
    // for the real hang.
    while (!is_hanging) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    is_over = true;
  };
  run.communicator_of = [&](int rank) -> std::shared_ptr<DeviceCommunicator> {
    // The second rank hangs in a call; the first one waits for it.
    return std::make_shared<FailingCommunicator>(gpus, rank, rank == 0 ? 1000000 : 5, [&] {
      is_hanging = true;
      while (!is_over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      throw CommunicationError("another rank failed");
    });
  };
  EXPECT_THAT(words_of(run_split(run, {2, 1}, [](Trainer&, int) {})), Each(HasSubstr("another rank failed")));
  EXPECT_THAT(said, Not(IsEmpty()));
  EXPECT_THAT(said, Each(AllOf(StartsWith("steps "), HasSubstr(" have not ended on GPUs in 0.5 seconds"))));
}

}  // namespace
}  // namespace terngrad::device_trainer_ranks_test
