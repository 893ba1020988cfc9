// PollBackoff: how a thread waits for messages that only polling finds.
#pragma once

#include <chrono>
#include <thread>

namespace terngrad {

/// Leaves the processor to others while nothing comes: at first only for a moment, so that an answer that is under way
/// is seen at once.
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
