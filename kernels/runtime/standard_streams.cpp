#include "kernels/runtime/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace terngrad {

void open_standard_streams() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
    if (::fcntl(number, F_GETFD) != -1 || errno != EBADF) continue;
    // open returns the lowest free descriptor, which is `number`. If /dev/null is missing, no output is possible:
    // abort.
    if (::open("/dev/null", O_RDWR) != number) std::abort();
  }
}

}  // namespace terngrad
