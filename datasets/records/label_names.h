// labels.txt: class names of the labels in records.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace terngrad {

/// Class names by stored label.
using LabelNames = std::map<std::int32_t, std::string>;

/// Parses lines `label:name`, as slim writes them; empty lines and \r are ignored.
/// @param file  name for messages
/// @throws DataError, naming file and line, for an invalid line, a label that is repeated or outside [0, 2^20), a file
/// without labels
LabelNames parse_label_names(const std::string& file, std::span<const std::uint8_t> text);

/// Parses labels.txt (file_beside_shards); nothing if there is none.
std::optional<LabelNames> read_label_names(const std::filesystem::path& folder);

/// Text that parse_label_names reads: one line per label, ascending.
std::string to_text(const LabelNames& names);

}  // namespace terngrad
