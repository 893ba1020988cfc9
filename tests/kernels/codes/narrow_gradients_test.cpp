// 16-bit gradients: statistics, codes and scalers equal those of the elements widened to float32.
#include <gtest/gtest.h>

#include <limits>

#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/scaler_limits.h"
#include "support/narrow_gradients.h"
#include "support/simd_targets.h"

namespace terngrad::narrow_gradients_test {
namespace {

using testing::bits_of;
using testing::kNarrowTypes;
using testing::NarrowGradient;
using testing::TernarizeCase;

constexpr TernaryFormat kFormats[] = {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask,
                                      TernaryFormat::kTrans, TernaryFormat::kLanes};
constexpr std::size_t kLengths[] = {0, 1, 7, 8, 15, 16, 17, 31, 32, 511, 513, 4095, 4096, 4097, 12289};

std::vector<Slice> whole(const NarrowGradient& gradient) {
  return {{0, 0, static_cast<std::int64_t>(gradient.elements.size())}};
}

TEST(NarrowStatistics, AreThoseOfTheWidenedAtRaggedLengths) {
  for (const ElementType type : kNarrowTypes) {
    const NarrowGradient gradient = testing::narrow_gaussian(type, 12289, 1);
    testing::for_each_target([&](const std::string& target) {
      Stream stream(Device::cpu(), 1);
      for (const std::size_t n : kLengths) {
        const NarrowGradient part = gradient.first(n);
        testing::expect_statistics_of_widened(part, 0, whole(part), stream, target + ", length " + std::to_string(n));
      }
    });
  }
}

TEST(NarrowStatistics, DoNotDependOnAlignmentOrThreads) {
  for (const ElementType type : kNarrowTypes) {
    const NarrowGradient gradient = testing::narrow_gaussian(type, 40001, 2);
    // Slices, and so their chunks, with arbitrary starts.
    const std::vector<Slice> slices = {{0, 0, 40001}, {0, 1, 40000}, {0, 4097, 30000}, {0, 7, 0}, {0, 40000, 1}};
    for (std::size_t start = 0; start < 8; ++start) {
      Stream stream(Device::cpu(), static_cast<int>(1 + start % 4));
      testing::expect_statistics_of_widened(gradient, start, slices, stream, "start " + std::to_string(start));
    }
  }
}

TEST(NarrowStatistics, TakeEveryFiniteValue) {
  for (const ElementType type : kNarrowTypes) {
    const NarrowGradient gradient = testing::every_finite_value(type);
    testing::for_each_target([&](const std::string& target) {
      Stream stream(Device::cpu(), 1);
      testing::expect_statistics_of_widened(gradient, 1, whole(gradient), stream, target);
    });
  }
}

TEST(NarrowStatistics, FlagEveryNanAndInfinity) {
  for (const ElementType type : kNarrowTypes) {
    const std::uint32_t infinity = type == ElementType::kBfloat16 ? 0x7f80u : 0x7c00u;
    NarrowGradient gradient = testing::narrow_gaussian(type, 5000, 3);
    Stream stream(Device::cpu(), 1);
    for (std::uint32_t magnitude = infinity; magnitude < 0x8000u; magnitude += 13) {
      for (const std::uint32_t sign : {0u, 0x8000u}) {
        std::vector<std::uint16_t> elements = gradient.elements;
        elements[4321] = static_cast<std::uint16_t>(magnitude | sign);
        const NarrowGradient spoilt(type, std::move(elements));
        ASSERT_FALSE(std::isfinite(spoilt.widened[4321]));
        testing::expect_statistics_of_widened(spoilt, 0, whole(spoilt), stream, std::to_string(magnitude));
      }
    }
  }
}

TEST(NarrowScalers, AreThoseOfTheWidened) {
  Layout layout;
  layout.add("a", {9001});
  for (const ElementType type : kNarrowTypes) {
    NarrowGradient gradient = testing::narrow_gaussian(type, 9001, 4);
    const TensorTable narrow(layout, type, gradient.elements.data());
    const TensorTable wide(layout, gradient.widened.data());
    StatisticsPlan plan(whole_segments(layout));
    Stream stream(Device::cpu(), 2);
    float found = 0;
    float expected = 0;
    local_scalers(plan, {&narrow, 1}, 2.5, ScalerRule::kPaper, {&found, 1}, stream);
    local_scalers(plan, {&wide, 1}, 2.5, ScalerRule::kPaper, {&expected, 1}, stream);
    EXPECT_EQ(bits_of(found), bits_of(expected));
    const TensorTable mixed[] = {narrow, wide};
    std::vector<float> out(2);
    EXPECT_THROW(local_scalers(plan, mixed, 0, ScalerRule::kPaper, out, stream), InvalidArgument);
  }
}

TEST(NarrowTernarize, GivesTheCodesOfTheWidenedAtRaggedLengths) {
  for (const ElementType type : kNarrowTypes) {
    const NarrowGradient gradient = testing::narrow_gaussian(type, 12289, 5);
    testing::for_each_target([&](const std::string& target) {
      Stream stream(Device::cpu(), 2);
      for (const TernaryFormat format : kFormats) {
        TernarizeCase c;
        c.options = {.format = format, .num_workers = 8};
        for (const std::size_t n : kLengths) {
          testing::expect_codes_of_widened(gradient.first(n), 0, c, stream, target + ", length " + std::to_string(n));
        }
      }
    });
  }
}

TEST(NarrowTernarize, DoesNotDependOnTheAlignment) {
  for (const ElementType type : kNarrowTypes) {
    const NarrowGradient gradient = testing::narrow_gaussian(type, 30001, 6);
    Stream stream(Device::cpu(), 3);
    for (const TernaryFormat format : kFormats) {
      TernarizeCase c;
      c.options = {.format = format, .num_workers = 3};
      for (std::size_t start = 1; start < 8; ++start) {
        testing::expect_codes_of_widened(gradient, start, c, stream, "start " + std::to_string(start));
      }
    }
  }
}

TEST(NarrowTernarize, TakesScalersAndClipsOfBlocks) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ElementType type : kNarrowTypes) {
    const NarrowGradient gradient = testing::narrow_gaussian(type, 25003, 7);
    for (const std::int64_t block : {64, 192, 4160, 8192}) {
      TernarizeCase c;
      c.first = 5 * kChunkElements;
      c.block_elements = block;
      c.scalers.clear();
      for (std::int64_t i = 0; i < num_blocks(c.first, 25003, block); ++i) {
        const float choices[] = {3.0f, 1.0f, 0.0f, 0.5f, nan};
        c.scalers.push_back(choices[i % 5]);
        c.clips.push_back(i % 3 == 0 ? 0.7f : 2.0f);
      }
      for (const TernaryFormat format : kFormats) {
        c.options = {.format = format, .num_workers = 2};
        Stream stream(Device::cpu(), 2);
        testing::expect_codes_of_widened(gradient, 3, c, stream, "blocks of " + std::to_string(block));
      }
    }
  }
}

TEST(NarrowTernarize, TakesEveryFiniteValue) {
  for (const ElementType type : kNarrowTypes) {
    const NarrowGradient gradient = testing::every_finite_value(type);
    testing::for_each_target([&](const std::string& target) {
      Stream stream(Device::cpu(), 1);
      // Includes scalers at which subnormals of float16 matter, and at which those of bfloat16 would.
      for (const float scaler : {kMinScaler, 0x1p-24f, 0x1p-14f, 1.0f, 65504.0f, kMaxScaler}) {
        TernarizeCase c;
        c.scalers = {scaler};
        testing::expect_codes_of_widened(gradient, 0, c, stream, target + ", scaler " + std::to_string(scaler));
      }
    });
  }
}

TEST(NarrowTernarize, RefusesMisalignedGradientsAndMixedTypes) {
  alignas(4) std::uint8_t memory[64] = {};
  alignas(8) std::uint8_t payload[2][8] = {};
  const float scaler = 1;
  TernarizeTask tasks[2];
  for (int i = 0; i < 2; ++i) {
    tasks[i] = {.gradient = memory, .count = 4, .scalers = &scaler, .payload = payload[i]};
    tasks[i].type = ElementType::kBfloat16;
  }
  Stream stream(Device::cpu(), 1);
  std::int64_t bytes[2] = {};
  const DrawKey key{};
  EXPECT_NO_THROW(ternarize(tasks, {}, key, bytes, stream));
  tasks[1].gradient = memory + 1;
  EXPECT_THROW(ternarize(tasks, {}, key, bytes, stream), InvalidArgument);
  tasks[1].gradient = memory;
  tasks[1].type = ElementType::kFloat32;
  EXPECT_THROW(ternarize(tasks, {}, key, bytes, stream), InvalidArgument);
  tasks[0].type = ElementType::kFloat32;
  EXPECT_NO_THROW(ternarize(tasks, {}, key, bytes, stream));
  tasks[0].gradient = memory + 2;
  EXPECT_THROW(ternarize(tasks, {}, key, bytes, stream), InvalidArgument);
}

TEST(NarrowEncodeBlocks, GiveScalersAndCodesOfTheWidened) {
  for (const ElementType type : kNarrowTypes) {
    const NarrowGradient gradient = testing::narrow_gaussian(type, 40001, 8);
    testing::for_each_target([&](const std::string& target) {
      for (const std::size_t n : {0u, 1u, 17u, 4096u, 4097u, 12289u, 40001u}) {
        for (const std::int64_t block : {4096, 8192, 32768}) {
          Stream stream(Device::cpu(), 2);
          testing::expect_blocks_of_widened(gradient.first(n), n % 5, block, 2.5, stream,
                                            target + ", length " + std::to_string(n));
        }
      }
    });
  }
}

TEST(NarrowEncodeBlocks, TakeBlocksOfMoreChunksThanSlots) {
  const NarrowGradient gradient =
      testing::narrow_gaussian(ElementType::kBfloat16, static_cast<std::size_t>(300 * kChunkElements), 9);
  Stream stream(Device::cpu(), 2);
  testing::expect_blocks_of_widened(gradient, 0, 260 * kChunkElements, 0, stream, "many chunks");
}

TEST(NarrowEncodeBlocks, FlagBlocksThatAreNotFinite) {
  for (const ElementType type : kNarrowTypes) {
    std::vector<float> values = testing::gaussian(20000, 10);
    values[5000] = std::numeric_limits<float>::quiet_NaN();
    values[9000] = -std::numeric_limits<float>::infinity();
    const NarrowGradient gradient = testing::rounded(type, values);
    Stream stream(Device::cpu(), 1);
    testing::expect_blocks_of_widened(gradient, 0, 4096, 2.5, stream, "not finite");
    const testing::EncodedBlocks found =
        testing::encoded_blocks<std::uint16_t>(gradient.elements, type, 0, 4096, 2.5, stream);
    EXPECT_EQ(found.scalers[1], bits_of(canonical_nan()));
    EXPECT_EQ(found.scalers[2], bits_of(canonical_nan()));
    EXPECT_NE(found.scalers[0], bits_of(canonical_nan()));
  }
}

TEST(NarrowEncodeBlocks, RefuseMisalignedGradientsAndMixedTypes) {
  alignas(4) std::uint8_t memory[64] = {};
  alignas(8) std::uint8_t payload[2][8] = {};
  float scalers[2] = {};
  EncodeBlocksTask tasks[2];
  for (int i = 0; i < 2; ++i) {
    tasks[i] = {.gradient = memory, .count = 4, .block_elements = 4096, .scalers = scalers + i, .payload = payload[i]};
    tasks[i].type = ElementType::kFloat16;
  }
  Stream stream(Device::cpu(), 1);
  const DrawKey key{};
  EXPECT_NO_THROW(encode_blocks(tasks, 0, ScalerRule::kPaper, key, stream));
  tasks[0].gradient = memory + 1;
  EXPECT_THROW(encode_blocks(tasks, 0, ScalerRule::kPaper, key, stream), InvalidArgument);
  tasks[0].gradient = memory;
  tasks[0].type = ElementType::kBfloat16;
  EXPECT_THROW(encode_blocks(tasks, 0, ScalerRule::kPaper, key, stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::narrow_gradients_test
