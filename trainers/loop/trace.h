// Trace: what a process did when, in some steps of a run.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainers/io/folder.h"
#include "trainers/loop/hook.h"

namespace terngrad {

/// Events of a number of steps, after the first ones of a process have touched memory and prepared libraries. Any
/// thread may add some; those outside these steps are dropped.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  /// Steps of a process that are left out before.
  static constexpr std::uint64_t kWarmUpSteps = 3;

  /// What does the work: rows of a picture.
  enum class Row { kStep, kExchange, kTensors };
  /// Numbers that explain an event, with their units in their names.
  using Numbers = std::vector<std::pair<std::string, double>>;

  /// @param num_steps  at least 1
  explicit Trace(std::uint64_t num_steps);

  /// Counts a step that begins, and gives what is added until the next one its number: as metrics have it, from 1. The
  /// origin of times is set by the first one that is recorded, unless it was set.
  void begin_step(std::uint64_t step);
  /// Sets the origin of times to now: where ranks do it at once, their events fit together.
  void set_origin();
  /// Whether the next step is the first that is recorded; whether the last one was.
  bool begins_next() const;
  bool has_ended() const;

  /// Adds what happened from `begin` to `end`.
  void add(Row row, std::string name, Clock::time_point begin, Clock::time_point end, Numbers numbers = {});
  /// Adds what happened just now.
  void mark(Row row, std::string name);

  /// The events as elements of a list in Chrome's trace-event format (times in microseconds), separated by commas:
  /// those of process `rank`, called `process_name`. Each has the number of its step among its arguments. They are in
  /// the order of their times, the longer first of those that begin at once: viewers nest them so.
  std::string to_json(int rank, const std::string& process_name) const;

 private:
  struct Event {
    Row row;
    std::string name;
    Clock::time_point begin;
    Clock::duration duration;
    bool is_mark;
    std::uint64_t step;
    Numbers numbers;
  };
  bool is_recording() const { return num_begun_ > kWarmUpSteps && num_begun_ <= kWarmUpSteps + num_steps_; }

  mutable std::mutex mutex_;
  std::uint64_t num_steps_;
  std::uint64_t num_begun_ = 0;
  std::uint64_t step_ = 0;  // that has begun
  bool has_origin_ = false;
  Clock::time_point origin_;
  std::vector<Event> events_;
};

/// Adds the time until its end to a trace, if there is one.
class TraceSpan {
 public:
  TraceSpan(Trace* trace, Trace::Row row, const char* name) : trace_(trace), row_(row), name_(name) {}
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;
  ~TraceSpan() {
    if (trace_ != nullptr) trace_->add(row_, name_, begin_, Trace::Clock::now());
  }

 private:
  Trace* trace_;
  Trace::Row row_;
  const char* name_;
  Trace::Clock::time_point begin_ = Trace::Clock::now();
};

/// Brings the traces of all ranks together when their steps are over, or the run is, and writes them on rank 0 to
/// trace.json in `folder`: a file for chrome://tracing and Perfetto. Runs on every rank, and waits for the others.
/// @param trace  this rank's; outlives the hook
/// @param process_name  this rank's
/// @param folder  of the run, on rank 0
/// @param on_error  told on rank 0 if the file cannot be written, which is no reason to end a run
std::unique_ptr<Hook> make_trace_hook(Trace& trace, std::string process_name, std::optional<Folder> folder,
                                      std::function<void(const std::string& message)> on_error);

}  // namespace terngrad
