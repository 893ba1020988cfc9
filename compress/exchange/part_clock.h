// PartClock: the times that an exchange reports.
#pragma once

#include <utility>
#include <vector>

#include "compress/route/exchange_report.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/stream_timer.h"

namespace terngrad {

/// Measures consecutive laps of the work in a stream, each of which counts as one of the times of an ExchangeReport.
class PartClock {
 public:
  /// @param is_on  false: measures nothing, so that the work can be captured into a graph
  PartClock(const Device& device, bool is_on) : device_(device), is_on_(is_on) {}

  /// Begins a lap.
  void start(const Stream& stream) {
    if (!is_on_) return;
    open_ = StreamTimer(device_);
    open_.start(stream);
  }
  /// Ends the lap, which counts as `time`, and begins the next.
  void lap(double ExchangeReport::*time, const Stream& stream) {
    if (!is_on_) return;
    open_.stop(stream);
    laps_.emplace_back(open_, time);
    start(stream);
  }
  /// Adds all laps to a report; waits until a GPU has reached their ends.
  void add_to(ExchangeReport& report) const {
    for (const auto& [timer, time] : laps_) report.*time += timer.seconds();
  }

 private:
  Device device_;
  bool is_on_;
  StreamTimer open_{Device::cpu()};
  std::vector<std::pair<StreamTimer, double ExchangeReport::*>> laps_;
};

}  // namespace terngrad
