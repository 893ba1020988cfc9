// Runs the tests of trainers with several ranks: every rank runs all tests in the same order.
#include <gtest/gtest.h>

#include "tests/mpi/launched_group.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  terngrad::ProcessGroup group;
  terngrad::testing::launched_group_pointer() = &group;
  return RUN_ALL_TESTS();
}
