// The harness that all microbenchmarks share: paired timing against a read kernel, rates, and checks.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"

namespace terngrad::bench {

using Counters = std::map<std::string, double>;

/// One benchmark: what is run, what it moves, and how its result is checked.
struct Subject {
  /// Prepares inputs; called once, untimed. Returns the work to time.
  std::function<std::function<void()>(Stream& stream)> prepare;
  /// Called after the work has run once; says whether its result is right. Untimed.
  std::function<bool()> check;
  double bytes = 0;     // read and written by one run, as the name of the rate says
  double elements = 0;  // of the gradient, or float values in all
  double examples = 0;  // images of a batch; 0 if the work is on none
  /// Of the subject's own, where it has any. Called once behind the timed rounds.
  std::function<Counters()> counters = nullptr;
};

/// The ceiling: sums `count` floats with eight vector accumulators on stream.num_threads() threads, reading memory once
/// and writing nothing.
float read_all(const float* values, std::int64_t count, Stream& stream);

/// Registers `subject` under `name` (slashes included), for `num_threads` threads. In every round the read kernel runs
/// over `read_elements` floats just before the subject, so that both see the machine in the same state. Reported, as
/// medians over the rounds: time, GBps (gradient bytes, 4 per element, per second), read_GBps (of the read kernel),
/// of_read (their ratio), moved_GBps (all bytes read and written). Work on examples also reports examples_per_s and
/// peak_MiB, the most memory the process has had so far (filter for one subject to see its own). A wrong result fails
/// the run.
void register_subject(const std::string& name, std::int64_t read_elements, int num_threads,
                      const std::function<Subject()>& make);

/// Whether a subject gave a wrong result.
bool any_failed();
/// Says that one did.
void note_failure();

/// Sizes in elements, from 1 Ki to 64 Mi, and 25 million, which is far beyond most caches.
const std::vector<std::int64_t>& sizes();
/// Thread counts to measure: 1, and all of the machine's if more.
std::vector<int> thread_counts();

/// Standard normal values times 0.01, the same in every run.
const float* gradient(std::int64_t count);
/// `index`-th gradient of several, of at most `count` elements each.
Buffer<float> make_gradient(std::int64_t count, std::uint64_t index);

/// "ternarize/cpu/f32/n:1048576/threads:2" and the like.
std::string bench_name(const std::string& what, const std::string& type, std::int64_t n, int num_threads);

}  // namespace terngrad::bench
