// PollBackoff: wait strategy for polling.
#pragma once

#include <chrono>
#include <thread>

namespace terngrad {

/// Yields the CPU between polls without a message. Only after some time it also sleeps, so that a message that is about
/// to arrive is found at once.
class PollBackoff {
 public:
  void reset() { begin_ = std::chrono::steady_clock::now(); }
  void wait() const {
    if (std::chrono::steady_clock::now() - begin_ < std::chrono::microseconds(200)) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace terngrad
