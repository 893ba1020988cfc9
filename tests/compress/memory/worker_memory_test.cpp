#include "compress/memory/worker_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "compress/plan/codec_plan.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"
#include "support/bits.h"
#include "support/gradients.h"

namespace terngrad::worker_memory_test {
namespace {

using testing::bits_of;

/// "exact" is sent as fp32.
const std::vector<int> kAll = {0, 1};

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
  Stream stream;
  const auto encoded = memory.compensate(layout, kAll, std::vector{gradient.table, gradient.table}, {}, stream);
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
    const auto encoded = memory.compensate(layout, kAll, {&gradient.table, 1}, {}, stream);
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
  const auto encoded = memory.compensate(layout, kAll, {&narrow, 1}, {}, stream);
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

TwoTensors sparse_and_exact() {
  auto [layout, plan] = two_tensors();
  CodecPlanOptions options;
  options.codec = "topk:density=0.1";
  options.rules = {{"exact", "fp32"}};
  return {layout, CodecPlan(layout, options)};
}

TEST(WorkerMemory, HasAVelocityOfEveryTensorWithDgc) {
  const auto [layout, plan] = sparse_and_exact();
  WorkerMemory memory(layout, plan, parse_memory("dgc"), 1);
  EXPECT_TRUE(memory.covers(0) && memory.covers(1));
  ASSERT_EQ(memory.layout().num_segments(), 3);
  EXPECT_EQ(memory.layout().segment(0).name, "coarse");
  EXPECT_EQ(memory.layout().segment(2).name, "exact/velocity");
  EXPECT_EQ(memory.states()[0].tensor(1), nullptr) << "nothing of it is left out";
  Stream stream;
  const testing::Tensors gradient = testing::gaussian_tensors(layout, 1);
  const auto kept = memory.kept(layout, kAll, memory.compensate(layout, kAll, {&gradient.table, 1}, {}, stream));
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].what.kind, MemoryUpdateKind::kUnsent);
  EXPECT_EQ(kept[1].what.kind, MemoryUpdateKind::kMasked);
  EXPECT_EQ(kept[1].into[0].tensor(0), memory.state(0).data() + memory.layout().segment(1).offset);
}

TEST(WorkerMemory, AddsTheVelocityAndTheResidualToTheGradientWithDgc) {
  const auto [layout, plan] = sparse_and_exact();
  Stream stream;
  const testing::Tensors gradient = testing::gaussian_tensors(layout, 1);
  for (const bool nesterov : {false, true}) {
    WorkerMemory memory(layout, plan, {MemoryKind::kDgc, 0.75, nesterov}, 1);
    const std::vector<float> state = testing::gaussian(memory.state(0).size(), 2);
    std::ranges::copy(state, memory.state(0).begin());
    const auto encoded = memory.compensate(layout, kAll, {&gradient.table, 1}, {}, stream);
    const std::vector<MemoryTables> kept = memory.kept(layout, kAll, encoded);
    for (int t = 0; t < 2; ++t) {
      const float* g = gradient.table.tensor(t);
      const float* const residual = t == 0 ? state.data() + memory.layout().segment(0).offset : nullptr;
      const float* const velocity = state.data() + memory.layout().segment(1 + t).offset;
      for (std::int64_t i = 0; i < layout.segment(t).num_elements; ++i) {
        const float decayed = 0.75f * velocity[i];
        const float next = decayed + g[i];
        const float ahead = 0.75f * next;
        const float added = nesterov ? ahead + g[i] : next;
        ASSERT_EQ(encoded[0].tensor(t)[i], residual == nullptr ? added : residual[i] + added) << t << ' ' << i;
        ASSERT_EQ(kept[1].from[0].tensor(t)[i], next);
        ASSERT_EQ(kept[1].into[0].tensor(t)[i], velocity[i]) << "until the step is settled";
      }
    }
  }
}

TEST(WorkerMemory, TakesSparseCodecsOnlyWithDgcAndNoneThatScalesUp) {
  Layout layout;
  layout.add("w", {100, 50});
  const auto refuses = [&](const char* codec, const char* memory) {
    CodecPlanOptions options;
    options.codec = codec;
    const CodecPlan plan(layout, options);
    try {
      WorkerMemory(layout, plan, parse_memory(memory), 1);
    } catch (const InvalidArgument&) {
      return true;
    }
    return false;
  };
  EXPECT_TRUE(refuses("ternary", "dgc"));
  EXPECT_TRUE(refuses("fp32", "dgc")) << "nothing is left out";
  EXPECT_TRUE(refuses("randomk:scale=q", "dgc"));
  EXPECT_TRUE(refuses("randomk:scale=q", "ef"));
  EXPECT_FALSE(refuses("randomk:scale=q", "momentum"));
  EXPECT_FALSE(refuses("randomk", "dgc"));
  EXPECT_FALSE(refuses("topk", "dgc"));
  EXPECT_TRUE(refuses("sign:reduce=vote", "loco"));
  EXPECT_TRUE(refuses("randomk:scale=q", "loco"));
  EXPECT_TRUE(refuses("powersgd", "loco"));
  EXPECT_FALSE(refuses("powersgd", "ef"));
  EXPECT_FALSE(refuses("topk", "loco"));
  EXPECT_TRUE(refuses("ternary", "ef21"));
  EXPECT_FALSE(refuses("topk", "ef21"));
}

TEST(WorkerMemory, OfEf21HasVelocitiesWhereItHasEstimates) {
  Layout layout;
  layout.add("w", {5000});
  layout.add("b", {9});
  CodecPlanOptions options;
  options.codec = "topk";
  options.rules = {{"b", "fp32"}};
  const CodecPlan plan(layout, options);
  WorkerMemory memory(layout, plan, parse_memory("ef21:decay=0.9"), 2);
  ASSERT_EQ(memory.layout().num_segments(), 2);
  EXPECT_EQ(memory.layout().segment(0).name, "w");
  EXPECT_EQ(memory.layout().segment(1).name, "w/velocity");
  EXPECT_TRUE(memory.covers(0));
  EXPECT_FALSE(memory.covers(1));
  EXPECT_EQ(WorkerMemory(layout, plan, parse_memory("ef21"), 2).layout().num_segments(), 1);
}

TEST(WorkerMemory, OfLocoIsInWordsOfBlocks) {
  Layout layout;
  layout.add("w", {5000});
  layout.add("b", {9});
  CodecPlanOptions options;
  options.codec = "ternary";
  options.rules = {{"b", "fp32"}};
  WorkerMemory memory(layout, CodecPlan(layout, options), parse_memory("loco"), 2);
  ASSERT_EQ(memory.layout().num_segments(), 1);
  EXPECT_EQ(memory.layout().segment(0).name, "w");
  EXPECT_EQ(memory.layout().segment(0).shape, (std::vector<std::int64_t>{79, 17}));
  EXPECT_TRUE(memory.has_state(0));
  EXPECT_FALSE(memory.has_state(1));
  memory.state(1)[16] = 0.5f;  // the scale of the first block
  const std::int8_t codes[] = {127, -3};
  std::memcpy(memory.state(1).data(), codes, sizeof(codes));
  std::vector<float> found(5000);
  Stream stream;
  memory.read_state(1, 0, found, stream);
  EXPECT_EQ(found[0], 63.5f);
  EXPECT_EQ(found[1], -1.5f);
  EXPECT_EQ(found[2], 0);
}

TEST(DefaultMemory, IsThatOfThePresetOrTheCodecWhereThereIsSomethingToKeep) {
  Layout layout;
  layout.add("weights", {100, 50});
  const auto memory_of = [&](const std::string& codec, std::int64_t size_to_binarize) {
    CodecPlanOptions options;
    options.codec = codec;
    options.size_to_binarize = size_to_binarize;
    return default_memory(codec, CodecPlan(layout, options), 1);
  };
  EXPECT_EQ(memory_of("ternary", 1), "none");
  EXPECT_EQ(memory_of("topk", 1), "ef");
  EXPECT_EQ(memory_of("signum", 1), "momentum");
  // Tensors below a codec's minimum size are sent as fp32.
  for (const char* codec : {"topk", "powersgd", "signum", "terngrad_ef"})
    EXPECT_EQ(memory_of(codec, 6000), "none") << codec;
}

TEST(WorkerMemory, RefusesToKeepNothing) {
  const auto [layout, plan] = two_tensors();
  EXPECT_THROW(WorkerMemory(layout, plan, {}, 1), InvalidArgument);
  WorkerMemory memory(layout, plan, parse_memory("ef"), 2);
  Stream stream;
  EXPECT_THROW(memory.compensate(layout, kAll, {}, {}, stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::worker_memory_test
