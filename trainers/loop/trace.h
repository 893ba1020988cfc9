// Trace: a timeline of some steps of a process.
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

/// Records events of num_steps steps after kWarmUpSteps, and drops events of other steps. Thread-safe.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  /// Steps at the beginning that are not recorded, in which memory is touched and libraries are prepared.
  static constexpr std::uint64_t kWarmUpSteps = 3;

  /// Rows of the timeline.
  enum class Row { kStep, kExchange, kTensors };
  /// Named numbers of an event; names include units, such as "sent_bytes".
  using Numbers = std::vector<std::pair<std::string, double>>;

  /// @param num_steps  at least 1
  explicit Trace(std::uint64_t num_steps);

  /// Begins a step: events added from now on belong to it. The first recorded step sets the origin of times, unless it
  /// is set already. @param step  number as in the metrics, from 1
  void begin_step(std::uint64_t step);
  /// Sets the origin of times to now. If all ranks do so at the same time, their timelines are aligned.
  void set_origin();
  /// begins_next: true if the next step is the first to be recorded. has_ended: true if the last one has been recorded.
  bool begins_next() const;
  bool has_ended() const;

  /// Adds an event from `begin` to `end`.
  void add(Row row, std::string name, Clock::time_point begin, Clock::time_point end, Numbers numbers = {});
  /// Adds an instant event at the current time.
  void mark(Row row, std::string name);

  /// The events as comma-separated list elements in Chrome's trace-event format (times in microseconds), for a process
  /// `rank` named `process_name`. Each event has its step number among its arguments. Events are sorted by begin, then
  /// longest first, as viewers need to nest them.
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
  std::uint64_t step_ = 0;  // current step
  bool has_origin_ = false;
  Clock::time_point origin_;
  std::vector<Event> events_;
};

/// Scope guard: adds an event from its construction to its destruction. @param trace  may be nullptr
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

/// A hook that gathers the traces of all ranks when their steps or the run have ended, and writes them on rank 0 to
/// trace.json in `folder`, for chrome://tracing and Perfetto. Runs on every rank; collective.
/// @param trace  this rank's trace; must outlive the hook
/// @param process_name  name of this rank in the trace
/// @param folder  run directory, on rank 0
/// @param on_error  called on rank 0 if the file cannot be written; the run continues
std::unique_ptr<Hook> make_trace_hook(Trace& trace, std::string process_name, std::optional<Folder> folder,
                                      std::function<void(const std::string& message)> on_error);

}  // namespace terngrad
