#include "kernels/runtime/standard_streams.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace terngrad::standard_streams_test {
namespace {

/// Closes streams; exits with 0 if new files do not get their numbers and a write to stderr succeeds.
[[noreturn]] void open_after_closing(bool input, bool error) {
  if (input) ::close(STDIN_FILENO);
  if (error) ::close(STDERR_FILENO);
  open_standard_streams();
  const int next = ::open("/dev/zero", O_RDONLY);
  const bool is_written = ::write(STDERR_FILENO, "", 1) == 1 && ::fcntl(STDIN_FILENO, F_GETFD) == 0;
  std::_Exit(next > STDERR_FILENO && is_written ? 0 : 1);
}

TEST(StandardStreamsDeathTest, ClosedOnesTakeNoFilesNumber) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  for (const bool input : {false, true}) {
    for (const bool error : {false, true}) {
      EXPECT_EXIT(open_after_closing(input, error), ::testing::ExitedWithCode(0), "");
    }
  }
}

}  // namespace
}  // namespace terngrad::standard_streams_test
