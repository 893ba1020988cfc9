#include "compress/memory/saved_states.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "compress/memory/shared_state.h"
#include "compress/memory/worker_memory.h"
#include "compress/plan/codec_plan.h"

namespace terngrad::saved_states_test {
namespace {

Layout layout() {
  Layout layout;
  layout.add("matrix", {60, 40});
  layout.add("bias", {40});
  return layout;
}

CodecPlan plan_of(const char* codec, const char* bias) {
  CodecPlanOptions options;
  options.codec = codec;
  options.rules = {{"bias", bias}};
  return {layout(), options};
}

TEST(SavedStates, AreThoseOfTheTensorsThatHaveOne) {
  const CodecPlan plan = plan_of("ternary", "fp32");
  WorkerMemory memory(layout(), plan, parse_memory("ef"), 2);
  const std::vector<SavedState> states = saved_states(&memory, nullptr, 3);
  ASSERT_EQ(states.size(), 2u);
  for (int w = 0; w < 2; ++w) {
    const SavedState& state = states[static_cast<std::size_t>(w)];
    EXPECT_EQ(state.name, "matrix");
    EXPECT_EQ(state.worker, 3 + w);
    EXPECT_EQ(state.shape, (std::vector<std::int64_t>{60, 40}));
    EXPECT_EQ(state.values.data(), memory.states()[static_cast<std::size_t>(w)].tensor(0));
    EXPECT_EQ(state.values.size(), 2400u);
  }
}

TEST(SavedStates, HaveVelocitiesBehindResiduals) {
  const CodecPlan plan = plan_of("topk", "fp32");
  WorkerMemory memory(layout(), plan, parse_memory("dgc"), 1);
  const std::vector<SavedState> states = saved_states(&memory, nullptr, 0);
  ASSERT_EQ(states.size(), 3u);
  EXPECT_EQ(states[0].name, "matrix");
  EXPECT_EQ(states[1].name, "matrix/velocity");
  EXPECT_EQ(states[2].name, "bias/velocity");
  EXPECT_EQ(states[2].values.size(), 40u);
}

TEST(SavedStates, HaveFactorsOfNoWorker) {
  const CodecPlan plan = plan_of("powersgd:rank=2", "fp32");
  SharedState factors(layout(), plan, MemoryKind::kNone);
  const std::vector<SavedState> states = saved_states(nullptr, &factors, 0);
  ASSERT_EQ(states.size(), 1u);
  EXPECT_EQ(states[0].name, "matrix");
  EXPECT_EQ(states[0].worker, SavedState::kAllRanks);
  EXPECT_EQ(states[0].shape, (std::vector<std::int64_t>{2, 40}));
  EXPECT_EQ(states[0].values.data(), factors.find("matrix"));
}

}  // namespace
}  // namespace terngrad::saved_states_test
