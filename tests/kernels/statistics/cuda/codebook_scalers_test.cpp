// Codebook scalers on a GPU against the CPU backend, bit for bit.
#include "kernels/statistics/codebook_scalers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/gradients.h"

namespace terngrad::cuda_codebook_scalers_test {
namespace {

using testing::bits_of;
using testing::to_device;
using testing::to_host;
using CudaCodebookScalers = testing::CudaTest;

TEST_F(CudaCodebookScalers, AreTheCpusForEveryRunOfEveryWorker) {
  Layout layout;
  layout.add("a", {7});
  layout.add("empty", {0});
  layout.add("b", {3 * kChunkElements + 5});
  layout.add("c", {3, 4097});
  std::vector<Slice> runs = {{0, 0, 7}, {1, 0, 0}};
  for (std::int64_t first = 0; first < 3 * kChunkElements + 5; first += kChunkElements) {
    runs.push_back({2, first, std::min(kChunkElements, 3 * kChunkElements + 5 - first)});
  }
  for (std::int64_t first = 0; first < 12291; first += 64) {
    runs.push_back({3, first, std::min<std::int64_t>(64, 12291 - first)});
  }
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
    if (worker == 1) values[200] = 3e38f;
    if (worker == 2) std::fill_n(values, 64, -0.0f);
    if (worker == 2) values[64] = std::numeric_limits<float>::denorm_min();
    on_device.push_back(to_device<float>(flat.back(), cuda));
  }
  for (std::size_t worker = 0; worker < 3; ++worker) {
    host_tables.emplace_back(layout, flat[worker].data());
    device_tables.emplace_back(layout, on_device[worker].data());
  }
  const std::size_t n = host_tables.size() * runs.size();
  for (const CodebookScale scale : {CodebookScale::kUnbiased, CodebookScale::kLeast}) {
    for (const int levels : {2, 3, 4, 8, 16}) {
      std::vector<float> units(n), scalers(n);
      CodebookScalerPlan(runs, codebook(levels), scale).run(host_tables, units, scalers, cpu);
      Buffer<float> found_units(static_cast<std::int64_t>(n), Device::cuda());
      Buffer<float> found_scalers(static_cast<std::int64_t>(n), Device::cuda());
      CodebookScalerPlan plan(runs, codebook(levels), scale, Device::cuda());
      plan.run(device_tables, found_units.span(), found_scalers.span(), cuda);
      EXPECT_EQ(bits_of(to_host<float>(found_units.span(), cuda)), bits_of(units)) << levels;
      EXPECT_EQ(bits_of(to_host<float>(found_scalers.span(), cuda)), bits_of(scalers)) << levels;
    }
  }
}

TEST_F(CudaCodebookScalers, RefuseAnotherDevicesStream) {
  CodebookScalerPlan plan({}, codebook(4), CodebookScale::kLeast, Device::cuda());
  Stream cpu(Device::cpu(), 1);
  EXPECT_THROW(plan.run({}, {}, {}, cpu), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_codebook_scalers_test
