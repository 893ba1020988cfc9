// Statistics on a GPU against the CPU backend, bit for bit.
#include "kernels/statistics/statistics.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler.h"
#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/gradients.h"
#include "support/sanitized.h"

namespace terngrad::cuda_statistics_test {
namespace {

using testing::bits_of;
using testing::to_device;
using testing::to_host;
using CudaStatistics = testing::CudaTest;

void expect_equal(const Statistics& cpu, const Statistics& cuda, const std::string& what) {
  ASSERT_EQ(cuda.max_bits, cpu.max_bits) << what;
  ASSERT_EQ(cuda.reserved, 0u) << what;
  if (cpu.is_nonfinite()) return;  // sums are unspecified
  ASSERT_EQ(bits_of(cuda.sum), bits_of(cpu.sum)) << what;
  ASSERT_EQ(bits_of(cuda.sum_squares), bits_of(cpu.sum_squares)) << what;
}

void expect_same_measure(std::span<const float> values, std::size_t misalignment, const std::string& what) {
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  std::vector<float> moved(misalignment, 1e30f);
  moved.insert(moved.end(), values.begin(), values.end());
  const Buffer<float> on_device = to_device<float>(moved, cuda);
  for (const SummedAs summed : {SummedAs::kValues, SummedAs::kMagnitudes}) {
    expect_equal(measure(values, cpu, summed), measure(on_device.span().subspan(misalignment), cuda, summed), what);
  }
}

TEST_F(CudaStatistics, AreTheCpusAtRaggedLengths) {
  const std::vector<float> values = testing::gaussian(4 * kChunkElements + 100, 1);
  for (const std::int64_t n :
       {0, 1, 3, 4, 15, 16, 17, 511, 512, 513, 4095, 4096, 4097, 8191, 8192, 8193, 16384, 16484}) {
    expect_same_measure(std::span(values).first(static_cast<std::size_t>(n)), 0, "length " + std::to_string(n));
  }
}

TEST_F(CudaStatistics, AreTheCpusForSlicesOfManyChunks) {
  // A warp combines up to 32 chunks, a block more; from 257 on slots have several.
  const std::vector<float> values = testing::gaussian(static_cast<std::size_t>(520 * kChunkElements + 77), 2);
  for (const std::int64_t chunks : testing::few<std::int64_t>({33, 257, 31, 32, 255, 256, 520})) {
    for (const std::int64_t off : {-1, 0, 1}) {
      const std::int64_t n = chunks * kChunkElements + off;
      expect_same_measure(std::span(values).first(static_cast<std::size_t>(n)), 0, "length " + std::to_string(n));
    }
  }
}

TEST_F(CudaStatistics, DoNotDependOnTheAlignment) {
  const std::vector<float> values = testing::gaussian(9000, 3);
  for (std::size_t start = 0; start < 8; ++start) expect_same_measure(values, start, "start " + std::to_string(start));
}

TEST_F(CudaStatistics, TakeHostileValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float huge = std::numeric_limits<float>::max();
  for (const float special : {infinity, -infinity, nan, tiny, -tiny, huge, -huge, -0.0f}) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{4095}, std::size_t{4096}, std::size_t{4999}}) {
      std::vector<float> values = testing::gaussian(5000, 4);
      values[at] = special;
      expect_same_measure(values, 0, "value " + std::to_string(special) + " at " + std::to_string(at));
    }
    expect_same_measure(std::vector<float>(5000, special), 0, "all " + std::to_string(special));
  }
}

/// Gradients of three workers with small, empty, ragged and large tensors, and blocks of these.
struct Workers {
  Layout layout;
  std::vector<Slice> slices;
  std::vector<std::vector<float>> flat;

  Workers() {
    layout.add("a", {7});
    layout.add("b", {0});
    layout.add("c", {40 * kChunkElements + 5});
    layout.add("d", {3, 4097});
    layout.add("e", {33 * kChunkElements});
    slices = whole_segments(layout);
    for (std::int64_t first = 0; first < 12288; first += 64) slices.push_back({3, first, 64});
    for (std::uint64_t worker = 0; worker < 3; ++worker) {
      flat.push_back(testing::gaussian(static_cast<std::size_t>(layout.flat_elements()), 10 + worker));
    }
  }
};

TEST_F(CudaStatistics, MeasureAllSlicesOfAllWorkersAtOnce) {
  Workers workers;
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  std::vector<Buffer<float>> on_device;
  std::vector<TensorTable> host_tables;
  std::vector<TensorTable> device_tables;
  for (std::vector<float>& flat : workers.flat) {
    on_device.push_back(to_device<float>(flat, cuda));
    host_tables.emplace_back(workers.layout, flat.data());
    device_tables.emplace_back(workers.layout, on_device.back().data());
  }
  StatisticsPlan cpu_plan(workers.slices);
  StatisticsPlan cuda_plan(workers.slices, Device::cuda());
  const std::size_t n = 3 * workers.slices.size();
  for (const ScalerRule rule : {ScalerRule::kPaper, ScalerRule::kOriginal, ScalerRule::kMeanMagnitude,
                                ScalerRule::kRootMeanSquare, ScalerRule::kSquaresOverMagnitudes, ScalerRule::kOne}) {
    for (const double clip_factor : {0.0, 2.5}) {
      std::vector<float> expected(n);
      local_scalers(cpu_plan, host_tables, clip_factor, rule, expected, cpu);
      Buffer<float> found(static_cast<std::int64_t>(n), Device::cuda());
      local_scalers(cuda_plan, device_tables, clip_factor, rule, found.span(), cuda);
      const std::vector<float> scalers = to_host<float>(found.span(), cuda);
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(bits_of(scalers[i]), bits_of(expected[i])) << i;
    }
  }
  std::vector<Statistics> expected(workers.slices.size());
  Buffer<Statistics> found(static_cast<std::int64_t>(expected.size()), Device::cuda());
  for (std::size_t worker = 0; worker < 3; ++worker) {
    cpu_plan.run(host_tables[worker], expected, cpu);
    cuda_plan.run(device_tables[worker], found.span(), cuda);
    const std::vector<Statistics> statistics = to_host<Statistics>(found.span(), cuda);
    for (std::size_t i = 0; i < expected.size(); ++i) expect_equal(expected[i], statistics[i], std::to_string(i));
  }
}

TEST_F(CudaStatistics, GiveOneScalerForAWholeModel) {
  Workers workers;
  workers.flat[1][9] = std::numeric_limits<float>::quiet_NaN();  // not in tensor a, which has the 7 elements before
  workers.flat[2][static_cast<std::size_t>(workers.layout.segment(3).offset)] = std::numeric_limits<float>::infinity();
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  std::vector<Buffer<float>> on_device;
  std::vector<TensorTable> host_tables;
  std::vector<TensorTable> device_tables;
  for (std::vector<float>& flat : workers.flat) {
    on_device.push_back(to_device<float>(flat, cuda));
    host_tables.emplace_back(workers.layout, flat.data());
    device_tables.emplace_back(workers.layout, on_device.back().data());
  }
  StatisticsPlan cpu_plan(whole_segments(workers.layout));
  StatisticsPlan cuda_plan(whole_segments(workers.layout), Device::cuda());
  const std::size_t n = 3 * workers.layout.segments().size();
  std::vector<float> expected(n);
  model_scalers(cpu_plan, host_tables, 2.5, ScalerRule::kPaper, expected, cpu);
  Buffer<float> found(static_cast<std::int64_t>(n), Device::cuda());
  model_scalers(cuda_plan, device_tables, 2.5, ScalerRule::kPaper, found.span(), cuda);
  const std::vector<float> scalers = to_host<float>(found.span(), cuda);
  for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(bits_of(scalers[i]), bits_of(expected[i])) << i;
}

TEST_F(CudaStatistics, GiveScalersForHostileValues) {
  Layout layout;
  layout.add("x", {300});
  for (const float special : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3e38f,
                              0x1p127f, 1e-30f, std::numeric_limits<float>::denorm_min(), 0.0f, 1.0f}) {
    for (const bool all : {false, true}) {
      std::vector<float> values(300, all ? special : 0.0f);
      values[77] = special;
      Stream cpu(Device::cpu(), 1);
      Stream cuda(Device::cuda());
      Buffer<float> on_device = to_device<float>(values, cuda);
      StatisticsPlan cpu_plan(whole_segments(layout));
      StatisticsPlan cuda_plan(whole_segments(layout), Device::cuda());
      const TensorTable host_table(layout, values.data());
      const TensorTable device_table(layout, on_device.data());
      for (const double clip_factor : {0.0, 1.0, 2.5}) {
        float expected = 0;
        local_scalers(cpu_plan, {&host_table, 1}, clip_factor, ScalerRule::kPaper, {&expected, 1}, cpu);
        Buffer<float> found(1, Device::cuda());
        local_scalers(cuda_plan, {&device_table, 1}, clip_factor, ScalerRule::kPaper, found.span(), cuda);
        EXPECT_EQ(bits_of(to_host<float>(found.span(), cuda)[0]), bits_of(expected)) << special << ' ' << clip_factor;
      }
    }
  }
}

TEST_F(CudaStatistics, RefuseAnotherDevicesStream) {
  Layout layout;
  layout.add("x", {8});
  StatisticsPlan plan(whole_segments(layout), Device::cuda());
  Stream cpu(Device::cpu(), 1);
  Statistics result;
  EXPECT_THROW(plan.run(TensorTable(layout, nullptr), {&result, 1}, cpu), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_statistics_test
