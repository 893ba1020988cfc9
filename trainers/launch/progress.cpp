#include "trainers/launch/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "trainers/io/printable.h"
#include "trainers/io/terminal_width.h"

namespace terngrad {
namespace {

constexpr std::chrono::milliseconds kRedrawInterval(100);
constexpr int kDefaultWidth = 80;

// A part of the progress line; parts with higher rank are omitted first.
struct Part {
  std::string text;
  int rank = 0;
};

/// Few columns even if the run has diverged.
std::string format_loss(double loss) {
  if (std::isnan(loss)) return "nan";
  return std::abs(loss) < 1e6 ? fmt::format("{:.4f}", loss) : fmt::format("{:.4g}", loss);
}

std::vector<Part> progress_parts(const ProgressState& state) {
  std::vector<Part> parts;
  if (state.total_steps > 0) {
    parts.push_back({fmt::format("step {}/{}", state.step, state.total_steps), 0});
    const double percent = 100.0 * static_cast<double>(state.step) / static_cast<double>(state.total_steps);
    // Rounded down, so that 100% means that all steps are done.
    parts.push_back({fmt::format("{}%", static_cast<std::int64_t>(std::floor(percent))), 4});
  } else {
    parts.push_back({fmt::format("step {}", state.step), 0});
  }
  if (state.loss) parts.push_back({"loss " + format_loss(*state.loss), 1});
  if (state.accuracy) parts.push_back({fmt::format("accuracy {:.3f}", *state.accuracy), 3});
  if (state.examples_per_second) parts.push_back({fmt::format("{:.0f} examples/s", *state.examples_per_second), 5});
  if (state.skipped_steps > 0) parts.push_back({fmt::format("skipped {}", state.skipped_steps), 1});
  if (state.sent_bytes_per_step && state.received_bytes_per_step) {
    parts.push_back({fmt::format("{} sent {} received {}/step", state.sender, format_bytes(*state.sent_bytes_per_step),
                                 format_bytes(*state.received_bytes_per_step)),
                     7});
  }
  if (state.compression_ratio) {
    const double ratio = *state.compression_ratio;
    parts.push_back({fmt::format("{:.1f}x fp32, {:.1f}x bf16", ratio, ratio / 2), 6});
  }
  if (state.seconds_left) parts.push_back({fmt::format("eta {}", format_duration(*state.seconds_left)), 2});
  return parts;
}

std::string join(const std::vector<Part>& parts) {
  std::string line;
  for (const Part& part : parts) line += (line.empty() ? "" : " ") + part.text;
  return line;
}

}  // namespace

std::string format_bytes(double num_bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  if (!(num_bytes >= 0)) return "?";
  std::size_t unit = 0;
  // 999.5 would be rounded to 1000, so the next unit begins there.
  for (; num_bytes >= 999.5 && unit + 1 < kUnits.size(); ++unit) num_bytes /= 1000;
  const int decimals = unit == 0 || num_bytes >= 99.95 ? 0 : num_bytes >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", num_bytes, decimals, kUnits[unit]);
}

std::string format_duration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e15) return "?";
  const auto total = static_cast<std::int64_t>(std::llround(seconds));
  const std::int64_t minutes = total / 60, hours = total / 3600, days = total / 86400;
  if (minutes == 0) return fmt::format("{}s", total);
  if (hours == 0) return fmt::format("{}m{:02}s", minutes, total % 60);
  if (days == 0) return fmt::format("{}h{:02}m", hours, minutes % 60);
  return fmt::format("{}d{:02}h", days, hours % 24);
}

std::string format_progress(const ProgressState& state, int width) {
  std::vector<Part> parts = progress_parts(state);
  std::string line = join(parts);
  if (width <= 0) return line;
  const auto limit = static_cast<std::size_t>(width);
  while (line.size() > limit && parts.size() > 1) {
    parts.erase(std::ranges::max_element(parts, {}, &Part::rank));
    line = join(parts);
  }
  return line.substr(0, limit);
}

ProgressDisplay::Mode ProgressDisplay::detect(std::FILE* stream) {
  const char* terminal = std::getenv("TERM");
  const bool is_dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return ::isatty(::fileno(stream)) == 1 && !is_dumb ? Mode::kTerminal : Mode::kLog;
}

void ProgressDisplay::update(const ProgressState& state) {
  if (mode_ != Mode::kTerminal) return;
  shown_ = state;
  const auto now = std::chrono::steady_clock::now();
  const bool is_last = state.total_steps > 0 && state.step >= state.total_steps;
  if (last_draw_ && !is_last && now - *last_draw_ < kRedrawInterval) return;
  last_draw_ = now;
  draw();
}

void ProgressDisplay::draw() {
  // One column stays free, as many terminals wrap a full line. \x1b[K clears the rest of a longer line.
  const std::string line = format_progress(shown_, std::max(1, terminal_width(stream_).value_or(kDefaultWidth) - 1));
  std::fprintf(stream_, "\r%s\x1b[K", line.c_str());
  std::fflush(stream_);
  line_is_open_ = true;
}

void ProgressDisplay::log(const ProgressState& state) {
  if (mode_ != Mode::kLog) return;
  std::fprintf(stream_, "%s\n", format_progress(state).c_str());
  std::fflush(stream_);
}

void ProgressDisplay::message(std::string_view text) {
  if (mode_ == Mode::kSilent) return;
  if (line_is_open_) std::fputs("\r\x1b[K", stream_);
  std::fprintf(stream_, "%s\n", printable(text).c_str());
  std::fflush(stream_);
  if (line_is_open_) draw();
}

void ProgressDisplay::finish() {
  if (!line_is_open_) return;
  draw();
  std::fputs("\n", stream_);
  std::fflush(stream_);
  line_is_open_ = false;
}

}  // namespace terngrad
