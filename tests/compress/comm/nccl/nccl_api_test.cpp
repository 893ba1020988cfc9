#include "compress/comm/nccl/nccl_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"

namespace terngrad::nccl_api_test {
namespace {

TEST(NcclApi, IsNccl2OrSaysThatItIsNot) {
  if (has_nccl()) {
    EXPECT_THAT(nccl_version(), ::testing::StartsWith("NCCL 2."));
    return;
  }
  try {
    nccl_api();
    FAIL() << "expected NotSupported";
  } catch (const NotSupported& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("TERNGRAD_NCCL"));
  }
  EXPECT_THROW(nccl_version(), NotSupported);
}

// Needs no GPU: the texts are NCCL's.
TEST(NcclApi, TellsErrorsInNcclsWords) {
  if (!has_nccl()) GTEST_SKIP() << "built without NCCL";
  EXPECT_EQ(nccl_api().error_text(NcclApi::kSuccess), "no error");
  EXPECT_THAT(nccl_api().error_text(4), ::testing::StartsWith("invalid argument"));
}

TEST(NcclApi, RefusesWhatNcclRefuses) {
  if (!has_nccl()) GTEST_SKIP() << "built without NCCL";
  EXPECT_NE(nccl_api().broadcast(nullptr, nullptr, 1, NcclApi::Type::kUint8, 0, nullptr, nullptr), NcclApi::kSuccess);
}

}  // namespace
}  // namespace terngrad::nccl_api_test
