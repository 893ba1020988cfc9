// Natural compression on a GPU against the CPU backend, byte for byte.
#include "kernels/codes/exponents.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "kernels/codes/ternarize.h"
#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler_limits.h"
#include "kernels/tensor/slice.h"
#include "support/cuda_device.h"
#include "support/exponent_cases.h"

namespace terngrad::cuda_exponents_test {
namespace {

using reference::Bytes;
using testing::ExponentCase;
using CudaExponents = testing::CudaTest;

void expect_the_cpus(std::span<const ExponentCase> cases, const std::string& what) {
  Stream stream(Device::cuda());
  ExponentQuantizer quantizer(Device::cuda());
  const std::vector<Bytes> found = testing::quantized(cases, quantizer, stream);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    ASSERT_EQ(found[i], testing::quantized(cases[i])) << cases[i].text() << ", " << what << ", task " << i;
  }
}
void expect_the_cpus(const ExponentCase& c, const std::string& what) { expect_the_cpus({&c, 1}, what); }

TEST_F(CudaExponents, AreTheCpusAtRaggedLengthsAndAlignments) {
  for (const int bits : {8, 4}) {
    for (const std::size_t n : {0u, 1u, 3u, 4u, 5u, 7u, 8u, 9u, 16u, 17u, 65u, 2047u, 2049u, 4095u, 4097u, 12289u}) {
      for (const std::size_t start : {0u, 1u, 2u}) {
        expect_the_cpus({.gradient = testing::gaussian(n, 7), .options = {.bits = bits}, .misalignment = start},
                        "ragged");
      }
    }
  }
}

TEST_F(CudaExponents, RoundEveryUpperHalfOfAFloat) {
  ExponentCase c{.scalers = {1.0f}};
  for (std::uint32_t upper = 0; upper < 65536; ++upper) {
    const auto value = std::bit_cast<float>(upper << 16);
    if (std::isfinite(value)) c.gradient.push_back(value);
  }
  for (const int bits : {8, 4}) {
    c.options.bits = bits;
    expect_the_cpus(c, "all");
  }
}

TEST_F(CudaExponents, ResolveTiesLikeTheCpu) {
  // Probabilities that are multiples of 2^-16 tie with draws often, those of 2^-17 need the refinement.
  for (const int bits : {8, 4}) {
    for (const float value : {0x1p-22f, -0x1.8p-22f, 0x1.0001p-3f, -0x1.00018p-3f, 0x1p-135f, -0x1.5p-132f, 0.5f}) {
      expect_the_cpus(
          {.gradient = std::vector<float>(std::size_t{1} << 17, value), .scalers = {1.0f}, .options = {.bits = bits}},
          "value " + std::to_string(value));
    }
  }
}

TEST_F(CudaExponents, TakeBlocksNarrowElementsAndHostileValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float kinds[] = {0.01f, 0.5f, nan, 3e-5f, 0.0f, 0x1p-90f, kMinScaler, kMaxScaler};
  for (const int bits : {8, 4}) {
    for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16, ElementType::kFloat16}) {
      std::vector<ExponentCase> cases;
      for (const std::int64_t block : {64, 128, 4096, 4160}) {
        ExponentCase c{.gradient = testing::gaussian(9707, 4), .first = 12288, .block_elements = block};
        c.options.bits = bits;
        c.scalers.clear();
        for (std::int64_t b = 0; b < num_blocks(c.first, c.count(), block); ++b) c.scalers.push_back(kinds[b % 8]);
        if (type != ElementType::kFloat32) c.round_gradient_to(type);
        cases.push_back(c);
      }
      expect_the_cpus(cases, element_type_name(type));
    }
  }
  for (const float value : {0.0f, -0.0f, 1e-45f, -1e-45f, 3e38f, -3e38f, 448.0f, -449.0f}) {
    expect_the_cpus({.gradient = std::vector<float>(500, value), .scalers = {1.0f}}, std::to_string(value));
  }
}

TEST_F(CudaExponents, RunFromAGraphWithTheStepOnTheDevice) {
  Stream stream(Device::cuda());
  ExponentCase c{.gradient = testing::gaussian(9000, 15)};
  const Buffer<float> gradient = testing::to_device<float>(c.gradient, stream);
  const Buffer<float> scaler = testing::to_device<float>(c.scalers, stream);
  Buffer<std::uint64_t> step = testing::to_device<std::uint64_t>(std::vector<std::uint64_t>{0}, stream);
  Buffer<std::uint8_t> payload(payload_bytes(CodeFormat::kN8, c.count(), 1), Device::cuda());
  const QuantizeTask task{.gradient = gradient.data(),
                          .count = c.count(),
                          .draw_offset = c.draw_offset,
                          .scalers = scaler.data(),
                          .payload = payload.data(),
                          .worker = c.worker};
  ExponentQuantizer quantizer(Device::cuda());
  const auto work = [&] { quantizer.run({&task, 1}, c.options, c.key, stream, step.data()); };
  work();
  const CapturedGraph graph(stream, work);
  for (const std::uint64_t number : {std::uint64_t{1}, std::uint64_t{0xff'00000007u}}) {
    copy<std::uint64_t>({&number, 1}, step.span(), stream);
    graph.launch(stream);
    c.key.step = number;
    EXPECT_EQ(testing::to_host<std::uint8_t>(payload.span(), stream), testing::quantized(c)) << number;
  }
}

TEST_F(CudaExponents, RefuseAnotherDevicesStream) {
  Stream cpu(Device::cpu(), 1);
  EXPECT_THROW(ExponentQuantizer(Device::cuda()).run({}, {}, {}, cpu), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_exponents_test
