#include "compress/memory/factor_rounds.h"

#include <gtest/gtest.h>

#include <vector>

#include "compress/codec/memory_update.h"
#include "kernels/runtime/errors.h"
#include "support/codes/low_rank_tensors.h"

namespace terngrad::factor_rounds_test {
namespace {

using testing::blank_tensors;
using testing::low_rank_layout;
using testing::Tensors;

constexpr int kWorkers = 2;

struct Fixture {
  Layout layout = low_rank_layout();
  CodecPlan plan{layout, with_workers(testing::low_rank_options("powersgd:rank=2").codecs, kWorkers)};
  SharedState state{layout, plan, MemoryKind::kNone};
  FactorRounds rounds{layout, plan, kWorkers, kWorkers, state};
  std::vector<Tensors> gradients = testing::worker_gradients(layout, kWorkers, 3);
  Stream stream{Device::cpu(), 1};
};

TEST(FactorRounds, TablesHaveFactorsInPlaceOfTensorsOfLowRank) {
  Fixture f;
  EXPECT_EQ(f.rounds.rounds().segments, (std::vector<int>{0, 2, 5}));
  const std::vector<TensorTable> own = testing::tables(f.gradients, 0, kWorkers);
  const std::vector<TensorTable> first = f.rounds.begin(own, 7, {1, nullptr}, f.stream);
  ASSERT_EQ(first.size(), own.size());
  for (int segment = 0; segment < f.layout.num_segments(); ++segment) {
    EXPECT_EQ(first[1].tensor(segment) == own[1].tensor(segment), !f.rounds.has(segment)) << segment;
  }
  const std::vector<TensorTable> again = f.rounds.first_tables(own);
  for (int segment = 0; segment < f.layout.num_segments(); ++segment) {
    EXPECT_EQ(again[0].tensor(segment), first[0].tensor(segment)) << segment;
  }
}

TEST(FactorRounds, KeepTheMeanOfTheSecondFactorForTheNextStep) {
  Fixture f;
  const std::vector<TensorTable> own = testing::tables(f.gradients, 0, kWorkers);
  f.rounds.begin(own, 7, {1, nullptr}, f.stream);
  f.rounds.turn(own, f.stream);
  const TensorTable mean = f.rounds.second_mean();
  for (int j = 0; j < 3; ++j) {
    for (std::int64_t i = 0; i < f.rounds.rounds().second.segment(j).num_elements; ++i) {
      mean.tensor(j)[i] = static_cast<float>(j) + 1;
    }
  }
  const std::uint32_t skip = 1;
  f.rounds.commit(&skip, f.stream);
  EXPECT_EQ(*f.state.find("wide"), 0);
  f.rounds.commit(nullptr, f.stream);
  EXPECT_EQ(*f.state.find("conv"), 1);
  EXPECT_EQ(*f.state.find("wide"), 2);
  EXPECT_EQ(*f.state.find("square"), 3);
}

TEST(FactorRounds, RefuseMasking) {
  Fixture f;
  for (const MemoryUpdateKind kind : {MemoryUpdateKind::kMasked, MemoryUpdateKind::kAveraged}) {
    EXPECT_THROW(f.rounds.update_memory({kind}, {}, {}, nullptr, f.stream), InvalidArgument);
  }
}

}  // namespace
}  // namespace terngrad::factor_rounds_test
