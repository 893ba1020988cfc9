// Runs the tests as one of several ranks: every rank runs all tests in the same order.
#include <gtest/gtest.h>

#include "compress/comm/mpi/mpi_session.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const terngrad::MpiSession session;
  return RUN_ALL_TESTS();
}
