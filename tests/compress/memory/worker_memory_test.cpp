#include "compress/memory/worker_memory.h"

#include <gtest/gtest.h>

#include <vector>

#include "compress/plan/codec_plan.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"
#include "support/bits.h"
#include "support/gradients.h"

namespace terngrad::worker_memory_test {
namespace {

using testing::bits_of;

/// "exact" travels as fp32.
struct TwoTensors {
  Layout layout;
  CodecPlan plan;
};

TwoTensors two_tensors() {
  Layout layout;
  layout.add("coarse", {5000});
  layout.add("exact", {9});
  CodecPlanOptions options;
  options.rules = {{"exact", "fp32"}};
  return {layout, CodecPlan(layout, options)};
}

TEST(WorkerMemory, CoversTensorsWhoseCodecLosesSomething) {
  const auto [layout, plan] = two_tensors();
  WorkerMemory memory(layout, plan, parse_memory("ef"), 2);
  EXPECT_TRUE(memory.covers(0));
  EXPECT_FALSE(memory.covers(1));
  EXPECT_EQ(memory.layout().num_segments(), 1);
  EXPECT_EQ(memory.num_local_workers(), 2);
  const testing::Tensors gradient = testing::gaussian_tensors(layout, 1);
  const auto encoded = memory.begin(std::vector{gradient.table, gradient.table});
  EXPECT_EQ(encoded[0].tensor(1), gradient.table.tensor(1)) << "encoded where it is";
  EXPECT_NE(encoded[0].tensor(0), gradient.table.tensor(0));
}

TEST(WorkerMemory, AddsTheStateToTheGradient) {
  const auto [layout, plan] = two_tensors();
  Stream stream;
  const testing::Tensors gradient = testing::gaussian_tensors(layout, 1);
  const std::vector<float> state = testing::gaussian(5000, 2);
  const float* g = gradient.table.tensor(0);
  for (const char* spec : {"ef", "ef:decay=0.75", "momentum:decay=0.75"}) {
    WorkerMemory memory(layout, plan, parse_memory(spec), 1);
    std::ranges::copy(state, memory.state(0).begin());
    const auto encoded = memory.begin({&gradient.table, 1});
    memory.compensate(std::vector{0, 1}, stream);
    const auto decay = static_cast<float>(memory.options().decay);
    for (std::size_t i = 0; i < 5000; ++i) {
      const float kept = decay * state[i];
      const float added = memory.options().kind == MemoryKind::kMomentum ? 0.25f * g[i] : g[i];
      ASSERT_EQ(encoded[0].tensor(0)[i], kept + added) << spec << ' ' << i;
    }
    EXPECT_EQ(memory.state(0)[17], state[17]) << "kept until the step is settled";
  }
}

TEST(WorkerMemory, WidensNarrowGradientsWithTheirStateAndWithout) {
  const auto [layout, plan] = two_tensors();
  Stream stream;
  const testing::Tensors wide = testing::gaussian_tensors(layout, 1);
  std::vector<std::uint16_t> coarse(5000);
  std::vector<std::uint16_t> exact(9);
  encode_bfloat16({wide.table.tensor(0), 5000}, coarse, stream);
  encode_bfloat16({wide.table.tensor(1), 9}, exact, stream);
  const std::vector<void*> tensors = {coarse.data(), exact.data()};
  const TensorTable narrow(layout, ElementType::kBfloat16, tensors);
  WorkerMemory memory(layout, plan, parse_memory("ef"), 1);
  const auto encoded = memory.begin({&narrow, 1});
  memory.compensate(std::vector{0, 1}, stream);
  for (int segment = 0; segment < 2; ++segment) {
    std::vector<float> widened(static_cast<std::size_t>(layout.segment(segment).num_elements));
    decode_bfloat16({static_cast<const std::uint16_t*>(narrow.data(segment)), widened.size()}, widened, stream);
    EXPECT_EQ(bits_of(std::vector(encoded[0].tensor(segment), encoded[0].tensor(segment) + widened.size())),
              bits_of(widened))
        << "a state of zeros adds nothing to tensor " << segment;
  }
}

TEST(WorkerMemory, KeepsNoErrorOfVotes) {
  Layout layout;
  layout.add("w", {100});
  CodecPlanOptions options;
  options.codec = "sign:reduce=vote";
  const CodecPlan plan(layout, options);
  EXPECT_THROW(WorkerMemory(layout, plan, parse_memory("ef"), 1), InvalidArgument);
  EXPECT_TRUE(WorkerMemory(layout, plan, parse_memory("momentum"), 1).covers(0));
}

TEST(WorkerMemory, RefusesToKeepNothing) {
  const auto [layout, plan] = two_tensors();
  EXPECT_THROW(WorkerMemory(layout, plan, {}, 1), InvalidArgument);
  WorkerMemory memory(layout, plan, parse_memory("ef"), 2);
  EXPECT_THROW(memory.begin({}), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::worker_memory_test
