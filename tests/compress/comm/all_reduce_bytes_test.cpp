#include "compress/comm/all_reduce_bytes.h"

#include <gtest/gtest.h>

namespace terngrad::all_reduce_bytes_test {
namespace {

TEST(AllReduceBytes, AreTwiceAllButOneShare) {
  EXPECT_EQ(all_reduce_bytes(800, 1), 0);
  EXPECT_EQ(all_reduce_bytes(800, 2), 800);
  EXPECT_EQ(all_reduce_bytes(800, 8), 1400);
  EXPECT_EQ(all_reduce_bytes(10, 3), 13);  // rounded down
}

}  // namespace
}  // namespace terngrad::all_reduce_bytes_test
