#include "trainers/launch/build_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "compress/comm/mpi/mpi_session.h"
#include "compress/comm/nccl/nccl_api.h"
#include "kernels/runtime/machine.h"
#include "nets/device_net.h"
#include "nets/net.h"

namespace terngrad::build_info_test {
namespace {

using ::testing::MatchesRegex;
using ::testing::StartsWith;

TEST(BuildInfo, NamesEachPartInALineOfItsOwn) {
  std::istringstream text(version_text("terngrad_some"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_THAT(lines[0], MatchesRegex("terngrad_some [0-9.]+ [(][^ ]+[)]")) << "what scripts read";
  EXPECT_THAT(lines[1], MatchesRegex("compiler: (GCC|Clang) [0-9]+[.].*, .*"));
  EXPECT_THAT(lines[2], StartsWith("kernels: " + simd_instructions() + ", threads of "));
  EXPECT_EQ(lines[3], "nets: " + cpu_library());
  EXPECT_THAT(lines[4], MatchesRegex("CUDA: (no|[0-9]+[.].* for .+)"));
  EXPECT_THAT(lines[5], MatchesRegex(device_nets_unavailable_reason().empty() ? "cuDNN: [0-9]+[.].*, cuBLASLt [0-9]+"
                                                                              : "cuDNN: no"));
  EXPECT_THAT(lines[6], MatchesRegex(has_nccl() ? "NCCL: [0-9]+[.].*" : "NCCL: no"));
  EXPECT_EQ(lines[7], "MPI: " + (has_mpi() ? mpi_version() : "no"));
  EXPECT_THAT(lines[7], MatchesRegex("MPI: (no|.*[0-9].*)"));
}

}  // namespace
}  // namespace terngrad::build_info_test
