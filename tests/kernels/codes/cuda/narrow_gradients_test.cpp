// 16-bit gradients on a GPU: statistics, codes and scalers equal those of the CPU on the elements widened to float32.
#include <gtest/gtest.h>

#include <limits>

#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/scaler_limits.h"
#include "support/narrow_gradients.h"

namespace terngrad::cuda_narrow_gradients_test {
namespace {

using testing::kNarrowTypes;
using testing::NarrowGradient;
using testing::TernarizeCase;
using testing::to_host;
using CudaNarrowGradients = testing::CudaTest;

constexpr TernaryFormat kFormats[] = {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask,
                                      TernaryFormat::kLanes};

std::vector<Slice> whole(const NarrowGradient& gradient) {
  return {{0, 0, static_cast<std::int64_t>(gradient.elements.size())}};
}

TEST_F(CudaNarrowGradients, HaveStatisticsOfTheWidenedAtRaggedLengths) {
  Stream stream(Device::cuda());
  for (const ElementType type : kNarrowTypes) {
    const NarrowGradient gradient = testing::narrow_gaussian(type, 4 * kChunkElements + 100, 1);
    for (const std::size_t n :
         {0u, 1u, 3u, 4u, 8u, 15u, 16u, 17u, 511u, 512u, 513u, 4095u, 4096u, 4097u, 8192u, 16484u}) {
      const NarrowGradient part = gradient.first(n);
      testing::expect_statistics_of_widened(part, 0, whole(part), stream, "length " + std::to_string(n));
    }
  }
}

TEST_F(CudaNarrowGradients, HaveStatisticsThatDoNotDependOnTheAlignment) {
  Stream stream(Device::cuda());
  for (const ElementType type : kNarrowTypes) {
    const NarrowGradient gradient = testing::narrow_gaussian(type, 45001, 2);
    // Slices with arbitrary starts, and one with more chunks than a warp combines.
    const std::vector<Slice> slices = {{0, 0, 9000}, {0, 8, 8192}, {0, 1, 9000}, {0, 7, 0}, {0, 44999, 2}};
    for (std::size_t start = 0; start < 9; ++start) {
      testing::expect_statistics_of_widened(gradient, start, slices, stream, "start " + std::to_string(start));
    }
    const NarrowGradient many = testing::narrow_gaussian(type, static_cast<std::size_t>(40 * kChunkElements + 5), 3);
    testing::expect_statistics_of_widened(many, 0, whole(many), stream, "many chunks");
  }
}

TEST_F(CudaNarrowGradients, HaveStatisticsForEveryValue) {
  Stream stream(Device::cuda());
  for (const ElementType type : kNarrowTypes) {
    const NarrowGradient finite = testing::every_finite_value(type);
    for (const std::size_t start : {0u, 1u}) {
      testing::expect_statistics_of_widened(finite, start, whole(finite), stream, "finite values");
    }
    // Each NaN and infinity alone, among zeros.
    const std::uint32_t infinity = type == ElementType::kBfloat16 ? 0x7f80u : 0x7c00u;
    std::vector<std::uint16_t> elements;
    std::vector<Slice> slices;
    for (std::uint32_t magnitude = infinity; magnitude < 0x8000u; magnitude += 7) {
      slices.push_back({0, static_cast<std::int64_t>(elements.size()), 2});
      elements.push_back(0);
      elements.push_back(static_cast<std::uint16_t>(magnitude | (magnitude % 2 == 0 ? 0x8000u : 0u)));
    }
    testing::expect_statistics_of_widened({type, elements}, 0, slices, stream, "not finite");
  }
}

TEST_F(CudaNarrowGradients, HaveScalersOfTheWidenedForSeveralWorkers) {
  Layout layout;
  layout.add("a", {7});
  layout.add("b", {9001});
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  for (const ElementType type : kNarrowTypes) {
    std::vector<NarrowGradient> gradients;
    std::vector<Buffer<std::uint16_t>> on_device;
    std::vector<TensorTable> narrow;
    std::vector<TensorTable> wide;
    for (std::uint64_t worker = 0; worker < 3; ++worker) {
      gradients.push_back(
          testing::narrow_gaussian(type, static_cast<std::size_t>(layout.flat_elements()), 20 + worker));
      on_device.push_back(testing::to_device<std::uint16_t>(gradients.back().elements, cuda));
      narrow.emplace_back(layout, type, on_device.back().data());
    }
    for (NarrowGradient& gradient : gradients) wide.emplace_back(layout, gradient.widened.data());
    StatisticsPlan cpu_plan(whole_segments(layout));
    StatisticsPlan cuda_plan(whole_segments(layout), Device::cuda());
    std::vector<float> expected(6);
    local_scalers(cpu_plan, wide, 2.5, ScalerRule::kPaper, expected, cpu);
    Buffer<float> found(6, Device::cuda());
    local_scalers(cuda_plan, narrow, 2.5, ScalerRule::kPaper, found.span(), cuda);
    EXPECT_EQ(testing::bits_of(to_host<float>(found.span(), cuda)), testing::bits_of(expected));
    narrow[1] = wide[1];
    EXPECT_THROW(local_scalers(cuda_plan, narrow, 2.5, ScalerRule::kPaper, found.span(), cuda), InvalidArgument);
  }
}

TEST_F(CudaNarrowGradients, HaveCodesOfTheWidenedAtRaggedLengths) {
  Stream stream(Device::cuda());
  for (const ElementType type : kNarrowTypes) {
    const NarrowGradient gradient = testing::narrow_gaussian(type, 20495, 5);
    for (const TernaryFormat format : kFormats) {
      TernarizeCase c;
      c.options = {.format = format, .num_workers = 8};
      for (const std::size_t n : {0u, 1u, 7u, 8u, 9u, 16u, 17u, 65u, 2047u, 2048u, 2049u, 4096u, 4097u, 20495u}) {
        testing::expect_codes_of_widened(gradient.first(n), 0, c, stream, "length " + std::to_string(n));
      }
    }
  }
}

TEST_F(CudaNarrowGradients, HaveCodesThatDoNotDependOnTheAlignment) {
  Stream stream(Device::cuda());
  for (const ElementType type : kNarrowTypes) {
    const NarrowGradient gradient = testing::narrow_gaussian(type, 9001, 6);
    for (const TernaryFormat format : kFormats) {
      TernarizeCase c;
      c.options = {.format = format, .num_workers = 3};
      for (std::size_t start = 1; start < 9; ++start) {
        testing::expect_codes_of_widened(gradient, start, c, stream, "start " + std::to_string(start));
      }
    }
  }
}

TEST_F(CudaNarrowGradients, TakeScalersAndClipsOfBlocks) {
  Stream stream(Device::cuda());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ElementType type : kNarrowTypes) {
    const NarrowGradient gradient = testing::narrow_gaussian(type, 13003, 7);
    for (const std::int64_t block : {64, 192, 4160, 8192}) {
      TernarizeCase c;
      c.first = 5 * kChunkElements;
      c.block_elements = block;
      c.scalers.clear();
      for (std::int64_t i = 0; i < num_blocks(c.first, 13003, block); ++i) {
        const float choices[] = {3.0f, 1.0f, 0.0f, 0.5f, nan};
        c.scalers.push_back(choices[i % 5]);
        c.clips.push_back(i % 3 == 0 ? 0.7f : 2.0f);
      }
      for (const TernaryFormat format : kFormats) {
        c.options = {.format = format, .num_workers = 2};
        testing::expect_codes_of_widened(gradient, 0, c, stream, "blocks of " + std::to_string(block));
      }
    }
  }
}

TEST_F(CudaNarrowGradients, HaveCodesForEveryFiniteValue) {
  Stream stream(Device::cuda());
  for (const ElementType type : kNarrowTypes) {
    const NarrowGradient gradient = testing::every_finite_value(type);
    for (const float scaler : {kMinScaler, 0x1p-24f, 0x1p-14f, 1.0f, 65504.0f, kMaxScaler}) {
      TernarizeCase c;
      c.scalers = {scaler};
      testing::expect_codes_of_widened(gradient, 0, c, stream, "scaler " + std::to_string(scaler));
    }
  }
}

TEST_F(CudaNarrowGradients, AreEncodedInBlocks) {
  Stream stream(Device::cuda());
  for (const ElementType type : kNarrowTypes) {
    const NarrowGradient gradient = testing::narrow_gaussian(type, 40001, 8);
    for (const std::size_t n : {0u, 1u, 17u, 4096u, 4097u, 40001u}) {
      for (const std::int64_t block : {4096, 12288, 32768}) {
        testing::expect_blocks_of_widened(gradient.first(n), 0, block, 2.5, stream, "length " + std::to_string(n));
      }
    }
    testing::expect_blocks_of_widened(gradient, 3, 8192, 0, stream, "misaligned");
    std::vector<std::uint16_t> elements = gradient.elements;
    elements[5000] = type == ElementType::kBfloat16 ? 0x7f81 : 0x7c01;  // a signalling NaN
    testing::expect_blocks_of_widened({type, elements}, 0, 4096, 2.5, stream, "not finite");
  }
}

}  // namespace
}  // namespace terngrad::cuda_narrow_gradients_test
