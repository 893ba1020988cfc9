// lap_seconds: a stopwatch for consecutive phases.
#pragma once

#include <chrono>
#include <utility>

namespace terngrad {

/// Returns the seconds since `begin` and sets `begin` to now.
inline double lap_seconds(std::chrono::steady_clock::time_point& begin) {
  const auto now = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(now - std::exchange(begin, now)).count();
}

}  // namespace terngrad
