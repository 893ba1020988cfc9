#include "kernels/tensor/layout.h"

#include <gtest/gtest.h>

#include <array>

#include "kernels/runtime/errors.h"

namespace terngrad::layout_test {
namespace {

Layout three_tensors() {
  Layout layout;
  layout.add("conv1/weights", {5, 5, 1, 32});
  layout.add("conv1/biases", {33});
  layout.add("logits/weights", {10, 7}, true);
  return layout;
}

TEST(Layout, PlacesTensorsAtCacheLines) {
  const Layout layout = three_tensors();
  EXPECT_EQ(layout.segment(0).offset, 0);
  EXPECT_EQ(layout.segment(1).offset, 800);
  EXPECT_EQ(layout.segment(2).offset, 848);  // 33 rounded up to 48
  EXPECT_EQ(layout.flat_elements(), 928);    // 70 rounded up to 80
}

TEST(Layout, PlacesDrawsAtMultiplesOf64) {
  Layout layout = three_tensors();
  layout.add("next", {1});
  EXPECT_EQ(layout.segment(0).draw_offset, 0);
  EXPECT_EQ(layout.segment(1).draw_offset, 832);  // 800 rounded up
  EXPECT_EQ(layout.segment(2).draw_offset, 896);
  EXPECT_EQ(layout.segment(3).draw_offset, 1024);
}

TEST(Layout, CountsElementsWithoutPadding) { EXPECT_EQ(three_tensors().num_elements(), 903); }

TEST(Layout, TakesScalarsAndEmptyTensors) {
  Layout layout;
  EXPECT_EQ(layout.add("scalar", {}), 0);
  EXPECT_EQ(layout.add("empty", {4, 0}), 1);
  EXPECT_EQ(layout.add("after", {2}), 2);
  EXPECT_EQ(layout.segment(0).num_elements, 1);
  EXPECT_EQ(layout.segment(1).num_elements, 0);
  EXPECT_EQ(layout.segment(2).offset, 16);
  EXPECT_EQ(layout.segment(2).draw_offset, 64);
}

TEST(Layout, SelectedTensorsStayWhereTheyAre) {
  const Layout layout = three_tensors();
  const std::array<int, 2> chosen = {2, 1};
  Layout selection = layout.select(chosen);
  ASSERT_EQ(selection.num_segments(), 2);
  EXPECT_EQ(selection.segment(0).name, "logits/weights");
  EXPECT_TRUE(selection.segment(0).is_logits);
  EXPECT_EQ(selection.segment(0).offset, 848);
  EXPECT_EQ(selection.segment(0).draw_offset, 896);
  EXPECT_EQ(selection.segment(1).offset, 800);
  EXPECT_EQ(selection.num_elements(), 103);
  EXPECT_EQ(selection.flat_elements(), layout.flat_elements());
  selection.add("next", {1});
  EXPECT_EQ(selection.segment(2).draw_offset, 1024) << "behind the draws of all";
}

TEST(Layout, SelectionsHaveFingerprintsOfTheirOwn) {
  const Layout layout = three_tensors();
  const std::array<int, 1> second = {1};
  const std::array<int, 1> last = {2};
  EXPECT_NE(layout.select(second).fingerprint(), layout.select(last).fingerprint());
  // The same tensor has other draws in another layout.
  Layout alone;
  alone.add("conv1/biases", {33});
  const std::array<int, 1> only = {0};
  EXPECT_NE(layout.select(second).fingerprint(), alone.select(only).fingerprint());
}

TEST(Layout, RefusesToSelectWhatThereIsNot) {
  const Layout layout = three_tensors();
  for (const std::array<int, 2>& wrong : {std::array{0, 3}, std::array{-1, 0}, std::array{1, 1}}) {
    EXPECT_THROW(layout.select(wrong), InvalidArgument);
  }
}

TEST(Layout, ReshapedTensorsStayWhereTheyAre) {
  const Layout layout = three_tensors();
  std::vector<std::vector<std::int64_t>> shapes;
  for (const Segment& segment : layout.segments()) shapes.push_back(segment.shape);
  shapes[1] = {2, 5};
  const Layout reshaped = layout.reshaped(shapes);
  EXPECT_EQ(reshaped.segment(1).num_elements, 10);
  EXPECT_EQ(reshaped.segment(1).name, "conv1/biases");
  EXPECT_EQ(reshaped.segment(2).offset, layout.segment(2).offset);
  EXPECT_EQ(reshaped.segment(2).draw_offset, layout.segment(2).draw_offset);
  EXPECT_EQ(reshaped.num_elements(), layout.num_elements() - 33 + 10);
  EXPECT_EQ(reshaped.flat_elements(), layout.flat_elements());
  EXPECT_NE(reshaped.fingerprint(), layout.fingerprint());
  shapes[1] = {0, 1000000000000000};
  EXPECT_EQ(layout.reshaped(shapes).segment(1).num_elements, 0);
  for (const std::vector<std::int64_t>& wrong :
       {std::vector<std::int64_t>{34}, {2, 17}, {-1}, {1 << 30, 1 << 30, 16}}) {
    shapes[1] = wrong;
    EXPECT_THROW(layout.reshaped(shapes), InvalidArgument);
  }
  shapes.pop_back();
  EXPECT_THROW(layout.reshaped(shapes), InvalidArgument);
}

TEST(Layout, FindsTensorsByName) {
  const Layout layout = three_tensors();
  EXPECT_EQ(layout.find("conv1/biases"), 1);
  EXPECT_EQ(layout.find("conv1"), -1);
}

TEST(Layout, RefusesARepeatedName) {
  Layout layout = three_tensors();
  EXPECT_THROW(layout.add("conv1/biases", {1}), InvalidArgument);
  EXPECT_EQ(layout.num_segments(), 3);
}

TEST(Layout, RefusesAnEmptyName) {
  Layout layout;
  EXPECT_THROW(layout.add("", {1}), InvalidArgument);
}

TEST(Layout, RefusesANegativeDimension) {
  Layout layout;
  EXPECT_THROW(layout.add("a", {2, -1}), InvalidArgument);
}

TEST(Layout, RefusesATensorWhoseSizeOverflows) {
  Layout layout;
  EXPECT_THROW(layout.add("a", {std::int64_t{1} << 40, std::int64_t{1} << 40}), InvalidArgument);
}

TEST(Layout, RefusesATensorAfterWhichTheTotalOverflows) {
  Layout layout;
  layout.add("a", {std::int64_t{1} << 49});
  layout.add("b", {std::int64_t{1} << 49});
  EXPECT_THROW(layout.add("c", {1}), InvalidArgument);  // exceeds the 2^50 draws
  EXPECT_EQ(layout.num_segments(), 2);
}

TEST(LayoutFingerprint, IsPinned) {
  // Stored in checkpoints and messages: a change makes old ones unreadable.
  Layout layout;
  EXPECT_EQ(layout.fingerprint(), 0xa8c7f832281a39c5ull);  // FNV-1a of eight zero bytes
}

TEST(LayoutFingerprint, DiffersInNameShapeRoleAndOrder) {
  const auto fingerprint = [](std::string name, std::vector<std::int64_t> shape, bool is_logits) {
    Layout layout;
    layout.add(std::move(name), std::move(shape), is_logits);
    return layout.fingerprint();
  };
  const std::uint64_t base = fingerprint("ab", {2, 3}, false);
  EXPECT_EQ(base, fingerprint("ab", {2, 3}, false));
  EXPECT_NE(base, fingerprint("ac", {2, 3}, false));
  EXPECT_NE(base, fingerprint("ab", {3, 2}, false));
  EXPECT_NE(base, fingerprint("ab", {6}, false));
  EXPECT_NE(base, fingerprint("ab", {2, 3}, true));
  Layout one;
  one.add("a", {1});
  one.add("b", {1});
  Layout other;
  other.add("b", {1});
  other.add("a", {1});
  EXPECT_NE(one.fingerprint(), other.fingerprint());
}

TEST(Fingerprint, IsFnv1aOfBytes) {
  // Published vectors of FNV-1a 64.
  EXPECT_EQ(Fingerprint().value(), 0xcbf29ce484222325ull);
  EXPECT_EQ(Fingerprint().add(std::string_view("a")).value(), 0xaf63dc4c8601ec8cull);
  EXPECT_EQ(Fingerprint().add(std::string_view("foobar")).value(), 0x85944171f73967e8ull);
}

}  // namespace
}  // namespace terngrad::layout_test
