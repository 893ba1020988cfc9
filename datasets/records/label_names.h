// labels.txt: what the labels of records stand for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace terngrad {

/// Names by stored label.
using LabelNames = std::map<std::int32_t, std::string>;

/// Parses lines `label:name`, as slim writes them; empty lines and \r are passed over.
/// @param file  name for messages
/// @throws DataError, naming file and line, for a line of another form, a label twice or outside [0, 2^20), a file
/// without labels
LabelNames parse_label_names(const std::string& file, std::span<const std::uint8_t> text);

/// The same of `folder`/labels.txt; nothing if there is no such file.
std::optional<LabelNames> read_label_names(const std::filesystem::path& folder);

/// What parse_label_names reads: ascending, a line each.
std::string to_text(const LabelNames& names);

}  // namespace terngrad
