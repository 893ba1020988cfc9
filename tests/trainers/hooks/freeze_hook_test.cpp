#include "trainers/hooks/freeze_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/support/thread_communicator.h"
#include "tests/trainers/frozen_runs.h"
#include "tests/trainers/small_training.h"
#include "trainers/optim/gradient_transform.h"

namespace terngrad::freeze_hook_test {
namespace {

using testing::bits_of;
using ::testing::Each;
using testing::expect_frozen_until;
using testing::freeze_some;
using ::testing::HasSubstr;
using testing::kNorm;
using testing::make_small_trainer;
using testing::message_of;
using testing::norm_of_trained;
using testing::record_frozen;
using testing::SmallRun;

TEST(FreezeHook, KeepsTensorsUntilTheStep) {
  for (const char* optimizer : {"momentum", "adam", "nadam", "rmsprop", "gd"}) {
    SmallRun run{.num_workers = 2, .codec = "ternary"};
    run.optimizer = optimizer;
    const auto trainer = make_small_trainer(run);
    expect_frozen_until(record_frozen(*trainer));
  }
}

TEST(FreezeHook, SlotsOfFrozenTensorsDoNotMove) {
  SmallRun run{.num_workers = 2, .codec = "ternary", .total_steps = 3};
  const auto trainer = make_small_trainer(run);
  trainer->add_hook(make_freeze_hook({"conv1/*"}, 0));
  trainer->run();
  const Segment& frozen = trainer->net().layout().segment(0);
  ASSERT_EQ(frozen.name, "conv1/weights");
  const std::span<const float> slot = trainer->slots()[0].values;
  EXPECT_THAT(slot.first(static_cast<std::size_t>(frozen.num_elements)), Each(0.0f));
  EXPECT_NE(std::ranges::count(slot, 0.0f), std::ssize(slot));
}

TEST(FreezeHook, HasTheSameBitsInPartsAndOnAnyNumberOfRanks) {
  SmallRun run{.num_workers = 4, .codec = "ternary"};
  const auto frozen_bits = [](const SmallRun& of_run) {
    const auto trainer = make_small_trainer(of_run);
    trainer->add_hook(freeze_some());
    trainer->run();
    return bits_of(trainer->parameters());
  };
  const std::vector<std::uint32_t> bits = frozen_bits(run);
  for (const bool overlap : {false, true}) {
    SmallRun parts = run;
    parts.bucket_bytes = 4000;
    parts.overlap = overlap;
    EXPECT_EQ(frozen_bits(parts), bits) << overlap;
    testing::run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
      SmallRun of_rank = parts;
      of_rank.communicator = communicator;
      EXPECT_EQ(frozen_bits(of_rank), bits) << overlap;
    });
  }
}

TEST(FreezeHook, ClippingTakesTheNormOfTheTrainedTensors) {
  SmallRun run{.total_steps = 1, .weight_decay = 0.1};
  run.transforms = [](const Net& net) {
    std::vector<std::unique_ptr<GradientTransform>> transforms;
    transforms.push_back(make_clip_by_global_norm(net.layout(), kNorm, 1));
    return transforms;
  };
  EXPECT_NEAR(norm_of_trained(*make_small_trainer(run)), kNorm, 1e-6 * kNorm);
}

TEST(FreezeHook, PatternsWithoutTensorsAndAllTensorsAreRefused) {
  const auto refusal = [](const std::vector<std::string>& patterns) {
    const auto trainer = make_small_trainer(SmallRun{});
    trainer->add_hook(make_freeze_hook(patterns, 0));
    return message_of<InvalidArgument>([&] { trainer->run(); });
  };
  EXPECT_THAT(refusal({"conv1/*", "dense*"}), HasSubstr("no tensor matches 'dense*'"));
  EXPECT_THAT(refusal({"*"}), HasSubstr("nothing is left to train"));
}

}  // namespace
}  // namespace terngrad::freeze_hook_test
