// Signed statistics on a GPU against the CPU backend, bit for bit.
#include "kernels/statistics/signed_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"
#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/signed_sums.h"

namespace terngrad::cuda_signed_statistics_test {
namespace {

using testing::bits_of;
using testing::SidesOfRuns;
using testing::to_device;
using testing::to_host;
using CudaSignedStatistics = testing::CudaTest;

TEST_F(CudaSignedStatistics, AreTheCpusForEveryRunAndWorker) {
  const SidesOfRuns sides(5);
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  SignedStatisticsPlan cpu_plan(sides.runs);
  SignedStatisticsPlan cuda_plan(sides.runs, Device::cuda());
  std::vector<std::vector<float>> flat;
  std::vector<Buffer<float>> on_device;
  std::vector<TensorTable> host_tables;
  std::vector<TensorTable> device_tables;
  for (std::uint64_t worker = 0; worker < 3; ++worker) flat.push_back(SidesOfRuns(5 + worker).flat);
  flat[2][3] = std::numeric_limits<float>::quiet_NaN();
  for (std::vector<float>& of_worker : flat) {
    on_device.push_back(to_device<float>(of_worker, cuda));
    host_tables.emplace_back(sides.layout, of_worker.data());
    device_tables.emplace_back(sides.layout, on_device.back().data());
  }
  const auto n = static_cast<std::size_t>(cpu_plan.num_groups());
  Buffer<SignedStatistics> found(cpu_plan.num_groups(), Device::cuda());
  for (std::size_t worker = 0; worker < 2; ++worker) {
    std::vector<SignedStatistics> expected(n);
    cpu_plan.run(host_tables[worker], expected, cpu);
    cuda_plan.run(device_tables[worker], found.span(), cuda);
    const std::vector<SignedStatistics> statistics = to_host<SignedStatistics>(found.span(), cuda);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(statistics[i], expected[i]) << i;
  }
  std::vector<float> expected(3 * 2 * n);
  Buffer<float> scalers(static_cast<std::int64_t>(expected.size()), Device::cuda());
  cpu_plan.side_means(host_tables, expected, cpu);
  cuda_plan.side_means(device_tables, scalers.span(), cuda);
  EXPECT_EQ(bits_of(to_host<float>(scalers.span(), cuda)), bits_of(expected));
}

TEST_F(CudaSignedStatistics, WidenElementsOfSixteenBitsAtAnyAlignment) {
  Layout layout;
  layout.add("matrix", {100, 30});
  layout.add("w", {9000});
  const SignedRun runs[] = {{{0, 0, 3000}, 30}, {{1, 0, 9000}, 0}};
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  for (std::size_t start = 0; start < 3; ++start) {
    std::vector<std::uint16_t> narrow(start);
    for (const float value : testing::gaussian(static_cast<std::size_t>(layout.flat_elements()), 8)) {
      narrow.push_back(to_bfloat16(value));
    }
    Buffer<std::uint16_t> on_device = to_device<std::uint16_t>(narrow, cuda);
    std::vector<SignedStatistics> expected(31);
    SignedStatisticsPlan({std::begin(runs), std::end(runs)})
        .run(TensorTable(layout, ElementType::kBfloat16, narrow.data() + start), expected, cpu);
    Buffer<SignedStatistics> found(31, Device::cuda());
    SignedStatisticsPlan plan({std::begin(runs), std::end(runs)}, Device::cuda());
    plan.run(TensorTable(layout, ElementType::kBfloat16, on_device.data() + start), found.span(), cuda);
    EXPECT_EQ(to_host<SignedStatistics>(found.span(), cuda), expected) << start;
  }
}

TEST_F(CudaSignedStatistics, RefuseAnotherDevicesStream) {
  Stream cpu(Device::cpu(), 1);
  SignedStatisticsPlan plan({}, Device::cuda());
  EXPECT_THROW(plan.run({}, {}, cpu), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_signed_statistics_test
