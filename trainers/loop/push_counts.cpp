#include "trainers/loop/push_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad {

std::uint64_t PushCounts::total() const {
  std::uint64_t sum = 0;
  for (const auto& [staleness_of_push, pushes] : staleness) sum += pushes;
  return sum;
}

double PushCounts::mean_staleness() const {
  double sum = 0;
  for (const auto& [staleness_of_push, pushes] : staleness) {
    sum += static_cast<double>(staleness_of_push) * static_cast<double>(pushes);
  }
  return sum / static_cast<double>(std::max<std::uint64_t>(total(), 1));
}

PushCounts& PushCounts::operator+=(const PushCounts& other) {
  for (const auto& [staleness_of_push, pushes] : other.staleness) staleness[staleness_of_push] += pushes;
  dropped += other.dropped;
  skipped += other.skipped;
  return *this;
}

std::string PushCounts::to_text() const {
  std::string text;
  for (const auto& [staleness_of_push, pushes] : staleness) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", staleness_of_push, pushes);
  }
  return text + fmt::format(";{};{}", dropped, skipped);
}

std::string PushCounts::to_table() const {
  if (staleness.empty()) return "no pushes\n";
  constexpr std::uint64_t kMaxLines = 24;
  constexpr double kBarLength = 40;
  const std::uint64_t max = staleness.rbegin()->first;
  const std::uint64_t width = max / kMaxLines + 1;
  std::vector<std::uint64_t> lines(static_cast<std::size_t>(max / width) + 1);
  for (const auto& [staleness_of_push, pushes] : staleness) {
    lines[static_cast<std::size_t>(staleness_of_push / width)] += pushes;
  }
  const auto all = static_cast<double>(total());
  const auto most = static_cast<double>(std::ranges::max(lines));
  std::string text = fmt::format("{:>13} {:>10} {:>8}\n", "staleness", "pushes", "fraction");
  for (std::size_t line = 0; line < lines.size(); ++line) {
    const std::uint64_t first = line * width;
    const std::string range = width == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, first + width - 1);
    const auto pushes = static_cast<double>(lines[line]);
    const std::string bar(static_cast<std::size_t>(std::lround(pushes / most * kBarLength)), '#');
    text += fmt::format("{:>13} {:>10} {:>7.2f}%{}{}\n", range, lines[line], 100 * pushes / all, bar.empty() ? "" : " ",
                        bar);
  }
  return text + fmt::format("mean staleness {:.3f}; {} pushes, {} dropped as too stale, {} skipped as not finite\n",
                            mean_staleness(), total(), dropped, skipped);
}

PushCounts parse_push_counts(const std::string& text) {
  PushCounts counts;
  std::istringstream in(text);
  std::uint64_t staleness_of_push = 0;
  std::uint64_t pushes = 0;
  char mark = 0;
  bool is_sound = true;
  while (is_sound && in.peek() != ';') {
    is_sound = static_cast<bool>(in >> staleness_of_push >> mark >> pushes);
    counts.staleness[staleness_of_push] = pushes;
    if (in.peek() == ',') in.get();
  }
  in >> mark >> counts.dropped >> mark >> counts.skipped;
  // Comparing with to_text detects all other errors.
  if (!is_sound || !in || counts.to_text() != text) {
    TERNGRAD_THROW(DataError, "counts of pushes are '", text, "', expected staleness:pushes,...;dropped;skipped");
  }
  return counts;
}

}  // namespace terngrad
