#include "trainers/options/transform_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/trainers/checked_options.h"

namespace terngrad::transform_choice_test {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> names_for(const std::vector<std::string>& arguments) {
  const auto net = make_net("lenet", {16, 16, 1}, 10, {});
  std::vector<std::string> names;
  for (const auto& transform : make_transforms(testing::accept(arguments), *net, 2, Device::cpu())) {
    names.push_back(transform->name());
  }
  return names;
}

TEST(TransformChoice, IsInTheOrderInWhichTheyAreApplied) {
  EXPECT_THAT(names_for({"--weight_decay", "0"}), ElementsAre());
  EXPECT_THAT(names_for({"--weight_decay", "0.1"}), ElementsAre("weight_decay"));
  EXPECT_THAT(names_for({"--clip_by_global_norm", "3", "--weight_decay", "0.1", "--nan_to_zero"}),
              ElementsAre("nan_to_zero", "weight_decay", "clip_by_global_norm"));
}

}  // namespace
}  // namespace terngrad::transform_choice_test
