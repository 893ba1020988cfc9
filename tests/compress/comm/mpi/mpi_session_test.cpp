#include "compress/comm/mpi/mpi_session.h"

#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"

namespace terngrad::mpi_session_test {
namespace {

TEST(MpiSession, KnowsItsLauncher) {
  ASSERT_TRUE(has_mpi());
  EXPECT_TRUE(is_launched_by_mpi());
}

TEST(MpiSession, IsTheOnlyOne) { EXPECT_THROW(MpiSession(), InvalidArgument); }

}  // namespace
}  // namespace terngrad::mpi_session_test
