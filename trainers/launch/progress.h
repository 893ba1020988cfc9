// ProgressDisplay: shows the progress of a run to the user.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace terngrad {

/// The state of a run to show; unknown values are empty and not shown.
struct ProgressState {
  std::int64_t step = 0;         // steps done
  std::int64_t total_steps = 0;  // 0: unknown
  std::optional<double> loss = {};
  std::optional<double> accuracy = {};  // a fraction
  std::optional<double> examples_per_second = {};
  // Bytes of the busiest node's link (docs/measuring.md):
  std::optional<double> sent_bytes_per_step = {};
  std::optional<double> received_bytes_per_step = {};
  std::string sender = "worker";  // the busiest node: "worker", "server", or "group" of workers
  std::optional<double> compression_ratio = {};
  std::int64_t skipped_steps = 0;  // since the last report; shown if there are any
  std::optional<double> seconds_left = {};
};

/// Three significant digits with a decimal unit: "512 B", "1.50 kB", "320 kB", "2.00 GB". "?" for negative or NaN.
std::string format_bytes(double num_bytes);

/// Whole seconds in the two largest units: "45s", "1m32s", "2h03m", "3d04h". "?" for negative, NaN or infinite.
std::string format_duration(double seconds);

/// One line without line end, e.g.
///   step 500/10000 5% loss 0.1234 accuracy 0.981 4512 examples/s worker sent 320 kB received
///   320 kB/step 15.9x fp32, 7.9x bf16 eta 1m32s
/// @param width  maximum length: the least important parts are left out until it fits, then it is cut; 0: no limit
std::string format_progress(const ProgressState& state, int width = 0);

/// Shows progress on a stream. On a terminal one line is redrawn in place, at most ten times a second and never wider
/// than the terminal; elsewhere (a file, a pipe) each call to `log` prints its own line and `update` prints none.
/// kSilent prints nothing, for processes other than the chief. Not thread-safe.
class ProgressDisplay {
 public:
  enum class Mode { kTerminal, kLog, kSilent };

  /// kTerminal if `stream` is a terminal that can move its cursor (TERM is not "dumb"), else kLog.
  static Mode detect(std::FILE* stream);

  /// @param stream  must outlive this object
  explicit ProgressDisplay(std::FILE* stream = stderr) : ProgressDisplay(stream, detect(stream)) {}
  ProgressDisplay(std::FILE* stream, Mode mode) : stream_(stream), mode_(mode) {}
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;
  ~ProgressDisplay() { finish(); }

  Mode mode() const { return mode_; }

  /// To be called after every step.
  void update(const ProgressState& state);
  /// To be called once per logging interval.
  void log(const ProgressState& state);
  /// Prints a line of text above the live line.
  void message(std::string_view text);
  /// Ends the live line and moves to the next one. Idempotent.
  void finish();

 private:
  void draw();

  std::FILE* stream_;
  Mode mode_;
  ProgressState shown_;
  bool line_is_open_ = false;
  std::optional<std::chrono::steady_clock::time_point> last_draw_;
};

}  // namespace terngrad
