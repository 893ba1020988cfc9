#include "trainers/options/memory_choice.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/trainers/checked_options.h"

namespace terngrad::memory_choice_test {
namespace {

using testing::accept;

TEST(MemoryChoice, ComesFromOptionsThenFromThePreset) {
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

}  // namespace
}  // namespace terngrad::memory_choice_test
