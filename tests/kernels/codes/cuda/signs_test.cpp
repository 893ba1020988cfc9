// Signs on a GPU against the CPU backend, byte for byte.
#include "kernels/codes/signs.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "kernels/tensor/slice.h"
#include "support/codes/cuda_quantize.h"
#include "support/codes/sign_cases.h"

namespace terngrad::cuda_signs_test {
namespace {

using testing::kSignForms;
using testing::SignCase;
using CudaSigns = testing::CudaQuantizeTest<SignOptions>;

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

TEST_F(CudaSigns, RunFromAGraphWithTheStepOnTheDevice) { expect_steps_of_a_graph({}, testing::with_zeros(9000, 15)); }

TEST_F(CudaSigns, RefuseAnotherDevicesStream) { expect_refusal_of_another_device(); }

}  // namespace
}  // namespace terngrad::cuda_signs_test
