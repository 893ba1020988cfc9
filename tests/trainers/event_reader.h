// Reads TensorBoard event files, from the format's specification and independently of the writer.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "trainers/io/atomic_file.h"
#include "trainers/io/tensorboard.pb.h"

namespace terngrad::testing {

inline std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (auto byte = bytes.rbegin(); byte != bytes.rend(); ++byte) value = value << 8 | static_cast<unsigned char>(*byte);
  return value;
}

/// Masked CRC-32C, computed bit by bit.
inline std::uint32_t slow_masked_crc32c(std::string_view data) {
  std::uint32_t crc = 0xffffffffu;
  for (const char byte : data) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/// Events of a file; fails the test for a wrong length or checksum.
inline std::vector<tensorboard::Event> read_events(const std::filesystem::path& path) {
  std::vector<tensorboard::Event> events;
  const std::string text = read_file_text(path);
  for (std::string_view rest = text; !rest.empty();) {
    const std::uint64_t length = rest.size() < 16 ? rest.size() : little_endian(rest.substr(0, 8));
    if (length > rest.size() - 16) {
      ADD_FAILURE() << path << ": a record is cut short";
      break;
    }
    const std::string_view data = rest.substr(12, length);
    EXPECT_EQ(little_endian(rest.substr(8, 4)), slow_masked_crc32c(rest.substr(0, 8)));
    EXPECT_EQ(little_endian(rest.substr(12 + length, 4)), slow_masked_crc32c(data));
    EXPECT_TRUE(events.emplace_back().ParseFromArray(data.data(), static_cast<int>(length)));
    rest.remove_prefix(length + 16);
  }
  return events;
}

/// Event files of a folder in order of names.
inline std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().find("tfevents") != std::string::npos) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// A scalar as TensorBoard shows it.
struct SeenScalar {
  std::int64_t step = 0;
  std::string tag;
  float value = 0;

  friend bool operator==(const SeenScalar&, const SeenScalar&) = default;
};

/// Scalars that TensorBoard shows for a folder: files in order of names; a session start drops earlier scalars of its
/// step and later.
inline std::vector<SeenScalar> seen_scalars(const std::filesystem::path& folder) {
  std::vector<SeenScalar> seen;
  for (const auto& path : event_files(folder)) {
    for (const tensorboard::Event& event : read_events(path)) {
      if (event.has_session_log()) std::erase_if(seen, [&](const SeenScalar& s) { return s.step >= event.step(); });
      for (const auto& value : event.summary().value()) {
        if (value.has_simple_value()) seen.push_back({event.step(), value.tag(), value.simple_value()});
      }
    }
  }
  return seen;
}

}  // namespace terngrad::testing
