#include "compress/comm/watchdog.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad {

Watchdog::Watchdog(Action action) : action_(std::move(action)), thread_([this] { run(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::watch(double seconds, std::string doing, const std::function<void()>& body) {
  const auto set = [this](std::optional<Deadline> deadline) {
    {
      const std::lock_guard lock(mutex_);
      deadline_ = std::move(deadline);
    }
    changed_.notify_all();
  };
  TERNGRAD_REQUIRE(seconds > 0, "[watchdog] seconds must be above 0, got ", seconds);
  // A clock cannot represent arbitrarily late times; a year is long enough for any call.
  const std::chrono::duration<double> time(std::min(seconds, 3.2e7));
  set(Deadline{std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(time),
               std::move(doing)});
  try {
    body();
  } catch (...) {
    set(std::nullopt);
    throw;
  }
  set(std::nullopt);
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (!deadline_) {
      changed_.wait(lock);
    } else if (std::chrono::steady_clock::now() < deadline_->time) {
      changed_.wait_until(lock, deadline_->time);
    } else {
      const std::string doing = std::exchange(deadline_, std::nullopt)->doing;
      lock.unlock();
      action_(doing);
      lock.lock();
    }
  }
}

Watchdog::Action end_process(std::string who) {
  return [who = std::move(who)](const std::string& doing) {
    std::fprintf(stderr, "%s: %s\n", who.c_str(), doing.c_str());
    std::_Exit(1);
  };
}

}  // namespace terngrad
