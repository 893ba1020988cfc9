#include "trainers/loop/served_parameters.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"
#include "tests/support/bits.h"
#include "tests/support/thread_communicator.h"
#include "tests/trainers/small_training.h"
#include "trainers/hooks/state_gather.h"

namespace terngrad::served_parameters_test {
namespace {

using testing::bits_of;
using testing::make_small_trainer;
using testing::run_ranks;
using testing::SmallRun;

/// Bits of all saved state, without padding between tensors.
std::vector<std::uint32_t> state_bits(Trainer& trainer) {
  std::vector<std::uint32_t> all;
  const auto append = [&](std::span<const float> flat) {
    for (const Segment& segment : trainer.net().layout().segments()) {
      const auto bits = bits_of(
          flat.subspan(static_cast<std::size_t>(segment.offset), static_cast<std::size_t>(segment.num_elements)));
      all.insert(all.end(), bits.begin(), bits.end());
    }
  };
  append(trainer.parameters());
  append(trainer.ema().shadow());
  for (const Optimizer::Slot& slot : trainer.slots()) append(slot.values);
  return all;
}

struct Ranks {
  int size = 1;
  int num_servers = 0;
};

/// Results of a run: bits of rank 0's state, and of each rank's parameters.
struct Trained {
  std::vector<std::uint32_t> state;
  std::vector<std::vector<std::uint32_t>> parameters;
};

Trained train(SmallRun run, const Ranks& ranks, const std::function<void(Trainer&)>& before = {}) {
  Trained trained;
  trained.parameters.resize(static_cast<std::size_t>(ranks.size));
  run.num_servers = ranks.num_servers;
  const auto errors = run_ranks(ranks.size, [&](const std::shared_ptr<Communicator>& communicator) {
    SmallRun own = run;
    own.communicator = communicator;
    const std::unique_ptr<Trainer> trainer = make_small_trainer(own);
    if (before) before(*trainer);
    trainer->add_hook(make_state_sender_hook({.save_steps = 4}));
    trainer->run();
    trained.parameters[static_cast<std::size_t>(communicator->rank())] = bits_of(trainer->parameters());
    if (communicator->rank() == 0) trained.state = state_bits(*trainer);
  });
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return trained;
}

SmallRun served_run(const std::string& optimizer) {
  SmallRun run{.num_workers = 4, .codec = "ternary", .total_steps = 6, .batch_size = 8};
  run.optimizer = optimizer;
  run.owners = ShardOwners::kServers;
  run.pulls_parameters = true;
  return run;
}

TEST(ServedParameters, HaveTheBitsOfReplicasThatUpdateThemselves) {
  for (const std::string& optimizer : optimizer_names()) {
    if (make_optimizer(optimizer, {}, 1)->message_transform() != nullptr) {
      EXPECT_THROW(train(served_run(optimizer), {1, 0}), InvalidArgument) << optimizer;
      continue;
    }
    SmallRun replicated = served_run(optimizer);
    replicated.owners = ShardOwners::kWorkers;
    replicated.pulls_parameters = false;
    const Trained expected = train(replicated, {});
    for (const Ranks& ranks : {Ranks{1, 0}, Ranks{2, 0}, Ranks{2, 1}, Ranks{5, 3}}) {
      const Trained found = train(served_run(optimizer), ranks);
      // The slots of the last step were gathered after it.
      EXPECT_EQ(found.state, expected.state) << optimizer << ", " << ranks.size << " ranks";
      for (const auto& parameters : found.parameters) EXPECT_EQ(parameters, expected.parameters[0]);
    }
  }
}

TEST(ServedParameters, AreUpdatedByTheSumIfAsked) {
  SmallRun replicated = served_run("momentum");
  replicated.owners = ShardOwners::kWorkers;
  replicated.pulls_parameters = false;
  replicated.mean_factor = 4;
  SmallRun served = served_run("momentum");
  served.mean_factor = 4;
  EXPECT_EQ(train(served, {3, 1}).state, train(replicated, {}).state);
}

TEST(ServedParameters, ThatAreRoundedOnTheirWayGoOnUnrounded) {
  SmallRun run = served_run("gd");
  run.downlink_codec = DownlinkCodec::kBfloat16;
  const Trained alone = train(run, {});
  for (const Ranks& ranks : {Ranks{2, 1}, Ranks{4, 2}}) {
    EXPECT_EQ(train(run, ranks).state, alone.state) << ranks.size;
  }
  const std::unique_ptr<Trainer> trainer = make_small_trainer(run);
  trainer->add_hook(make_state_sender_hook({.save_steps = 1}));
  trainer->run();
  const std::vector<Optimizer::Slot> slots = trainer->slots();
  ASSERT_EQ(slots.size(), 1u);
  EXPECT_EQ(slots[0].name, "served");
  // Workers have the server's parameters, rounded; the served ones have more digits.
  std::vector<float> rounded(slots[0].values.begin(), slots[0].values.end());
  Stream stream(Device::cpu(), 1);
  const std::vector<std::uint32_t> exact = bits_of(rounded);
  round_to_bfloat16(rounded, stream);
  EXPECT_EQ(bits_of(rounded), bits_of(trainer->parameters()));
  EXPECT_NE(bits_of(rounded), exact);
}

/// Copies the state of one trainer to another.
void copy_state(Trainer& from, Trainer& to) {
  std::ranges::copy(from.parameters(), to.parameters().begin());
  std::ranges::copy(from.ema().shadow(), to.ema().shadow().begin());
  const auto theirs = from.slots();
  const auto own = to.slots();
  ASSERT_EQ(theirs.size(), own.size());
  for (std::size_t i = 0; i < own.size(); ++i) std::ranges::copy(theirs[i].values, own[i].values.begin());
  to.optimizer().restore_state(from.optimizer().state());
  to.set_steps_done(3);
}

TEST(ServedParameters, ContinueFromACheckpointWithOtherServers) {
  for (const DownlinkCodec downlink_codec : {DownlinkCodec::kFloat32, DownlinkCodec::kBfloat16}) {
    SmallRun run = served_run("adam");
    run.downlink_codec = downlink_codec;
    const Trained whole = train(run, {3, 1});
    const std::unique_ptr<Trainer> half = make_small_trainer(run);
    half->add_hook(make_state_sender_hook({.save_steps = 3}));
    half->add_hook(at_step(3, [](const TrainingView&, const StepView&) { return HookVerdict::kStop; }));
    ASSERT_EQ(half->run(), 3u);
    std::mutex mutex;
    const auto take_over = [&](Trainer& trainer) {
      const std::lock_guard lock(mutex);
      copy_state(*half, trainer);
    };
    EXPECT_EQ(train(run, {1, 0}, take_over).state, whole.state);
    EXPECT_EQ(train(run, {4, 2}, take_over).state, whole.state);
  }
}

TEST(ServedParameters, RefuseOtherShardsThanTheirOwn) {
  Layout layout;
  layout.add("a", {100});
  const WorkerGroup workers = make_worker_group(1, make_self_communicator());
  ServedParameters served(
      layout, workers, {.make_optimizer = [](std::int64_t n) { return make_optimizer("gd", {}, n); }, .schedule = {}});
  std::vector<float> values(static_cast<std::size_t>(layout.flat_elements()));
  const TensorTable table(layout, values.data());
  const std::vector<Slice> whole = {{0, 0, 100}};
  const std::vector<Slice> other = {{0, 0, 50}, {0, 50, 50}};
  EXPECT_THROW(served.update(1, whole, table, 0), InvalidArgument);
  EXPECT_THROW(served.update(0, other, table, 0), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::served_parameters_test
