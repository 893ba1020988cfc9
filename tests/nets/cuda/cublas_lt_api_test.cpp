#include "nets/cuda/cublas_lt_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kernels/runtime/errors.h"
#include "nets/cuda/libraries.h"

namespace terngrad::cuda::cublas_lt_api_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal_of(const char* file) {
  try {
    load_cublas_lt(file);
  } catch (const NotSupported& error) {
    return error.what();
  }
  return "no error";
}

TEST(CublasLtApi, IsOfTheMajorVersionOfTheHeader) {
  EXPECT_EQ(cublas_lt_api().get_version() / 10000, CUBLAS_VER_MAJOR);
  EXPECT_THAT(cublas_lt_api().get_status_string(CUBLAS_STATUS_NOT_SUPPORTED), HasSubstr("not supported"));
  EXPECT_EQ(Libraries::why_missing(), "");
  EXPECT_THAT(Libraries::versions(), HasSubstr("cuBLASLt " + std::to_string(CUBLAS_VER_MAJOR) + "."));
}

TEST(CublasLtApi, CallsTheFunctionsOfTheLibrary) {
  // Functions that need no GPU; checks that each member is the function of its name.
  const CublasLtApi& api = cublas_lt_api();
  cublasLtMatrixLayout_t layout = nullptr;
  ASSERT_EQ(api.matrix_layout_create(&layout, CUDA_R_32F, 2, 3, 2), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(api.matrix_layout_destroy(layout), CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulDesc_t operation = nullptr;
  ASSERT_EQ(api.matmul_desc_create(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
  const cublasOperation_t transposed = CUBLAS_OP_T;
  EXPECT_EQ(api.matmul_desc_set_attribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(api.matmul_desc_set_attribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, 1),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(api.matmul_desc_destroy(operation), CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulPreference_t preference = nullptr;
  ASSERT_EQ(api.matmul_preference_create(&preference), CUBLAS_STATUS_SUCCESS);
  const std::size_t bytes = 1024;
  EXPECT_EQ(
      api.matmul_preference_set_attribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes)),
      CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(api.matmul_preference_destroy(preference), CUBLAS_STATUS_SUCCESS);
}

TEST(CublasLtApi, SaysWhatToInstallWhereTheLibraryIsMissing) {
  EXPECT_THAT(
      refusal_of("libcublasLt_of_nobody.so"),
      AllOf(HasSubstr("cannot load libcublasLt_of_nobody.so"), HasSubstr("cannot open shared object file"),
            HasSubstr("install cuBLAS of CUDA " + std::to_string(CUBLAS_VER_MAJOR)), HasSubstr("LD_LIBRARY_PATH")));
}

TEST(CublasLtApi, NamesAFunctionThatTheLibraryLacks) {
  EXPECT_THAT(refusal_of("libc.so.6"), AllOf(HasSubstr("cannot load libc.so.6"), HasSubstr("cublasLtCreate")));
}

}  // namespace
}  // namespace terngrad::cuda::cublas_lt_api_test
