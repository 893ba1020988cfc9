// FP8 codes on a GPU against the CPU backend, byte for byte.
#include "kernels/codes/fp8.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/codes/cuda_quantize.h"
#include "support/codes/fp8_cases.h"

namespace terngrad::cuda_fp8_test {
namespace {

using testing::Fp8Case;
using CudaFp8 = testing::CudaQuantizeTest<Fp8Options>;

constexpr Fp8Options kForms[] = {{.rounding = Rounding::kNearest}, {.rounding = Rounding::kStochastic}};

TEST_F(CudaFp8, AreTheCpusAtRaggedLengthsAndAlignments) {
  for (const Fp8Options& form : kForms) expect_ragged(form);
}

TEST_F(CudaFp8, RoundEveryUpperHalfOfAFloatAndEveryTie) {
  Fp8Case c{.gradient = testing::upper_halves(), .scalers = {1.0f}};
  for (unsigned code = 0; code < 126; ++code) {
    const auto tie = static_cast<float>((reference::e4m3_magnitude(code) + reference::e4m3_magnitude(code + 1)) / 2);
    for (const float value : {tie, std::nextafter(tie, 0.0f), -std::nextafter(tie, 500.0f)})
      c.gradient.push_back(value);
  }
  for (const Fp8Options& form : kForms) {
    c.options = form;
    expect_the_cpus(c, "all");
  }
}

TEST_F(CudaFp8, ResolveTiesLikeTheCpu) {
  // Fractions that are 0 or multiples of 2^-16 often tie with draws; those of 2^-17 need the refinement.
  for (const float value : {0x1p-25f, -0x1.8p-25f, 0x1.00004p0f, -0x1.00001p0f, 0x1p-6f, 0x1.fp-7f}) {
    expect_ties(value, {.rounding = Rounding::kStochastic});
  }
}

TEST_F(CudaFp8, TakeBlocksNarrowElementsAndHostileValues) {
  for (const Fp8Options& form : kForms) expect_blocks(form);
  expect_hostile_values();
}

TEST_F(CudaFp8, RunFromAGraphWithTheStepOnTheDevice) { expect_steps_of_a_graph({.rounding = Rounding::kStochastic}); }

TEST_F(CudaFp8, RefuseAnotherDevicesStream) { expect_refusal_of_another_device(); }

}  // namespace
}  // namespace terngrad::cuda_fp8_test
