// lap_seconds: a stopwatch for parts that follow each other.
#pragma once

#include <chrono>
#include <utility>

namespace terngrad {

/// Seconds since `begin`, which becomes now: the beginning of the next part.
inline double lap_seconds(std::chrono::steady_clock::time_point& begin) {
  const auto now = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(now - std::exchange(begin, now)).count();
}

}  // namespace terngrad
