#include "trainers/optim/trained_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"

namespace terngrad::trained_tensors_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Layout layout() {
  Layout layout;
  for (const char* name : {"a", "b", "c", "d"}) layout.add(name, {20});  // 32 elements with padding
  return layout;
}

TEST(TrainedTensors, AreAllWithoutFlags) {
  for (const std::vector<bool>& frozen : {std::vector<bool>{}, std::vector<bool>(4, false)}) {
    const TrainedTensors trained(layout(), frozen);
    EXPECT_FALSE(trained.has_frozen());
    EXPECT_FALSE(trained.is_frozen(2));
    EXPECT_THAT(trained.ranges(), ElementsAre(FlatRange{0, layout().flat_elements()}));
    EXPECT_THAT(trained.frozen_ranges(), IsEmpty());
    EXPECT_THAT(trained.of({{3, 2}, {0, 1}}), ElementsAre(ElementsAre(3, 2), ElementsAre(0, 1)));
  }
}

TEST(TrainedTensors, LeaveOutTheFrozenOnes) {
  const TrainedTensors trained(layout(), {false, true, true, false});
  EXPECT_TRUE(trained.has_frozen());
  EXPECT_TRUE(trained.is_frozen(1));
  EXPECT_FALSE(trained.is_frozen(3));
  EXPECT_THAT(trained.ranges(), ElementsAre(FlatRange{0, 32}, FlatRange{96, 32}));
  EXPECT_THAT(trained.frozen_ranges(), ElementsAre(FlatRange{32, 64}));
  EXPECT_EQ(trained.whole(), (FlatRange{0, 128}));
  EXPECT_THAT(trained.of({{3, 2}, {1}, {0}}), ElementsAre(ElementsAre(3), ElementsAre(0)));
}

TEST(TrainedTensors, AreAtLeastOne) {
  EXPECT_THROW(TrainedTensors(layout(), std::vector<bool>(4, true)), InvalidArgument);
  EXPECT_THROW(TrainedTensors(layout(), {true}), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::trained_tensors_test
