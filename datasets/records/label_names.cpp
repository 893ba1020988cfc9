#include "datasets/records/label_names.h"

#include <charconv>
#include <string_view>
#include <utility>

#include "datasets/formats/image_example.h"
#include "datasets/formats/input_file.h"
#include "datasets/formats/text_lines.h"
#include "datasets/records/shards.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

LabelNames parse_label_names(const std::string& file, std::span<const std::uint8_t> text) {
  LabelNames names;
  for (const auto& [number, line] : text_lines(text)) {
    const std::size_t colon = line.find(':');
    std::int32_t label = -1;
    const char* end = line.data() + std::min(colon, line.size());
    const auto parsed = std::from_chars(line.data(), end, label);
    if (colon == std::string_view::npos || parsed.ec != std::errc() || parsed.ptr != end || label < 0 ||
        label > kMaxImageLabel) {
      TERNGRAD_THROW(DataError, "'", file, "': line ", number, ": expected a label from 0 to ", kMaxImageLabel,
                     ", a colon and a name, found '", line.substr(0, 40), "'");
    }
    if (!names.emplace(label, std::string(line.substr(colon + 1))).second) {
      TERNGRAD_THROW(DataError, "'", file, "': line ", number, ": label ", label, " is there twice");
    }
  }
  if (names.empty()) TERNGRAD_THROW(DataError, "'", file, "' names no labels: expected lines such as 0:cat");
  return names;
}

std::optional<LabelNames> read_label_names(const std::filesystem::path& folder) {
  const std::filesystem::path path = file_beside_shards(folder, "labels.txt");
  if (!path_exists(path)) return std::nullopt;
  return parse_label_names(path.string(), InputFile(path).read_all());
}

std::string to_text(const LabelNames& names) {
  std::string text;
  for (const auto& [label, name] : names) text += std::to_string(label) + ":" + name + "\n";
  return text;
}

}  // namespace terngrad
