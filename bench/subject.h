// Subjects of microbenchmarks: work on either device, with its counts and the check of its results.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "kernels/runtime/device.h"

namespace terngrad::bench {

using Counters = std::map<std::string, double>;

/// Work on one set of inputs and outputs, which it owns.
struct Work {
  std::function<void()> run;
  /// True if the results are right. Called once, after `run` and a synchronization of the stream. Not timed.
  std::function<bool()> check;
};

/// One subject at one size. It outlives the works that it prepares.
struct Subject {
  double bytes = 0;      // read and written by one run
  double elements = 0;   // gradient elements, or float values in all
  double examples = 0;   // images of a batch; 0 if the work is on none
  double set_bytes = 0;  // memory of one set of inputs and outputs on a GPU; 0: `bytes`
  int num_launches = 1;  // kernels of one run on a GPU
  /// Makes one set of inputs and outputs on the stream's device, and the work on it in this stream. Not timed.
  std::function<Work(Stream& stream)> prepare;
  /// Further counters of the report, measured once after the timed rounds on the CPU.
  std::function<Counters()> counters = nullptr;
};

}  // namespace terngrad::bench
