// Signs on a GPU against the CPU backend, byte for byte.
#include "kernels/codes/signs.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "kernels/codes/ternarize.h"
#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/slice.h"
#include "support/cuda_device.h"
#include "support/sign_cases.h"

namespace terngrad::cuda_signs_test {
namespace {

using reference::Bytes;
using testing::kSignForms;
using testing::SignCase;
using CudaSigns = testing::CudaTest;

void expect_the_cpus(std::span<const SignCase> cases, const std::string& what) {
  Stream stream(Device::cuda());
  SignPacker packer(Device::cuda());
  const std::vector<Bytes> found = testing::packed_signs(cases, packer, stream);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    ASSERT_EQ(found[i], testing::packed_signs(cases[i])) << cases[i].text() << ", " << what << ", task " << i;
  }
}
void expect_the_cpus(const SignCase& c, const std::string& what) { expect_the_cpus({&c, 1}, what); }

TEST_F(CudaSigns, AreTheCpusAtRaggedLengthsAndAlignments) {
  for (const SignOptions& options : kSignForms) {
    for (const std::size_t n :
         {0u, 1u, 7u, 8u, 9u, 31u, 32u, 33u, 65u, 2047u, 2048u, 2049u, 4095u, 4097u, 6145u, 12289u}) {
      for (const std::size_t start : {0u, 1u, 2u}) {
        expect_the_cpus({.gradient = testing::with_zeros(n, 7), .options = options, .misalignment = start}, "ragged");
      }
    }
  }
}

TEST_F(CudaSigns, TakeBlocksNarrowElementsAndManyTasks) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float kinds[] = {0.01f, 0.0f, nan, 0x1p-120f};
  for (const SignOptions& options : kSignForms) {
    for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16, ElementType::kFloat16}) {
      std::vector<SignCase> cases;
      for (const std::int64_t block : {64, 128, 4096, 4160}) {
        SignCase c{.gradient = testing::with_zeros(9707, 4), .first = 12288, .block_elements = block};
        c.worker = static_cast<std::uint32_t>(block / 64);
        c.options = options;
        c.scalers.clear();
        for (std::int64_t b = 0; b < num_blocks(c.first, c.count(), block); ++b) c.scalers.push_back(kinds[b % 4]);
        if (type != ElementType::kFloat32) c.round_gradient_to(type);
        cases.push_back(c);
      }
      expect_the_cpus(cases, element_type_name(type));
    }
  }
}

TEST_F(CudaSigns, TakePairsOfScalersOfBlocksAndColumns) {
  for (const SignCase& c : testing::pair_cases()) expect_the_cpus(c, std::to_string(c.options.columns) + " columns");
}

TEST_F(CudaSigns, RunFromAGraphWithTheStepOnTheDevice) {
  Stream stream(Device::cuda());
  SignCase c{.gradient = testing::with_zeros(9000, 15)};
  const Buffer<float> gradient = testing::to_device<float>(c.gradient, stream);
  const Buffer<float> scaler = testing::to_device<float>(c.scalers, stream);
  Buffer<std::uint64_t> step = testing::to_device<std::uint64_t>(std::vector<std::uint64_t>{0}, stream);
  Buffer<std::uint8_t> payload(c.bytes(), Device::cuda());
  const QuantizeTask task{.gradient = gradient.data(),
                          .count = c.count(),
                          .draw_offset = c.draw_offset,
                          .scalers = scaler.data(),
                          .payload = payload.data(),
                          .worker = c.worker};
  SignPacker packer(Device::cuda());
  const auto work = [&] { packer.run({&task, 1}, c.options, c.key, stream, step.data()); };
  work();
  const CapturedGraph graph(stream, work);
  for (const std::uint64_t number : {std::uint64_t{1}, std::uint64_t{2}}) {
    copy<std::uint64_t>({&number, 1}, step.span(), stream);
    graph.launch(stream);
    c.key.step = number;
    EXPECT_EQ(testing::to_host<std::uint8_t>(payload.span(), stream), testing::packed_signs(c)) << number;
  }
}

TEST_F(CudaSigns, RefuseAnotherDevicesStream) {
  Stream cpu(Device::cpu(), 1);
  EXPECT_THROW(SignPacker(Device::cuda()).run({}, {}, {}, cpu), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_signs_test
