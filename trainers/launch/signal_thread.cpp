#include "trainers/launch/signal_thread.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <system_error>
#include <thread>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// Waits for signals with the signal mask `mask` until the process ends.
void wait_for_signals(const sigset_t& mask) {
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  for (;;) ::pause();
}

}  // namespace

void take_stop_signals_in_own_thread() {
  static std::atomic<bool> is_done = false;
  if (is_done.exchange(true)) return;
  sigset_t stops;
  sigemptyset(&stops);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&stops, signal);
  sigset_t before;
  if (::pthread_sigmask(SIG_BLOCK, &stops, &before) != 0) TERNGRAD_THROW(Error, "cannot block signals");
  try {
    std::thread([before] { wait_for_signals(before); }).detach();
  } catch (const std::system_error& error) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    is_done = false;
    TERNGRAD_THROW(Error, "cannot start the thread of signals: ", error.what());
  }
}

}  // namespace terngrad
