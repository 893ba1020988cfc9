#include "trainers/io/terminal_width.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace terngrad {
namespace {

constexpr int kDefaultTextWidth = 80;
constexpr int kMinTextWidth = 40;
constexpr int kMostTextWidth = 120;

std::optional<int> width_of_environment() {
  const char* const value = std::getenv("COLUMNS");
  if (value == nullptr) return std::nullopt;
  const std::string_view text(value);
  int width = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), width);
  if (error != std::errc{} || end != text.data() + text.size() || width <= 0) return std::nullopt;
  return width;
}

}  // namespace

std::optional<int> terminal_width(std::FILE* stream) {
  struct winsize size = {};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

int text_width(std::FILE* stream) {
  std::optional<int> width = width_of_environment();
  if (!width) width = terminal_width(stream);
  return std::clamp(width.value_or(kDefaultTextWidth), kMinTextWidth, kMostTextWidth);
}

}  // namespace terngrad
