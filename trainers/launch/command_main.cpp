#include "trainers/launch/command_main.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <utility>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/standard_streams.h"
#include "trainers/io/printable.h"
#include "trainers/launch/signal_thread.h"

namespace terngrad {
namespace {

/// True if `file` is a pipe without a reader or a closed terminal.
bool has_lost_its_reader(int file) {
  struct pollfd polled = {.fd = file, .events = POLLOUT, .revents = 0};
  return ::poll(&polled, 1, 0) == 1 && (polled.revents & (POLLERR | POLLHUP)) != 0;
}

int report(const char* name, std::string message, int exit_code) {
  print_error(name, std::move(message));
  return exit_code;
}

}  // namespace

void print_error(const char* command, std::string message) {
  // Scripts and logs can rely on a single line.
  std::ranges::replace(message, '\n', ' ');
  std::fprintf(stderr, "%s: error: %s\n", command, printable(message).c_str());
}

int command_main(const char* name, int argc, char** argv, const std::function<int(int argc, char** argv)>& run) {
  // Writes to a closed pipe or beyond the file-size limit return an error instead of ending the process: a run is saved
  // even if the reader of its output has ended, like a tee by the Ctrl-C that stops the run.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const int exit_code = run(argc, argv);
    std::cout.flush();
    const bool is_written = std::cout && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    // A reader that closes the pipe early, such as head, is not an error.
    if (!is_written && !has_lost_its_reader(STDOUT_FILENO)) {
      return report(name, "cannot write to the standard output", kExitFailure);
    }
    return exit_code;
  } catch (const UsageError& error) {
    return report(name, error.what(), kExitUsage);
  } catch (const std::bad_alloc&) {
    return report(name, "out of memory", kExitFailure);
  } catch (const std::exception& error) {
    return report(name, error.what(), kExitFailure);
  } catch (...) {
    return report(name, "unknown exception", kExitFailure);
  }
}

int program_main(const char* name, int argc, char** argv, const std::function<int(int argc, char** argv)>& run) {
  open_standard_streams();
  return command_main(name, argc, argv, [&](int count, char** values) {
    take_stop_signals_in_own_thread();
    return run(count, values);
  });
}

}  // namespace terngrad
