// Codebook codes on a GPU against the CPU backend, byte for byte.
#include "kernels/codes/codebook_codes.h"

#include <gtest/gtest.h>

#include "support/codes/codebook_cases.h"
#include "support/codes/cuda_quantize.h"

namespace terngrad::cuda_codebook_codes_test {
namespace {

using CudaCodebookCodes = testing::CudaQuantizeTest<testing::CodebookOptions>;

constexpr testing::CodebookOptions kForms[] = {{4}, {8}, {16}};

TEST_F(CudaCodebookCodes, AreTheCpusAtRaggedLengthsAndAlignments) {
  for (const testing::CodebookOptions& form : kForms) expect_ragged(form);
}

TEST_F(CudaCodebookCodes, TakeBlocksNarrowElementsAndHostileValues) {
  for (const testing::CodebookOptions& form : kForms) expect_blocks(form);
  expect_hostile_values();
}

TEST_F(CudaCodebookCodes, RunFromAGraph) { expect_steps_of_a_graph({8}); }

TEST_F(CudaCodebookCodes, RefuseAnotherDevicesStream) { expect_refusal_of_another_device(); }

}  // namespace
}  // namespace terngrad::cuda_codebook_codes_test
