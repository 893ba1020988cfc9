#include "trainers/options/gradient_handling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nets/net.h"
#include "tests/trainers/checked_options.h"
#include "trainers/optim/gradient_transform.h"

namespace terngrad::gradient_handling_test {
namespace {

using testing::accept;
using ::testing::ElementsAre;

TEST(GradientChoice, ComesFromOptionsThenFromThePreset) {
  const auto memory_of = [](const std::vector<std::string>& arguments) { return memory_spec(accept(arguments)); };
  EXPECT_EQ(memory_of({}), "none");
  EXPECT_EQ(memory_of({"--grad_bits", "1"}), "none");
  EXPECT_EQ(memory_of({"--codec", "terngrad_ef"}), "ef:decay=1");
  EXPECT_EQ(memory_of({"--codec", "terngrad_ef:clip_factor=1"}), "ef:decay=1");
  EXPECT_EQ(memory_of({"--codec", "terngrad_ef", "--error_feedback", "false"}), "none");
  EXPECT_EQ(memory_of({"--codec", "terngrad_ef", "--error_feedback_decay", "0.5"}), "ef:decay=0.5");
  EXPECT_EQ(memory_of({"--grad_bits", "1", "--error_feedback", "true"}), "ef:decay=1");
  EXPECT_EQ(memory_of({"--grad_bits", "16", "--codec_memory", "momentum"}), "momentum:decay=0.9");
  EXPECT_EQ(memory_of({"--num_nodes", "2", "--exchange", "vendor", "--codec", "fp16"}), "none");
  EXPECT_EQ(memory_of({"--codec", "onebit"}), "ef:decay=1");
  EXPECT_EQ(memory_of({"--codec", "onebit", "--error_feedback", "false"}), "none");
  EXPECT_EQ(memory_of({"--codec", "dgc", "--optimizer", "gd"}), "dgc:momentum=0.9,nesterov=false");
  EXPECT_EQ(memory_of({"--codec", "randomk"}), "ef:decay=1");
  EXPECT_EQ(memory_of({"--codec", "randomk:scale=q"}), "none");
  EXPECT_EQ(memory_of({"--grad_bits", "1", "--codec_for", "conv*=onebit", "--error_feedback", "true"}), "ef:decay=1");
}

std::vector<std::string> names_for(const std::vector<std::string>& arguments) {
  const auto net = make_net("lenet", {16, 16, 1}, 10, {});
  std::vector<std::string> names;
  for (const auto& transform : make_transforms(accept(arguments), *net, 2, Device::cpu())) {
    names.push_back(transform->name());
  }
  return names;
}

TEST(GradientChoice, TransformsAreInTheOrderInWhichTheyAreApplied) {
  EXPECT_THAT(names_for({"--weight_decay", "0"}), ElementsAre());
  EXPECT_THAT(names_for({"--weight_decay", "0.1"}), ElementsAre("weight_decay"));
  EXPECT_THAT(names_for({"--clip_by_global_norm", "3", "--weight_decay", "0.1", "--nan_to_zero"}),
              ElementsAre("nan_to_zero", "weight_decay", "clip_by_global_norm"));
}

}  // namespace
}  // namespace terngrad::gradient_handling_test
