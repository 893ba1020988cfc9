#include "kernels/tensor/slice.h"

#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"

namespace terngrad::slice_test {
namespace {

Layout layout_of(const std::vector<std::int64_t>& sizes) {
  Layout layout;
  for (std::size_t i = 0; i < sizes.size(); ++i) layout.add("t" + std::to_string(i), {sizes[i]});
  return layout;
}

TEST(WholeSegments, HoldsOneSlicePerTensorEmptyOnesToo) {
  EXPECT_EQ(whole_segments(layout_of({5, 0, 9000})), (std::vector<Slice>{{0, 0, 5}, {1, 0, 0}, {2, 0, 9000}}));
}

TEST(Shards, CoverEveryElementOnceInOrderAndCutAtChunks) {
  const std::vector<std::vector<std::int64_t>> layouts = {
      {0}, {1}, {4096}, {4097}, {10, 0, 20000, 1, 4096, 8191}, {100000, 3}, {}};
  for (const auto& sizes : layouts) {
    const Layout layout = layout_of(sizes);
    for (const int n : {1, 2, 3, 4, 5, 8, 16, 100}) {
      const auto lists = shards(layout, n);
      ASSERT_EQ(lists.size(), static_cast<std::size_t>(n));
      std::vector<std::int64_t> next(sizes.size(), 0);
      int last = 0;
      for (const auto& list : lists) {
        for (const Slice& slice : list) {
          ASSERT_GE(slice.segment, last);
          last = slice.segment;
          ASSERT_EQ(slice.first % kChunkElements, 0);
          ASSERT_GT(slice.count, 0);
          ASSERT_EQ(slice.first, next[static_cast<std::size_t>(slice.segment)]);
          next[static_cast<std::size_t>(slice.segment)] += slice.count;
        }
      }
      EXPECT_EQ(next, sizes) << n << " shards";
    }
  }
}

TEST(Shards, DifferByOneChunkAtMost) {
  const auto lists = shards(layout_of({kChunkElements * 10}), 3);
  std::vector<std::int64_t> sizes;
  for (const auto& list : lists) sizes.push_back(list[0].count / kChunkElements);
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{3, 3, 4}));
}

TEST(Shards, RefuseFewerThanOne) { EXPECT_THROW(shards(layout_of({5}), 0), InvalidArgument); }

TEST(TensorTable, FindsTensorsOfAFlatBuffer) {
  const Layout layout = layout_of({5, 20});
  std::vector<float> flat(static_cast<std::size_t>(layout.flat_elements()));
  const TensorTable table(layout, flat.data());
  EXPECT_EQ(table.tensor(1), flat.data() + 16);
  EXPECT_EQ(table.slice({1, 7, 2}), flat.data() + 23);
  EXPECT_EQ(table.num_segments(), 2);
}

TEST(TensorTable, TakesExternalTensors) {
  float a[3];
  float b[4];
  const std::vector<float*> pointers = {b, a};
  const TensorTable table(layout_of({4, 3}), pointers);
  EXPECT_EQ(table.tensor(0), b);
  EXPECT_EQ(table.tensor(1), a);
}

TEST(TensorTable, RefusesAnotherNumberOfTensors) {
  float a[3];
  const std::vector<float*> pointers = {a};
  EXPECT_THROW(TensorTable(layout_of({3, 3}), pointers), InvalidArgument);
}

TEST(TensorTable, CountsInElementsOfItsType) {
  const Layout layout = layout_of({10, 20});
  std::vector<std::uint16_t> flat(static_cast<std::size_t>(layout.flat_elements()));
  for (const ElementType type : {ElementType::kBfloat16, ElementType::kFloat16}) {
    const TensorTable table(layout, type, flat.data());
    EXPECT_EQ(table.type(), type);
    EXPECT_EQ(table.data(1), flat.data() + 16);
    EXPECT_EQ(table.data({1, 7, 2}), flat.data() + 23);
    EXPECT_THROW(table.tensor(1), InvalidArgument);
    EXPECT_THROW(table.slice({1, 7, 2}), InvalidArgument);
  }
  std::vector<float> values(40);
  const TensorTable table(layout, values.data());
  EXPECT_EQ(table.type(), ElementType::kFloat32);
  EXPECT_EQ(table.data(1), table.tensor(1));
  EXPECT_EQ(table.data({1, 7, 2}), table.slice({1, 7, 2}));
}

TEST(TensorTable, TakesPointersOfAnyTypeAlignedToIt) {
  const Layout layout = layout_of({3, 3});
  alignas(4) std::uint8_t memory[32] = {};
  const std::vector<void*> even = {memory + 2, memory + 16};
  const TensorTable table(layout, ElementType::kFloat16, even);
  EXPECT_EQ(table.data(0), memory + 2);
  EXPECT_EQ(table.data({1, 2, 1}), memory + 20);
  EXPECT_THROW(TensorTable(layout, ElementType::kFloat32, even), InvalidArgument);
  const std::vector<void*> odd = {memory, memory + 15};
  EXPECT_THROW(TensorTable(layout, ElementType::kBfloat16, odd), InvalidArgument);
  const std::vector<void*> one = {memory};
  EXPECT_THROW(TensorTable(layout, ElementType::kBfloat16, one), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::slice_test
