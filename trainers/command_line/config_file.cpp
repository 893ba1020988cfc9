#include "trainers/command_line/config_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <sstream>
#include <string_view>
#include <utility>

#include "kernels/runtime/errors.h"
#include "trainers/io/file_descriptor.h"

namespace terngrad {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

/// Instead of read_file_text, as the size of a pipe is only known at its end.
std::string read_to_end(const std::string& path) {
  const FileDescriptor file(path, O_RDONLY);
  std::string text;
  std::array<char, 4096> piece;
  while (true) {
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_file_error("read", path, errno);
    if (got == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
    if (text.size() > kMostBytes) {
      TERNGRAD_THROW(DataError, "'", path, "' holds more than the ", kMostBytes, " bytes accepted here");
    }
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

}  // namespace

std::vector<ConfigLine> read_config_lines(const std::string& path) {
  std::vector<ConfigLine> all;
  std::istringstream lines(read_to_end(path));
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string_view content = trim(line);
    if (content.empty() || content[0] == '#') continue;
    const std::size_t equals = content.find('=');
    ConfigLine read{.number = number, .name = std::string(trim(content.substr(0, equals))), .value = {}};
    read.has_value = equals != std::string_view::npos;
    if (read.has_value) read.value = trim(content.substr(equals + 1));
    all.push_back(std::move(read));
  }
  return all;
}

}  // namespace terngrad
