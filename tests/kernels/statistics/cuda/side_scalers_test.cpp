// Scalers of two sides on a GPU against the CPU backend, bit for bit.
#include "kernels/statistics/side_scalers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/gradients.h"
#include "support/narrow_gradients.h"

namespace terngrad::cuda_side_scalers_test {
namespace {

using testing::bits_of;
using testing::to_device;
using testing::to_host;
using CudaSideScalers = testing::CudaTest;

TEST_F(CudaSideScalers, AreTheCpusForEverySliceOfEveryWorker) {
  Layout layout;
  layout.add("a", {7});
  layout.add("empty", {0});
  layout.add("c", {40 * kChunkElements + 5});
  layout.add("d", {3, 4097});
  std::vector<Slice> slices = whole_segments(layout);
  for (std::int64_t first = 0; first < 12288; first += 64) slices.push_back({3, first, 64});
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  std::vector<std::vector<float>> flat;
  std::vector<Buffer<float>> on_device;
  std::vector<TensorTable> host_tables;
  std::vector<TensorTable> device_tables;
  for (std::uint64_t worker = 0; worker < 3; ++worker) {
    flat.push_back(testing::gaussian(static_cast<std::size_t>(layout.flat_elements()), 10 + worker));
    float* values = flat.back().data() + layout.segment(3).offset;
    if (worker == 1) values[100] = -std::numeric_limits<float>::infinity();
    if (worker == 1) values[200] = std::numeric_limits<float>::quiet_NaN();
    if (worker == 2) std::fill_n(values, 64, -0.0f);
    if (worker == 2) values[64] = std::numeric_limits<float>::denorm_min();
    on_device.push_back(to_device<float>(flat.back(), cuda));
  }
  for (std::size_t worker = 0; worker < 3; ++worker) {
    host_tables.emplace_back(layout, flat[worker].data());
    device_tables.emplace_back(layout, on_device[worker].data());
  }
  SideScalerPlan cpu_plan(slices);
  SideScalerPlan cuda_plan(slices, Device::cuda());
  const std::size_t n = 2 * host_tables.size() * slices.size();
  for (const ScalerRule rule : {ScalerRule::kPaper, ScalerRule::kOriginal}) {
    for (const double clip_factor : {0.0, 1.5}) {
      std::vector<float> expected(n);
      cpu_plan.run(host_tables, clip_factor, rule, expected, cpu);
      Buffer<float> found(static_cast<std::int64_t>(n), Device::cuda());
      cuda_plan.run(device_tables, clip_factor, rule, found.span(), cuda);
      const std::vector<float> scalers = to_host<float>(found.span(), cuda);
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_EQ(bits_of(scalers[i]), bits_of(expected[i])) << i << ", clip factor " << clip_factor;
      }
    }
  }
}

TEST_F(CudaSideScalers, OfNarrowElementsAreTheCpusOfTheWidened) {
  Layout layout;
  layout.add("a", {9001});
  SideScalerPlan cpu_plan(whole_segments(layout));
  SideScalerPlan cuda_plan(whole_segments(layout), Device::cuda());
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  for (const ElementType type : testing::kNarrowTypes) {
    testing::NarrowGradient gradient =
        testing::narrow_gaussian(type, static_cast<std::size_t>(layout.flat_elements()), 5);
    Buffer<std::uint16_t> on_device = to_device<std::uint16_t>(gradient.elements, cuda);
    const TensorTable narrow(layout, type, on_device.data());
    const TensorTable wide(layout, gradient.widened.data());
    std::vector<float> expected(2);
    cpu_plan.run({&wide, 1}, 2.5, ScalerRule::kPaper, expected, cpu);
    Buffer<float> found(2, Device::cuda());
    cuda_plan.run({&narrow, 1}, 2.5, ScalerRule::kPaper, found.span(), cuda);
    EXPECT_EQ(bits_of(to_host<float>(found.span(), cuda)), bits_of(expected));
  }
}

TEST_F(CudaSideScalers, RefuseAnotherDevicesStream) {
  Layout layout;
  layout.add("a", {10});
  std::vector<float> flat(static_cast<std::size_t>(layout.flat_elements()));
  const TensorTable table(layout, flat.data());
  SideScalerPlan plan(whole_segments(layout), Device::cuda());
  Stream cpu(Device::cpu(), 1);
  std::vector<float> out(2);
  EXPECT_THROW(plan.run({&table, 1}, 0, ScalerRule::kPaper, out, cpu), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_side_scalers_test
