// Tests of quantizers on a GPU: their bytes equal those of the CPU backend.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/codes/ternarize.h"
#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler_limits.h"
#include "kernels/tensor/slice.h"
#include "support/codes/quantize_cases.h"
#include "support/cuda_device.h"

namespace terngrad::testing {

/// All finite float32 values whose lower 16 bits are 0.
inline std::vector<float> upper_halves() {
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper < 65536; ++upper) {
    const auto value = std::bit_cast<float>(upper << 16);
    if (std::isfinite(value)) values.push_back(value);
  }
  return values;
}

template <class Options>
class CudaQuantizeTest : public CudaTest {
 protected:
  using Case = QuantizeCase<Options>;
  using Quantizer = typename QuantizerTraits<Options>::Quantizer;

  static void expect_the_cpus(std::span<const Case> cases, const std::string& what) {
    Stream stream(Device::cuda());
    Quantizer quantizer(Device::cuda());
    const std::vector<reference::Bytes> found = quantized(cases, quantizer, stream);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      ASSERT_EQ(found[i], quantized(cases[i])) << cases[i].text() << ", " << what << ", task " << i;
    }
  }
  static void expect_the_cpus(const Case& c, const std::string& what) {
    expect_the_cpus(std::span<const Case>(&c, 1), what);
  }

  static void expect_ragged(const Options& options) {
    for (const std::size_t n : {0u, 1u, 3u, 4u, 5u, 7u, 8u, 9u, 16u, 17u, 65u, 2047u, 2049u, 4095u, 4097u, 12289u}) {
      for (const std::size_t start : {0u, 1u, 2u}) {
        expect_the_cpus({.gradient = gaussian(n, 7), .options = options, .misalignment = start}, "ragged");
      }
    }
  }

  /// All element types, with blocks that have ordinary, zero, NaN, tiny and extreme scalers.
  static void expect_blocks(const Options& options) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float kinds[] = {0.01f, 0.5f, nan, 3e-5f, 0.0f, 0x1p-90f, kMinScaler, kMaxScaler};
    for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16, ElementType::kFloat16}) {
      std::vector<Case> cases;
      for (const std::int64_t block : {64, 128, 4096, 4160}) {
        Case c{.gradient = gaussian(9707, 4), .first = 12288, .block_elements = block, .options = options};
        c.scalers.clear();
        for (std::int64_t b = 0; b < num_blocks(c.first, c.count(), block); ++b) c.scalers.push_back(kinds[b % 8]);
        if (type != ElementType::kFloat32) c.round_gradient_to(type);
        cases.push_back(c);
      }
      expect_the_cpus(cases, element_type_name(type));
    }
  }

  static void expect_hostile_values() {
    for (const float value : {0.0f, -0.0f, 1e-45f, -1e-45f, 3e38f, -3e38f, 448.0f, -449.0f}) {
      expect_the_cpus({.gradient = std::vector<float>(500, value), .scalers = {1.0f}}, std::to_string(value));
    }
  }

  /// One value, repeated so often that draws hit 16-bit ties and their 24-bit refinement.
  static void expect_ties(float value, const Options& options) {
    expect_the_cpus(
        {.gradient = std::vector<float>(std::size_t{1} << 17, value), .scalers = {1.0f}, .options = options},
        "value " + std::to_string(value));
  }

  /// Runs from a captured CUDA graph that reads the step number from device memory.
  static void expect_steps_of_a_graph(const Options& options, std::vector<float> elements = gaussian(9000, 15)) {
    Stream stream(Device::cuda());
    Case c{.gradient = std::move(elements), .options = options};
    const Buffer<float> gradient = to_device<float>(c.gradient, stream);
    const Buffer<float> scaler = to_device<float>(c.scalers, stream);
    Buffer<std::uint64_t> step = to_device<std::uint64_t>(std::vector<std::uint64_t>{0}, stream);
    Buffer<std::uint8_t> payload(c.bytes(), Device::cuda());
    const QuantizeTask task{.gradient = gradient.data(),
                            .count = c.count(),
                            .draw_offset = c.draw_offset,
                            .scalers = scaler.data(),
                            .payload = payload.data(),
                            .worker = c.worker};
    Quantizer quantizer(Device::cuda());
    const auto work = [&] { quantizer.run({&task, 1}, c.options, c.key, stream, step.data()); };
    work();
    const CapturedGraph graph(stream, work);
    for (const std::uint64_t number : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{0xff'00000007u}}) {
      copy<std::uint64_t>({&number, 1}, step.span(), stream);
      graph.launch(stream);
      c.key.step = number;
      EXPECT_EQ(to_host<std::uint8_t>(payload.span(), stream), quantized(c)) << number;
    }
  }

  static void expect_refusal_of_another_device() {
    Stream cpu(Device::cpu(), 1);
    EXPECT_THROW(Quantizer(Device::cuda()).run({}, {}, {}, cpu), InvalidArgument);
  }
};

}  // namespace terngrad::testing
