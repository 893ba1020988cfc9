#include "trainers/io/metrics.h"

#include <fcntl.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/runtime/errors.h"
#include "trainers/io/atomic_file.h"

namespace terngrad {
namespace {

template <class Json>
std::optional<std::uint64_t> step_of(const Json& record) {
  if (!record.is_object()) return std::nullopt;
  const auto step = record.find("step");
  if (step == record.end() || !step->is_number_integer()) return std::nullopt;
  if (!step->is_number_unsigned() && step->template get<std::int64_t>() < 0) return std::nullopt;
  return step->template get<std::uint64_t>();
}

std::optional<std::uint64_t> step_of_line(std::string_view line) {
  return step_of(nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false));
}

}  // namespace

MetricsWriter::MetricsWriter(Folder folder, std::string name, OnWriteError on_error)
    : file_(std::move(folder), std::move(name), 0, on_error) {
  if (file_.file().num_bytes() == 0) return;
  const std::string text = read_file_text(file_.file());
  if (text.back() != '\n') file_.file().truncate(static_cast<std::int64_t>(text.rfind('\n') + 1));
}

MetricsWriter::MetricsWriter(const std::filesystem::path& path, OnWriteError on_error)
    : MetricsWriter(Folder::of(path), path.filename().string(), on_error) {}

void MetricsWriter::write(const nlohmann::ordered_json& record) {
  TERNGRAD_REQUIRE(step_of(record).has_value(), "[MetricsWriter] a record needs an integer \"step\" of 0 or more");
  file_.append(record.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  if (follower_) follower_(record);
}

std::int64_t truncate_to_step(const std::filesystem::path& path, std::uint64_t step) {
  return truncate_to_step(Folder::of(path), path.filename().string(), step);
}

std::int64_t truncate_to_step(const Folder& folder, const std::string& name, std::uint64_t step) {
  if (!folder.has(name)) return 0;
  const std::string text = read_file_text(folder.open(name, O_RDONLY));
  std::string kept;
  std::int64_t num_removed = 0;
  std::int64_t line_number = 0;
  std::optional<std::int64_t> first_bad_line;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t newline = text.find('\n', begin);
    const bool is_complete = newline != std::string::npos;
    const std::size_t end = is_complete ? newline + 1 : text.size();
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end;
    ++line_number;
    const std::optional<std::uint64_t> line_step = is_complete ? step_of_line(line) : std::nullopt;
    if (!line_step && !first_bad_line) first_bad_line = line_number;
    if (line_step && first_bad_line) {
      TERNGRAD_THROW(DataError, "'", (folder.path() / name).string(), "' line ", *first_bad_line,
                     " is not a JSON object with a \"step\"");
    }
    if (line_step && *line_step <= step) {
      kept += line;
    } else {
      ++num_removed;
    }
  }
  if (num_removed > 0) write_file_atomically(folder, name, kept);
  return num_removed;
}

}  // namespace terngrad
