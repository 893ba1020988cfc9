// Natural compression on a GPU against the CPU backend, byte for byte.
#include "kernels/codes/exponents.h"

#include <gtest/gtest.h>

#include "support/codes/cuda_quantize.h"
#include "support/codes/exponent_cases.h"

namespace terngrad::cuda_exponents_test {
namespace {

using CudaExponents = testing::CudaQuantizeTest<ExponentOptions>;

constexpr ExponentOptions kForms[] = {{.bits = 8}, {.bits = 4}};

TEST_F(CudaExponents, AreTheCpusAtRaggedLengthsAndAlignments) {
  for (const ExponentOptions& form : kForms) expect_ragged(form);
}

TEST_F(CudaExponents, RoundEveryUpperHalfOfAFloat) {
  for (const ExponentOptions& form : kForms) {
    expect_the_cpus({.gradient = testing::upper_halves(), .scalers = {1.0f}, .options = form}, "all");
  }
}

TEST_F(CudaExponents, ResolveTiesLikeTheCpu) {
  // Probabilities that are multiples of 2^-16 often tie with draws; those of 2^-17 need the refinement.
  for (const ExponentOptions& form : kForms) {
    for (const float value : {0x1p-22f, -0x1.8p-22f, 0x1.0001p-3f, -0x1.00018p-3f, 0x1p-135f, -0x1.5p-132f, 0.5f}) {
      expect_ties(value, form);
    }
  }
}

TEST_F(CudaExponents, TakeBlocksNarrowElementsAndHostileValues) {
  for (const ExponentOptions& form : kForms) expect_blocks(form);
  expect_hostile_values();
}

TEST_F(CudaExponents, RunFromAGraphWithTheStepOnTheDevice) { expect_steps_of_a_graph({}); }

TEST_F(CudaExponents, RefuseAnotherDevicesStream) { expect_refusal_of_another_device(); }

}  // namespace
}  // namespace terngrad::cuda_exponents_test
