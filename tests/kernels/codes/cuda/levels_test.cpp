// Uniform levels on a GPU against the CPU backend, byte for byte.
#include "kernels/codes/levels.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "kernels/statistics/scaler_limits.h"
#include "support/codes/cuda_quantize.h"
#include "support/codes/level_cases.h"

namespace terngrad::cuda_levels_test {
namespace {

using reference::Bytes;
using testing::kLevelForms;
using testing::LevelCase;
using CudaLevels = testing::CudaQuantizeTest<LevelOptions>;

TEST_F(CudaLevels, AreTheCpusAtRaggedLengths) {
  for (const LevelOptions& form : kLevelForms) {
    for (const std::size_t n : {0u,  1u,  3u,  4u,    5u,    7u,    8u,    9u,    15u,   16u,   17u,   31u,   33u,
                                63u, 64u, 65u, 2047u, 2048u, 2049u, 4090u, 4095u, 4096u, 4097u, 8191u, 12289u}) {
      expect_the_cpus({.gradient = testing::gaussian(n, 7), .options = form}, "ragged");
    }
  }
}

TEST_F(CudaLevels, PackLanesOfAnyWidth) {
  for (const int bits : {2, 4, 8}) {
    for (const int num_workers : {1, 2, 3, 8, 100, 2000}) {
      const LevelOptions options{
          .bits = bits, .lanes = true, .num_workers = num_workers, .rounding = Rounding::kNearest};
      expect_the_cpus({.gradient = testing::gaussian(20001, 8), .options = options}, std::to_string(num_workers));
    }
  }
}

TEST_F(CudaLevels, DoNotDependOnTheAlignment) {
  for (const LevelOptions& form : kLevelForms) {
    for (std::size_t start = 1; start < 8; ++start) {
      expect_the_cpus({.gradient = testing::gaussian(5001, 9), .options = form, .misalignment = start}, "moved");
    }
  }
}

TEST_F(CudaLevels, TakeElementsOfSixteenBits) {
  for (const ElementType type : {ElementType::kBfloat16, ElementType::kFloat16}) {
    for (const LevelOptions& form : kLevelForms) {
      LevelCase c{.gradient = testing::gaussian(5003, 10), .options = form, .misalignment = 3};
      c.round_gradient_to(type);
      expect_the_cpus(c, element_type_name(type));
    }
  }
}

TEST_F(CudaLevels, TakeTheScalerOfEachBlock) {
  const float choices[] = {3.0f, 1.0f, 0.5f, 0.0f, std::numeric_limits<float>::quiet_NaN(), 1e-30f};
  for (const LevelOptions& form : kLevelForms) {
    for (const std::int64_t block : {64, 192, 512, 4096, 4160, 32768}) {
      LevelCase c{.gradient = testing::gaussian(9003, 11),
                  .first = 5 * kChunkElements,
                  .block_elements = block,
                  .options = form};
      c.scalers.clear();
      for (std::int64_t i = 0; i < num_blocks(c.first, c.count(), block); ++i) c.scalers.push_back(choices[i % 6]);
      expect_the_cpus(c, "blocks of " + std::to_string(block));
    }
  }
}

TEST_F(CudaLevels, TakeManyTasksAtOnce) {
  for (const LevelOptions& form : kLevelForms) {
    std::vector<LevelCase> cases;
    for (const std::size_t n : {20u, 0u, 300u, 9000u, 4096u, 13000u}) {
      LevelCase c{.gradient = testing::gaussian(n, n), .options = form};
      c.worker = static_cast<std::uint32_t>(n % 450);
      c.first = n == 9000 ? 3 * kChunkElements : 0;
      c.draw_offset = static_cast<std::int64_t>(n) * 64;
      cases.push_back(c);
    }
    expect_the_cpus(cases, "many");
  }
}

TEST_F(CudaLevels, ResolveTiesLikeTheCpu) {
  // Values at and next to multiples of 1/65536 of a level often tie with draws.
  for (const float value : {0x1p-16f, 0x1.8p-16f, 1.5f, 0x1.80001p0f, 3.0f, 6.99999f, -0x1.4p-15f, -2.00001f}) {
    expect_the_cpus({.gradient = std::vector<float>(std::size_t{1} << 17, value), .scalers = {7.0f}},
                    "value " + std::to_string(value));
  }
}

TEST_F(CudaLevels, TakeHostileValues) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float huge = std::numeric_limits<float>::max();
  for (const LevelOptions& form : kLevelForms) {
    for (const float scaler :
         {0.0f, tiny, kMinScaler, 1e-20f, 0.3f, 1.0f, 1e20f, kMaxScaler, std::numeric_limits<float>::quiet_NaN()}) {
      LevelCase c{.scalers = {scaler}, .options = form};
      for (const float value : {0.0f, -0.0f, tiny, -tiny, kMinScaler, 1e-20f, 0.15f, 1.0f, -1.0f, 1e20f, huge, -huge}) {
        c.gradient.insert(c.gradient.end(), 100, value);
      }
      expect_the_cpus(c, "scaler " + std::to_string(scaler));
    }
  }
}

TEST_F(CudaLevels, DrawBeyondTheLowWordOfTheBlockIndex) {
  LevelCase c{.gradient = testing::gaussian(9000, 14)};
  c.draw_offset = (std::int64_t{1} << 35) - 64;
  expect_the_cpus(c, "draw offset");
}

TEST_F(CudaLevels, RunFromAGraphWithTheStepOnTheDevice) {
  for (const int bits : {2, 4, 8}) expect_steps_of_a_graph({.bits = bits});
}

TEST_F(CudaLevels, UnpackLikeTheCpu) {
  Stream stream(Device::cuda());
  for (const LevelOptions& form : kLevelForms) {
    if (form.lanes && form.num_workers > 200) continue;  // sums exceed 16 bits
    const LevelCase c{.gradient = testing::gaussian(9001, 16), .options = form};
    const testing::LaneForm lanes = testing::QuantizerTraits<LevelOptions>::lanes(form);
    const Bytes payload = testing::quantized(c);
    const Buffer<std::uint8_t> on_device = testing::to_device<std::uint8_t>(payload, stream);
    PackedCodes codes{c.format(), payload, c.count(), lanes.num_workers, lanes.levels};
    check_payload(codes);
    for (const std::int64_t first : {0, 1, 4095, 4100, 9000}) {
      std::vector<std::int16_t> expected(static_cast<std::size_t>(c.count() - first));
      codes.payload = payload;
      unpack_codes(codes, first, expected);
      Buffer<std::int16_t> found(static_cast<std::int64_t>(expected.size()), Device::cuda());
      codes.payload = on_device.span();
      unpack_codes(codes, first, found.span(), stream);
      ASSERT_EQ(testing::to_host<std::int16_t>(found.span(), stream), expected) << c.text() << " from " << first;
    }
  }
}

TEST_F(CudaLevels, RefuseAnotherDevicesStream) { expect_refusal_of_another_device(); }

}  // namespace
}  // namespace terngrad::cuda_levels_test
