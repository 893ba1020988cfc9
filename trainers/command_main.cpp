#include "trainers/command_main.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <utility>

#include "kernels/errors.h"
#include "trainers/signal_thread.h"

namespace terngrad {
namespace {

int report(const char* name, std::string message, int exit_code) {
  print_error(name, std::move(message));
  return exit_code;
}

}  // namespace

void print_error(const char* command, std::string message) {
  // One line, so that scripts and logs can rely on it.
  std::ranges::replace(message, '\n', ' ');
  std::fprintf(stderr, "%s: error: %s\n", command, message.c_str());
}

int command_main(const char* name, int argc, char** argv, const std::function<int(int argc, char** argv)>& run) {
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int exit_code = run(argc, argv);
    std::cout.flush();
    if (!std::cout || std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
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
  return command_main(name, argc, argv, [&](int count, char** values) {
    take_stop_signals_in_own_thread();
    return run(count, values);
  });
}

}  // namespace terngrad
