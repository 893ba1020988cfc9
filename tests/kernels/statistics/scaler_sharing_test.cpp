// Sharing of scalers on a GPU against the CPU backend, bit for bit.
#include "kernels/statistics/scaler_sharing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/cuda_device.h"

namespace terngrad::scaler_sharing_test {
namespace {

using testing::bits_of;
using testing::to_device;
using testing::to_host;
using CudaScalerSharing = testing::CudaTest;

struct Shared {
  std::vector<float> own, shared, scales, drawn_with;
  NonfiniteReport report;
};

struct Input {
  std::vector<ScalerPlace> places;
  std::vector<float> local;
  int num_workers = 1;
  int first_local_worker = 0;
  int num_local_workers = 1;
};

Shared combined(const Input& input, const Device& device) {
  Stream stream(device, 1);
  const auto num_scalers = static_cast<std::int64_t>(input.places.size());
  const Buffer<ScalerPlace> places = to_device<ScalerPlace>(input.places, stream);
  const Buffer<float> local = to_device<float>(input.local, stream);
  Buffer<float> own(input.num_workers * num_scalers, device);
  Buffer<float> shared(num_scalers, device);
  Buffer<float> scales(num_scalers, device);
  Buffer<float> drawn_with(input.num_local_workers * num_scalers, device);
  Buffer<NonfiniteReport> report(1, device);
  fill_zero(report.span(), stream);
  combine_scalers({.places = places.data(),
                   .num_scalers = num_scalers,
                   .num_workers = input.num_workers,
                   .max_sum = input.num_workers,
                   .first_local_worker = input.first_local_worker,
                   .num_local_workers = input.num_local_workers,
                   .local = local.data(),
                   .own = own.data(),
                   .shared = shared.data(),
                   .scales = scales.data(),
                   .drawn_with = drawn_with.data(),
                   .report = report.data()},
                  stream);
  return {to_host<float>(own.span(), stream), to_host<float>(shared.span(), stream),
          to_host<float>(scales.span(), stream), to_host<float>(drawn_with.span(), stream),
          to_host<NonfiniteReport>(report.span(), stream)[0]};
}

void expect_equal(std::span<const float> a, std::span<const float> b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(bits_of(a[i]), bits_of(b[i])) << i;
}

TEST_F(CudaScalerSharing, IsTheCpusForAnyWorkersAndCombinations) {
  std::mt19937_64 random(1);
  for (const int num_workers : {1, 2, 3, 8, 17}) {
    for (const std::size_t num_scalers : {1u, 7u, 128u, 300u}) {
      for (const unsigned nans : {0u, 30u}) {  // percent
        Input input;
        input.num_workers = num_workers;
        input.first_local_worker = num_workers / 3;
        input.num_local_workers = (num_workers + 1) / 2;
        for (std::uint32_t s = 0; s < num_scalers; ++s) {
          input.places.push_back({static_cast<ScalerCombination>(random() % 3), s / 2, s % 2 == 0 ? 1u : 0u});
        }
        for (std::size_t i = 0; i < num_scalers * static_cast<std::size_t>(num_workers); ++i) {
          const bool nan = random() % 100 < nans;
          input.local.push_back(nan ? std::numeric_limits<float>::quiet_NaN()
                                    : static_cast<float>(random() % 1000) * 1e-3f);
        }
        const Shared cpu = combined(input, Device::cpu());
        const Shared cuda = combined(input, Device::cuda());
        expect_equal(cuda.own, cpu.own);
        expect_equal(cuda.shared, cpu.shared);
        expect_equal(cuda.scales, cpu.scales);
        expect_equal(cuda.drawn_with, cpu.drawn_with);
        EXPECT_EQ(cuda.report.count, cpu.report.count);
        EXPECT_EQ(cuda.report.first(), cpu.report.first());
        const bool all_finite =
            std::none_of(input.local.begin(), input.local.end(), [](float s) { return std::isnan(s); });
        EXPECT_EQ(cpu.report.inverted_first == 0, all_finite);
      }
    }
  }
}

TEST(ScalerSharing, CombinesAsDefined) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Input input;
  input.places = {{ScalerCombination::kMax, 0, 1}, {ScalerCombination::kMean, 1, 1}, {ScalerCombination::kOwn, 2, 1}};
  input.num_workers = 2;
  input.num_local_workers = 2;
  input.local = {1.0f, 3.0f, 5.0f, 2.0f, nan, 7.0f};
  const Shared found = combined(input, Device::cpu());
  EXPECT_EQ(found.shared, (std::vector<float>{2.0f, 1.5f, 7.0f}));
  EXPECT_EQ(found.scales, (std::vector<float>{1.0f, 0.75f, 3.5f}));
  EXPECT_EQ(found.own, (std::vector<float>{1.0f, 3.0f, 5.0f, 2.0f, 0.0f, 7.0f}));
  EXPECT_EQ(found.drawn_with, (std::vector<float>{2.0f, 1.5f, 5.0f, 2.0f, 0.0f, 7.0f}));
  EXPECT_EQ(found.report.count, 1u);
  EXPECT_EQ(found.report.first(), 1u * 2 + 1);  // segment 1 of worker 1
}

TEST(ScalerSharing, RefusesWorkersThatAreNotThere) {
  Stream stream(Device::cpu(), 1);
  EXPECT_THROW(combine_scalers({.num_workers = 2, .first_local_worker = 1, .num_local_workers = 2}, stream),
               InvalidArgument);
}

std::vector<float> flagged(std::vector<float> scalers, const Device& device) {
  Stream stream(device, 1);
  Buffer<float> on_device = to_device<float>(scalers, stream);
  const Buffer<std::int64_t> first = to_device<std::int64_t>(std::vector<std::int64_t>{0, 2, 2, 5}, stream);
  flag_whole_segments(on_device.data(), 2, first.data(), 3, 5, stream);
  return to_host<float>(on_device.span(), stream);
}

TEST_F(CudaScalerSharing, FlagsWholeSegmentsLikeTheCpu) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> scalers = {1, nan, 3, 4, 5, 6, 7, 8, 9, nan};
  const std::vector<float> cpu = flagged(scalers, Device::cpu());
  expect_equal(flagged(scalers, Device::cuda()), cpu);
  const std::vector<bool> expected = {true, true, false, false, false, false, false, true, true, true};
  for (std::size_t i = 0; i < cpu.size(); ++i) EXPECT_EQ(std::isnan(cpu[i]), expected[i]) << i;
}

}  // namespace
}  // namespace terngrad::scaler_sharing_test
