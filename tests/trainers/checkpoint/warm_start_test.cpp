#include "trainers/checkpoint/warm_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::warm_start_test {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryDirectory;

Layout layout_of(std::int64_t num_classes) {
  Layout layout;
  layout.add("body/weights", {2, 3});
  layout.add("logits/weights", {3, num_classes}, /*is_logits=*/true);
  layout.add("auxiliary_logits/weights", {3, num_classes});
  return layout;
}

/// Checkpoint of a net with 4 classes and the parameters 1, 2, 3, ...
Checkpoint counting_checkpoint() {
  const TemporaryDirectory folder;
  const Layout layout = layout_of(4);
  std::vector<float> values(static_cast<std::size_t>(layout.flat_elements()));
  std::iota(values.begin(), values.end(), 1.0f);
  CheckpointView view;
  view.state.net = "small";
  view.layout = &layout;
  view.groups = {{.name = "parameters", .values = values}};
  return load_checkpoint(save_checkpoint(folder.path(), view));
}

TEST(WarmStart, TakesEveryTensor) {
  const Layout layout = layout_of(4);
  std::vector<float> values(static_cast<std::size_t>(layout.flat_elements()), -1.0f);
  warm_start(counting_checkpoint(), layout, WarmStart::kAll, values);
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[5], 6.0f);
  EXPECT_EQ(values[6], -1.0f);  // padding
  const auto logits = static_cast<std::size_t>(layout.segment(1).offset);
  EXPECT_EQ(values[logits], static_cast<float>(logits) + 1);
}

TEST(WarmStart, LeavesLogitsAsTheyAreAlsoWithOtherClasses) {
  for (const std::int64_t num_classes : {4, 7}) {
    const Layout layout = layout_of(num_classes);
    std::vector<float> values(static_cast<std::size_t>(layout.flat_elements()), -1.0f);
    warm_start(counting_checkpoint(), layout, WarmStart::kNoLogits, values);
    EXPECT_EQ(values[5], 6.0f);
    const auto logits = static_cast<std::size_t>(layout.segment(1).offset);
    EXPECT_THAT(std::vector<float>(values.begin() + static_cast<std::ptrdiff_t>(logits), values.end()),
                ::testing::Each(-1.0f));
  }
}

TEST(WarmStart, OtherShapesAreRefusedByName) {
  const Layout layout = layout_of(7);
  std::vector<float> values(static_cast<std::size_t>(layout.flat_elements()));
  EXPECT_THAT(message_of<DataError>([&] { warm_start(counting_checkpoint(), layout, WarmStart::kAll, values); }),
              HasSubstr("logits/weights"));
  Layout other;
  other.add("head/weights", {2, 3});
  std::vector<float> few(static_cast<std::size_t>(other.flat_elements()));
  EXPECT_THAT(message_of<DataError>([&] { warm_start(counting_checkpoint(), other, WarmStart::kNoLogits, few); }),
              HasSubstr("head/weights"));
}

TEST(WarmStart, TensorsOfALargerNetAreNotDropped) {
  Layout smaller;
  smaller.add("logits/weights", {3, 4}, /*is_logits=*/true);
  std::vector<float> values(static_cast<std::size_t>(smaller.flat_elements()));
  EXPECT_THAT(message_of<DataError>([&] { warm_start(counting_checkpoint(), smaller, WarmStart::kNoLogits, values); }),
              HasSubstr("found tensor 'parameters/body/weights'"));
}

TEST(WarmStart, BufferOfAnotherLengthIsRefused) {
  std::vector<float> values(3);
  EXPECT_THROW(warm_start(counting_checkpoint(), layout_of(4), WarmStart::kAll, values), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::warm_start_test
