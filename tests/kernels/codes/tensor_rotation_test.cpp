#include "kernels/codes/tensor_rotation.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "support/bits.h"
#include "support/codes/rotate_cases.h"
#include "support/gradients.h"

namespace terngrad::tensor_rotation_test {
namespace {

using testing::bits_of;
using testing::RotateCase;
using testing::Tensors;

constexpr std::int64_t kRun = 256;

Layout three_tensors() {
  Layout layout;
  layout.add("first", {700});
  layout.add("left alone", {64});
  layout.add("second", {5000});
  return layout;
}

RotateCase case_of(const Layout& layout, int segment, std::uint64_t step) {
  return {.run = kRun, .draw_offset = layout.segment(segment).draw_offset, .step = step, .tails = TailRotation::kTwice};
}

TEST(TensorRotation, RotatesItsTensorsOfEveryWorkerByTheStep) {
  const Layout layout = three_tensors();
  const std::vector<int> segments = {0, 2};
  std::vector<Tensors> workers;  // must not move: tables point into the tensors
  for (const std::uint64_t seed : {1u, 2u}) workers.push_back(testing::gaussian_tensors(layout, seed));
  const std::vector<TensorTable> gradients = {workers[0].table, workers[1].table};
  Stream stream(Device::cpu(), 2);
  TensorRotation rotation(kRun, layout, segments, 2, 5, Device::cpu(), TailRotation::kTwice);
  for (const std::uint64_t step : {9u, 10u}) {
    rotation.rotate(gradients, {step, nullptr}, stream);
    EXPECT_EQ(rotation.step().step, step);
    for (std::size_t worker = 0; worker < workers.size(); ++worker) {
      const TensorTable& rotated = rotation.rotated()[worker];
      EXPECT_EQ(rotated.data(1), nullptr);
      for (const int segment : segments) {
        const std::vector<float>& values = workers[worker].values[static_cast<std::size_t>(segment)];
        const float* found = rotated.tensor(segment);
        EXPECT_EQ(bits_of(std::vector<float>(found, found + values.size())),
                  bits_of(testing::reference_rotation(case_of(layout, segment, step), values, Rotation::kForward)));
      }
    }
  }
}

TEST(TensorRotation, TurnsBackSlicesOfItsTensorsAndNoOthers) {
  const Layout layout = three_tensors();
  const std::vector<int> segments = {0, 2};
  Tensors means = testing::gaussian_tensors(layout, 3);
  const std::vector<std::vector<float>> before = means.values;
  Stream stream(Device::cpu(), 1);
  TensorRotation rotation(kRun, layout, segments, 0, 5, Device::cpu(), TailRotation::kTwice);
  const std::vector<Slice> slices = {{0, 0, 700}, {1, 0, 64}, {2, 0, 4096}};
  rotation.turn_back(means.table, slices, {9, nullptr}, stream);
  EXPECT_EQ(bits_of(means.values[0]),
            bits_of(testing::reference_rotation(case_of(layout, 0, 9), before[0], Rotation::kBackward)));
  EXPECT_EQ(bits_of(means.values[1]), bits_of(before[1]));
  std::vector<float> expected = testing::reference_rotation(
      case_of(layout, 2, 9), {before[2].begin(), before[2].begin() + 4096}, Rotation::kBackward);
  expected.insert(expected.end(), before[2].begin() + 4096, before[2].end());
  EXPECT_EQ(bits_of(means.values[2]), bits_of(expected));
}

}  // namespace
}  // namespace terngrad::tensor_rotation_test
